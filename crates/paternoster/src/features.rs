// SPDX-License-Identifier: MIT OR Apache-2.0
//! Features: what this program may have been built without, and what it says then.
//!
//! ```text
//! default       everything
//! serve         serve, ctl, top
//! instruments   fio jobs, other workloads and traces in virtual time; with serve: emulate, jobs on
//!               real devices, replay --decisions, the server's models and traces
//! lab           instruments, and reproduce, scoreboard, guarantees, torture; with serve:
//!               versus-kernel
//! ```
//!
//! `serve` alone has no simulator and no reader or writer of traces in it: what runs as a server
//! for years holds nothing that it does not need (`tests/all/features.rs`).
//!
//! A command that was left out is refused with the feature that it needs, not as unknown; a
//! misspelt one with the name that was probably meant.

use paternoster_core::near;
use paternoster_frame::Failure;

/// Commands that need features.
const NEEDS: [(&str, &str, bool); 25] = [
    ("serve", "serve", cfg!(feature = "serve")),
    ("ctl", "serve", cfg!(feature = "serve")),
    ("top", "serve", cfg!(feature = "serve")),
    ("emulate", "instruments,serve", cfg!(all(feature = "instruments", feature = "serve"))),
    ("reproduce", "lab", cfg!(feature = "lab")),
    ("scoreboard", "lab", cfg!(feature = "lab")),
    ("guarantees", "lab", cfg!(feature = "lab")),
    ("torture", "lab", cfg!(feature = "lab")),
    ("versus-kernel", "lab,serve", cfg!(all(feature = "lab", feature = "serve"))),
    ("run", "instruments", cfg!(feature = "instruments")),
    ("compare", "instruments", cfg!(feature = "instruments")),
    ("tiotest", "instruments", cfg!(feature = "instruments")),
    ("tiobench", "instruments", cfg!(feature = "instruments")),
    ("disktest", "instruments", cfg!(feature = "instruments")),
    ("iostest", "instruments", cfg!(feature = "instruments")),
    ("dd", "instruments", cfg!(feature = "instruments")),
    ("startup", "instruments", cfg!(feature = "instruments")),
    ("sysbench", "instruments", cfg!(feature = "instruments")),
    ("replay", "instruments", cfg!(feature = "instruments")),
    ("sweep", "instruments", cfg!(feature = "instruments")),
    ("analyze", "instruments", cfg!(feature = "instruments")),
    ("record", "instruments", cfg!(feature = "instruments")),
    ("devices", "instruments", cfg!(feature = "instruments")),
    ("cost-model", "instruments", cfg!(feature = "instruments")),
    ("examples", "instruments", cfg!(feature = "instruments")),
];

/// The refusal of a command that this program was built without.
pub(crate) fn absent(words: &[String]) -> Option<Failure> {
    let command = words.get(1)?;
    let (name, feature, _) = NEEDS.iter().find(|(name, _, here)| name == command && !here)?;
    Some(Failure::left_out(name, feature))
}

/// The refusal of a misspelt command.
pub(crate) fn misspelt(words: &[String]) -> Option<Failure> {
    let wrong = words.get(1).filter(|word| !word.starts_with('-') && *word != "help")?;
    let program = crate::help::program();
    let names = || program.get_subcommands().map(clap::Command::get_name);
    if names().any(|name| name == wrong) {
        return None;
    }
    let near = near::nearest(wrong, names())?;
    Some(Failure::Request(format!(
        "there is no command `{wrong}`; did you mean `{near}`? `paternoster --help` lists them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is a command refused exactly if it was left out?
    #[test]
    fn what_was_left_out_is_refused() {
        for (name, feature, here) in NEEDS {
            let words = ["paternoster", name].map(String::from);
            match absent(&words) {
                None => assert!(here, "{name}"),
                Some(Failure::Request(message)) => {
                    assert!(!here, "{name}");
                    assert!(message.contains(&format!("--features {feature}")), "{message}");
                }
                Some(other) => panic!("{other:?}"),
            }
        }
        assert!(absent(&["paternoster".into(), "schedulers".into()]).is_none());
        assert!(absent(&["paternoster".into()]).is_none());
    }

    /// Does the message name the command that was nearly written, and is everything else left to
    /// clap?
    #[test]
    fn a_command_nearly_named_is_said() {
        let refusal = |word: &str| misspelt(&["paternoster".to_owned(), word.to_owned()]);
        let Some(Failure::Request(message)) = refusal("mna") else { panic!("it is one") };
        assert!(message.starts_with("there is no command `mna`; did you mean `man`?"), "{message}");
        assert!(["man", "help", "--help", "xyzzyxyzzy"].into_iter().all(|w| refusal(w).is_none()));
    }
}
