// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice: a scheduler with its attributes and a device, from what a person writes.

use paternoster_base::schedulers;
use paternoster_core::{
    AttributeError, DeviceFacts, Elevator, Limits, Nanos, Observer, RequestQueue, near,
};
#[cfg(feature = "instruments")]
use paternoster_sim::{Description, catalog};

use crate::Failure;
#[cfg(feature = "instruments")]
use crate::context;

/// `NAME[:ATTRIBUTE=VALUE,…]`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulerChoice {
    /// The choice as written, for tables.
    pub text: String,
    /// Its name, without attributes.
    pub name: String,
    attributes: Vec<(String, String)>,
}

impl SchedulerChoice {
    /// Reads it.
    ///
    /// # Errors
    /// There is no such scheduler, or an attribute without a value.
    pub fn parse(text: &str) -> Result<SchedulerChoice, Failure> {
        let (name, attributes) = text.split_once(':').unwrap_or((text, ""));
        if schedulers::by_name(name).is_none() {
            let hint = near::hint(name, schedulers::choices().map(|entry| entry.name));
            return Err(Failure::Request(format!(
                "--scheduler {text}: there is no scheduler `{name}`{hint}"
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

    /// A new one of it.
    pub fn make(&self) -> Box<dyn Elevator> {
        schedulers::by_name(&self.name)
            .unwrap_or_else(|| Box::new(paternoster_schedulers::Noop::new()))
    }

    /// The attributes, in the order in which they are set.
    pub fn attributes(&self) -> &[(String, String)] {
        &self.attributes
    }

    /// Whether an attribute of its own has this value.
    pub fn asks(&self, name: &str, value: &str) -> bool {
        self.attributes.iter().any(|(own, text)| short(own) == name && text == value)
    }

    /// The same, written the same, with another value for an attribute that it names.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> SchedulerChoice {
        let mut other = self.clone();
        for (_, text) in other.attributes.iter_mut().filter(|(own, _)| short(own) == name) {
            value.clone_into(text);
        }
        other
    }

    /// Sets the requested attributes: those for all schedulers first, then those for this one.
    pub fn prepare<O: Observer>(
        &self,
        queue: &mut RequestQueue<O>,
        for_all: &[(String, String)],
    ) -> Result<(), Failure> {
        for (name, value) in for_all.iter().chain(&self.attributes) {
            // sysfs would silently bring a number into the range; here it is refused.
            let taken = queue.check_attribute(name, value);
            taken.and_then(|()| queue.set_attribute(Nanos::ZERO, name, value)).map_err(|error| {
                let (text, more) = (&self.text, more(queue, name, &error));
                let stop = if more.ends_with('?') { "" } else { ";" };
                Failure::Request(format!(
                    "{name}={value} for {text}: {error}{more}{stop} `paternoster schedulers {}` \
                     lists them",
                    self.name
                ))
            })?;
        }
        Ok(())
    }
}

/// An idle queue, with these attributes (`NAME=VALUE`) and the scheduler's own.
pub fn queue(name: &str, facts: DeviceFacts, set: &[String]) -> Result<RequestQueue, Failure> {
    let set = set.iter().map(|text| assignment("--set", text)).collect::<Result<Vec<_>, _>>()?;
    let choice = SchedulerChoice::parse(name)?;
    let limits = Limits { requests: 768, ..Limits::default() };
    let mut queue = RequestQueue::builder(facts, choice.make()).limits(limits).build()?;
    choice.prepare(&mut queue, &set)?;
    Ok(queue)
}

/// What the error about an attribute does not say: the intended name, or the unit.
fn more<O: Observer>(queue: &RequestQueue<O>, name: &str, error: &AttributeError) -> String {
    let mut known: Vec<(String, &str)> = Vec::new();
    queue.for_each_attribute(|path, attribute, _| {
        known.push((short(path).to_owned(), attribute.unit));
    });
    let names = || known.iter().map(|(name, _)| name.as_str());
    let near = match error {
        AttributeError::Unknown { .. } => near::nearest(short(name), names()),
        _ => None,
    };
    let unit = known.iter().find(|(known, unit)| known == short(name) && !unit.is_empty());
    match (near, error, unit) {
        (Some(near), ..) => format!("; did you mean `{near}`?"),
        (_, AttributeError::Value { .. }, Some((_, unit))) => format!(", in {unit}"),
        _ => String::new(),
    }
}

/// An attribute's name without its folder.
fn short(path: &str) -> &str {
    path.strip_prefix("iosched/").unwrap_or(path)
}

/// An attribute for all schedulers, as given to `--set`.
pub fn for_all(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = assignment("--set", text)?;
    let one = name.split_once(':').map(|(one, _)| one);
    if one.is_some_and(|one| schedulers::by_name(one).is_some()) {
        return Err(Failure::Request(format!(
            "--set {text}: it is for all schedulers; for one of them write --scheduler {text}"
        )));
    }
    Ok((name, value))
}

/// `NAME=VALUE`, as given to `option`.
pub fn assignment(option: &str, text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Failure::Request(format!("{option}: `{text}` is not ATTRIBUTE=VALUE"))),
    }
}

#[cfg(feature = "instruments")]
/// A device by name, or from a device file.
pub fn device(name: &str) -> Result<Description, Failure> {
    if let Some(device) = catalog::by_name(name) {
        return Ok(device?);
    }
    let looks_like_a_file = name.contains('/')
        || std::path::Path::new(name).extension().is_some_and(|extension| extension == "toml");
    if !looks_like_a_file {
        let hint = near::hint(name, catalog::FILES.iter().map(|(name, _)| *name));
        return Err(Failure::Request(format!(
            "there is no device `{name}`{hint}, or name a device file (FILE.toml)"
        )));
    }
    if let Some(text) = context::file(name) {
        return Ok(Description::parse(name, &text)?);
    }
    // Others, like /dev/zero, have no end.
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

    /// Is what a person writes taken apart, and are mistakes named?
    #[test]
    fn schedulers_have_attributes() {
        let choice = SchedulerChoice::parse("deadline:fifo_batch=1,read_expire=50").unwrap();
        assert_eq!(choice.name, "deadline");
        assert_eq!(choice.attributes[1], ("read_expire".to_owned(), "50".to_owned()));
        assert!(SchedulerChoice::parse("none").is_ok());
        assert!(refusal("anticipatory").contains("; known are none, noop, deadline"));
        assert!(refusal("bqf").contains("there is no scheduler `bqf`; did you mean `bfq`?"));
        assert_eq!(refusal("noop:x"), "--scheduler: `x` is not ATTRIBUTE=VALUE");
    }

    /// If `--set` names one scheduler, does the message say how to set its attribute?
    #[test]
    fn an_attribute_of_one_scheduler_is_sent_to_its_option() {
        let Err(Failure::Request(message)) = for_all("cfq:slice_idle=0") else { panic!("wrong") };
        assert!(message.ends_with("write --scheduler cfq:slice_idle=0"), "{message}");
        let set = ("nr_requests".to_owned(), "8".to_owned());
        assert!(matches!(for_all("nr_requests=8"), Ok(found) if found == set));
    }

    /// Does the message name the device that was probably meant?
    #[cfg(feature = "instruments")]
    #[test]
    fn a_device_nearly_named_is_said() {
        let Err(Failure::Request(message)) = device("ssd-870") else { panic!("it is one") };
        let start = "there is no device `ssd-870`; did you mean `ssd-870evo`? Known are array-eva";
        assert!(message.starts_with(start), "{message}");
    }

    /// Is an attribute refused with the name, the range and the unit that would be right?
    #[test]
    fn attributes_are_refused_with_a_remedy() {
        let message = |text: &str, set: &[(String, String)]| {
            let choice = SchedulerChoice::parse(text).unwrap();
            let facts = DeviceFacts::default();
            let mut queue =
                RequestQueue::builder(facts, choice.make()).build().expect("its limits work");
            match choice.prepare(&mut queue, set) {
                Err(Failure::Request(message)) => message,
                other => panic!("{text}: {other:?}"),
            }
        };
        let set = [("nr_request".to_owned(), "8".to_owned())];
        let unknown = message("bfq", &set);
        assert!(unknown.contains("no attribute `nr_request`; did you mean `nr_requests`?"));
        for text in ["bfq:slice_idle=-1", "bfq:slice_idle=8ms"] {
            let wrong = message(text, &[]);
            assert!(wrong.contains("it takes a whole number from 0"), "{wrong}");
            assert!(wrong.contains(", in ms; `paternoster schedulers bfq` lists"), "{wrong}");
        }
    }
}
