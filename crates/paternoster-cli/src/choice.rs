// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice: a scheduler with its attributes and a device, by what a person writes.

use std::path::Path;

use paternoster::{Elevator, Nanos, Observer, RequestQueue, elevators};
use paternoster_sim::{Description, catalog};

use crate::Failure;

/// `NAME[:ATTRIBUTE=VALUE,…]`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchedulerChoice {
    /// As written, for tables.
    pub(crate) text: String,
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl SchedulerChoice {
    pub(crate) fn parse(text: &str) -> Result<SchedulerChoice, Failure> {
        let (name, attributes) = text.split_once(':').unwrap_or((text, ""));
        if elevators::by_name(name).is_none() {
            let names: Vec<&str> = elevators::ALL.iter().map(|entry| entry.name).collect();
            let known = names.join(", ");
            return Err(Failure::Request(format!(
                "--scheduler {text}: there is no scheduler `{name}`; there are {known}"
            )));
        }
        let attributes = attributes.split(',').filter(|part| !part.is_empty());
        let attributes = attributes.map(|part| assignment("--scheduler", part));
        Ok(SchedulerChoice {
            text: text.to_owned(),
            name: name.to_owned(),
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn make(&self) -> Box<dyn Elevator> {
        elevators::by_name(&self.name).unwrap_or_else(|| Box::new(elevators::Noop::new()))
    }

    /// The attributes, in the order in which they are set.
    #[cfg(feature = "serve")]
    pub(crate) fn attributes(&self) -> &[(String, String)] {
        &self.attributes
    }

    /// Sets what was asked for: for all schedulers first, then for this one.
    pub(crate) fn prepare<O: Observer>(
        &self,
        queue: &mut RequestQueue<O>,
        for_all: &[(String, String)],
    ) -> Result<(), Failure> {
        for (name, value) in for_all.iter().chain(&self.attributes) {
            queue.set_attribute(Nanos::ZERO, name, value).map_err(|error| {
                let text = &self.text;
                Failure::Request(format!(
                    "{name}={value} for {text}: {error}; `paternoster schedulers {}` lists them",
                    self.name
                ))
            })?;
        }
        Ok(())
    }
}

/// `NAME=VALUE`, as given to `option`.
pub(crate) fn assignment(option: &str, text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::Request(format!("{option}: `{text}` is not ATTRIBUTE=VALUE"))),
    }
}

/// A device by name, or from a device file.
pub(crate) fn device(name: &str) -> Result<Description, Failure> {
    if let Some(device) = catalog::by_name(name) {
        return Ok(device?);
    }
    let looks_like_a_file = name.contains('/')
        || Path::new(name).extension().is_some_and(|extension| extension == "toml");
    if !looks_like_a_file {
        let names: Vec<&str> = catalog::FILES.iter().map(|(name, _)| *name).collect();
        let known = names.join(", ");
        return Err(Failure::Request(format!(
            "there is no device `{name}`; there are {known}, or name a device file (FILE.toml)"
        )));
    }
    // Others, as /dev/zero, have no end.
    if std::fs::metadata(name).is_ok_and(|it| !it.is_file()) {
        let message = format!("{name}: it is neither a file nor a block device");
        return Err(Failure::Request(message));
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| Failure::Request(format!("device file {name}: {error}")))?;
    Ok(Description::parse(name, &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        match SchedulerChoice::parse(text) {
            Err(Failure::Request(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    /// Is what a person writes taken apart, and what is wrong with it said?
    #[test]
    fn schedulers_have_attributes() {
        let choice = SchedulerChoice::parse("deadline:fifo_batch=1,read_expire=50").unwrap();
        assert_eq!(choice.name, "deadline");
        assert_eq!(choice.attributes[1], ("read_expire".to_owned(), "50".to_owned()));
        assert!(SchedulerChoice::parse("none").is_ok());
        assert!(refusal("anticipatory").contains("there are noop, deadline, mq-deadline"));
        assert_eq!(refusal("noop:x"), "--scheduler: `x` is not ATTRIBUTE=VALUE");
    }
}
