// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failure: why the program ends early, and how results get out.
//!
//! ```text
//! Request   what was asked for is wrong        2
//! Job       it was done, and failed            1
//! Status    the reason was printed already     what it says
//! ```
//!
//! Every command returns one, and prints with [`print`]; which results are printed in which format
//! is in `format.rs`.

use std::io::{ErrorKind, Write};

/// Why the program ends without having carried out the request; printed on stderr.
#[derive(Debug)]
pub enum Failure {
    /// The request was wrong: exit status 2.
    Request(String),
    /// A job failed, or a judged figure is outside: exit status 1.
    Job(String),
    /// The reason was already printed: by a command that was run for the user, or after an
    /// interrupt.
    Status(u8),
}

impl Failure {
    /// The same failure with context: what failed. (For the laboratory's runs and steps.)
    pub fn of(self, what: &str) -> Failure {
        match self {
            Failure::Request(message) => Failure::Request(format!("{what}: {message}")),
            Failure::Job(message) => Failure::Job(format!("{what}: {message}")),
            Failure::Status(status) => Failure::Status(status),
        }
    }

    /// The refusal of `what`, which needs a program with `feature`.
    pub fn left_out(what: &str, feature: &str) -> Failure {
        Failure::Request(format!(
            "{what}: this program was built without it; build it with `--features {feature}`, or \
             with the default features"
        ))
    }

    /// The exit status, and the message that is still to be printed.
    pub fn said(self) -> (u8, Option<String>) {
        match self {
            Failure::Status(status) => (status, None),
            Failure::Job(message) => (1, Some(message)),
            Failure::Request(message) => (2, Some(message)),
        }
    }
}

impl<T: std::error::Error> From<T> for Failure {
    fn from(error: T) -> Failure {
        Failure::Request(error.to_string())
    }
}

/// Prints a result. A reader that closes the pipe early has seen enough.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same of what is no text.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does a failure keep its status when context is added to its message, and is a message that
    /// was printed already not printed again?
    #[test]
    fn failures_are_said_once() {
        let said = |failure: Failure| failure.of("run a").said();
        assert_eq!(said(Failure::Request("no".to_owned())), (2, Some("run a: no".to_owned())));
        assert_eq!(said(Failure::Job("no".to_owned())), (1, Some("run a: no".to_owned())));
        assert_eq!(said(Failure::Status(130)), (130, None));
    }
}
