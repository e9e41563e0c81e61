// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both: runs one job file with the installed fio and with ours; returns the I/Os that each made.
//!
//! Every section records its I/O in a log of its own (`write_iolog`), clone by clone:
//!
//! ```text
//! fio    l0: a.0.0 read 0 4096 …   a.1.0 read 0 4096 …     clones append to one file
//! ours   l0: a.0.0 read 0 4096 …   l0.1: a.1.0 …           each has its own
//! ```
//!
//! So the I/Os of clones are distinguished by the names of their files (`a.1.0`), and clones that
//! share a file are not judged beyond the first. A sync counts with its kind and its file; the
//! offset that fio writes with it is that of the last I/O there, and means nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use paternoster_core::NoObserver;
use paternoster_sim::{Simulated, catalog};
use paternoster_workload::process::record::Output;
use paternoster_workload::{RunError, Settings, Watcher, run};

use crate::common::jobs_of;

/// Seconds of CPU that each process of fio has for one file; every job here ends in milliseconds.
const CPU_SECONDS: u32 = 3;
/// Seconds of wall-clock time for fio, however busy the machine.
const SECONDS: u32 = 60;
/// Blocks of 512 bytes of its largest file: 16 MiB.
const BLOCKS_MOST: u32 = 32_768;

/// What fio answers that used up its CPU, or filled its log.
pub(crate) const ENDLESS: &str = "it does not end";
/// fio was still running, or sleeping, when its wall-clock time was over.
pub(crate) const LATE: &str = "it did not end in time";

/// One I/O: file, operation, offset, bytes; the last two are 0 for syncs.
pub(crate) type Io = (String, String, u64, u64);

/// The I/Os of one section, in the order of each clone.
pub(crate) type Ios = Vec<Io>;

/// By the name of the log; or why nothing was run.
pub(crate) type Answer = Result<BTreeMap<String, Ios>, String>;

/// The files that jobs write about themselves, in memory.
#[derive(Default)]
struct Kept(BTreeMap<String, Rc<RefCell<Vec<u8>>>>);

/// One of them.
struct Page(Rc<RefCell<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watcher for Kept {
    fn create(&mut self, name: &str) -> io::Result<Output> {
        let page = Rc::new(RefCell::new(Vec::new()));
        self.0.insert(name.to_owned(), Rc::clone(&page));
        Ok(Box::new(Page(page)))
    }
}

/// What we make of a job file.
pub(crate) fn ours(text: &str) -> Answer {
    let jobs = jobs_of(text).map_err(|problems| {
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    })?;
    let device = catalog::by_name("ssd-870evo").expect("it is known").expect("it is sound");
    let (mut model, mut kept) = (Simulated::new(device.model()), Kept::default());
    let elevator = paternoster_schedulers::by_name("noop").expect("it is known");
    let settings = Settings::default();
    let done: Result<_, RunError> =
        run(&jobs.jobs, &settings, &mut model, elevator, NoObserver, |_| Ok(()), &mut kept);
    let (result, ..) = done.map_err(|error| error.to_string())?;
    if let Some(failed) = result.processes.iter().find(|process| process.error != 0) {
        return Err(format!("job {} ended with errno {}", failed.job, failed.error));
    }
    let mut logs: BTreeMap<String, Ios> = BTreeMap::new();
    for (name, page) in kept.0 {
        let of_section = name.split('.').next().unwrap_or(&name).to_owned();
        let text = String::from_utf8(page.borrow().clone()).expect("a log is text");
        logs.entry(of_section).or_default().extend(text.lines().filter_map(io_of_line));
    }
    Ok(logs.into_iter().map(|(name, ios)| (name, by_clone(ios))).collect())
}

/// What the installed fio makes of it, in a folder that may hold only this.
pub(crate) fn theirs(text: &str, folder: &Path) -> Answer {
    let _none = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("a folder in memory");
    fs::write(folder.join("job.fio"), text).expect("a file in it");
    // A job that does not end would fill the memory with its log.
    let limits = format!("ulimit -t {CPU_SECONDS}; ulimit -f {BLOCKS_MOST}");
    let output = Command::new("sh")
        .args(["-c", &format!("{limits}; exec timeout -k 1 {SECONDS} fio --minimal job.fio")])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("fio starts");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // `timeout` returns 124. fio says which signal ended a job, and that all is well.
    let told = said(&output.stderr) + &said(&output.stdout);
    if output.status.code() == Some(124) {
        return Err(LATE.to_owned());
    }
    let signals = ["got signal=9", "got signal=24", "got signal=25"];
    // 137: fio was killed before there were jobs, while it laid out files.
    if matches!(output.status.code(), Some(137) | None)
        || told.lines().any(|line| signals.iter().any(|signal| line.ends_with(signal)))
    {
        return Err(ENDLESS.to_owned());
    }
    if !output.status.success() {
        let lines = told.lines().filter(|line| !line.starts_with("3;") && !line.is_empty());
        return Err(lines.take(3).collect::<Vec<_>>().join(" / "));
    }
    let mut logs = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("log") {
            let text = fs::read_to_string(entry.path()).expect("a log is text");
            let ios = text.lines().filter_map(io_of_line).collect();
            logs.insert(name, by_clone(ios));
        }
    }
    Ok(logs)
}

/// The last four words of a line of an iolog, if it is an I/O.
fn io_of_line(line: &str) -> Option<Io> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [.., file, action, offset, bytes] = words[..] else { return None };
    let place = (offset.parse().ok()?, bytes.parse().ok()?);
    let (offset, bytes) = if action.contains("sync") { (0, 0) } else { place };
    Some((file.to_owned(), action.to_owned(), offset, bytes))
}

/// The I/Os of the first clone, then those of the second: `NAME.CLONE.FILE`.
fn by_clone(mut ios: Ios) -> Ios {
    let clone = |io: &Io| -> u32 {
        let number = io.0.rsplit('.').nth(1);
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    ios.sort_by_key(clone);
    ios
}

/// The first difference between two lists.
pub(crate) fn difference(ours: &[Io], theirs: &[Io]) -> Option<String> {
    let counts = format!("fio {} I/Os, ours {}", theirs.len(), ours.len());
    let show = |io: Option<&Io>| match io {
        Some((file, action, offset, bytes)) => format!("{file} {action} {offset}+{bytes}"),
        None => "the end".to_owned(),
    };
    let most = ours.len().max(theirs.len());
    let nth = (0..most).find(|&nth| ours.get(nth) != theirs.get(nth))?;
    let (our, their) = (show(ours.get(nth)), show(theirs.get(nth)));
    Some(format!("{counts}; I/O {nth} is {their}, ours {our}"))
}
