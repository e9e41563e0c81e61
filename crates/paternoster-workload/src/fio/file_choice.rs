// SPDX-License-Identifier: MIT OR Apache-2.0
//! File choice: which of a job's files is next, by `file_service_type`.
//!
//! ```text
//! 3 files of 4 blocks       r0 is the first file
//! roundrobin                r0 r1 r2 r0 r1 r2 ...
//! roundrobin:2              r0 r0 r1 r1 r2 r2 r0 ...
//! sequential                r0 r0 r0 r0 r1 r1 r1 r1 r2 ...      a file to its end, then the next
//! random                    r2 r2 r0 r0 r2 r0 r2 r1 r1 r0 ...   draws below 3; a file at its end
//!                                                               is drawn over
//! zipf, pareto, normal      a draw below 3 * 1024, divided by 1024
//! ```
//!
//! With the last three a file that was drawn at its end starts over, for later draws, and this draw
//! is lost; so the favoured file stays favoured to the end of the job. With `openfiles` a draw of a
//! file that cannot be opened in addition is lost, too; one at its end is closed.
//!
//! The order of blocks inside a file is not decided here (`offsets.rs`).
//!
//! Source: FIO-44; every line was measured on fio 3.33, and the draws (generator 5,
//! shifted by its first draw, not hashed) equal it.

use super::job::Job;
use super::offsets::skew::Skew;
use super::random::{Choice, Draw, Seeds};

/// How many places a skewed choice has for each file.
const PLACES: u64 = 1024;

/// The option `file_service_type` without its suffix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FileService {
    /// One after another, this many I/Os each.
    RoundRobin(u64),
    /// A file to its end, then the next.
    Sequential,
    /// Drawn uniformly; a new file after this many I/Os.
    Random(u64),
    /// Zipf's distribution with this theta.
    Zipf(f64),
    /// A Pareto distribution with this power.
    Pareto(f64),
    /// A normal distribution with this deviation in percent.
    Normal(f64),
}

impl FileService {
    /// Reads the option's value.
    pub(super) fn read(text: &str) -> Result<FileService, String> {
        let (word, suffix) = match text.split_once(':') {
            Some((word, suffix)) => (word, Some(suffix)),
            None => (text, None),
        };
        let count = || match suffix {
            None => Ok(1),
            Some(suffix) => match suffix.parse::<u64>() {
                Ok(count) if count > 0 => Ok(count),
                _ => Err(format!("`{suffix}` in `{text}` is no count of I/Os, from 1")),
            },
        };
        let number = |usual: f64| match suffix {
            None => Ok(usual),
            Some(suffix) => match suffix.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(number),
                _ => Err(format!("`{suffix}` in `{text}` is no number")),
            },
        };
        // fio's values when none is given.
        match word {
            "roundrobin" => Ok(FileService::RoundRobin(count()?)),
            "sequential" => count().map(|_| FileService::Sequential),
            "random" => Ok(FileService::Random(count()?)),
            "zipf" => Skew::check_zipf(number(1.1)?).map(FileService::Zipf),
            "pareto" => Skew::check_pareto(number(0.2)?).map(FileService::Pareto),
            "normal" | "gauss" => Skew::check_normal(number(0.0)?).map(FileService::Normal),
            _ => Err(format!(
                "`{word}` is none of roundrobin, sequential, random, zipf, pareto and normal"
            )),
        }
    }
}

/// Draws among files when `openfiles` opens no more, before one is served anyway.
const DRAWS_MAX: u32 = 1 << 20;

/// Chooses among the files of one clone.
#[derive(Debug, Clone)]
pub struct FileChoice {
    service: FileService,
    files: usize,
    /// The file being served, and for how many more I/Os.
    current: usize,
    left: u64,
    generator: Draw,
    skew: Option<Skew>,
    done: Vec<bool>,
    done_count: usize,
    /// With `openfiles` only this many are served in turn; another follows when one is at its end.
    open_most: usize,
    open: Vec<bool>,
    open_count: usize,
}

impl FileChoice {
    /// A choice among `files` files, at least 1.
    #[must_use]
    pub fn new(job: &Job, files: usize, seeds: &Seeds) -> FileChoice {
        let files = files.max(1);
        let seed = seeds.seed(Choice::File);
        let places = u64::try_from(files).unwrap_or(u64::MAX).saturating_mul(PLACES);
        let skew = match job.files.file_service {
            FileService::Zipf(theta) => Some(Skew::zipf(theta, None, places, seed)),
            FileService::Pareto(power) => Some(Skew::pareto(power, None, places, seed)),
            FileService::Normal(deviation) => Some(Skew::normal(deviation, None, places, seed)),
            _ => None,
        };
        FileChoice {
            service: job.files.file_service,
            files,
            // The first turn begins with file 0.
            current: files - 1,
            left: 0,
            generator: Draw::of(job, seeds, Choice::File),
            skew: skew.map(Skew::without_hash),
            done: vec![false; files],
            done_count: 0,
            open_most: job.files.open_files.map_or(files, |most| most.min(files)),
            open: vec![false; files],
            open_count: 0,
        }
    }

    /// Whether a file at its end starts over instead of being left out.
    #[must_use]
    pub fn reuses_files(&self) -> bool {
        self.skew.is_some()
    }

    /// The file of the next I/O; `None` when all files are at their end.
    #[inline]
    pub fn choose(&mut self) -> Option<usize> {
        // A single file has every turn; so have nearly all jobs.
        if self.files == 1 && self.skew.is_none() {
            return (self.done_count == 0).then_some(0);
        }
        self.choose_among()
    }

    fn choose_among(&mut self) -> Option<usize> {
        if self.done_count == self.files {
            return None;
        }
        if let Some(mut skew) = self.skew.take() {
            let last = self.files - 1;
            let mut draw = || usize::try_from(skew.next() / PLACES).unwrap_or(0).min(last);
            let mut file = draw();
            // A file that cannot be opened in addition is drawn over.
            for _ in 0..DRAWS_MAX {
                if self.opens(file) {
                    break;
                }
                file = draw();
            }
            self.skew = Some(skew);
            return Some(file);
        }
        if self.left == 0 || self.done[self.current] {
            self.turn();
        }
        self.left = self.left.saturating_sub(1);
        Some(self.current)
    }

    /// The file that was chosen last has no further I/O: it was not served, and is left out; or
    /// starts over, if files do.
    pub fn at_end(&mut self, file: usize) {
        self.open_count -= usize::from(core::mem::take(&mut self.open[file]));
        if self.skew.is_none() && !core::mem::replace(&mut self.done[file], true) {
            self.done_count += 1;
        }
    }

    /// All files can be served again; turns and draws go on.
    pub fn restart(&mut self) {
        self.done.fill(false);
        self.done_count = 0;
        self.open.fill(false);
        self.open_count = 0;
        self.left = 0;
    }

    /// Draws begin again too.
    pub fn replay(&mut self, seeds: &Seeds) {
        self.restart();
        self.generator = self.generator.again(seeds, Choice::File);
    }

    /// Whether a file is open, or can be opened in addition.
    fn opens(&mut self, file: usize) -> bool {
        if !self.open[file] && self.open_count < self.open_most {
            self.open[file] = true;
            self.open_count += 1;
        }
        self.open[file]
    }

    /// Goes to another file that is not at its end; such a file must exist.
    fn turn(&mut self) {
        let draws = matches!(self.service, FileService::Random(_));
        loop {
            self.current = if draws {
                let count = u64::try_from(self.files).unwrap_or(u64::MAX);
                usize::try_from(self.generator.below(count)).unwrap_or(0)
            } else {
                (self.current + 1) % self.files
            };
            if !self.done[self.current] && self.opens(self.current) {
                break;
            }
        }
        self.left = match self.service {
            FileService::RoundRobin(count) | FileService::Random(count) => count,
            _ => u64::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of the I/Os of a job whose three files have four blocks each, as above.
    fn served(service: &str, files: usize, blocks: u32, ios: usize) -> Vec<usize> {
        let mut job = Job::default();
        job.files.file_service = FileService::read(service).unwrap();
        let mut choice = FileChoice::new(&job, files, &Seeds::new(None, true, false, 1, 0));
        let mut left = vec![blocks; files];
        let mut served = Vec::new();
        while served.len() < ios {
            let Some(file) = choice.choose() else { break };
            if left[file] == 0 {
                choice.at_end(file);
                if choice.reuses_files() {
                    left[file] = blocks;
                }
                continue;
            }
            left[file] -= 1;
            served.push(file);
        }
        served
    }

    /// Are files served in fio's order? All lists were measured.
    #[test]
    fn orders_equal_fio() {
        assert_eq!(served("roundrobin", 3, 4, 100), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(served("roundrobin:2", 3, 4, 100), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert_eq!(served("sequential", 3, 4, 100), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(served("random", 3, 4, 100), [2, 2, 0, 0, 2, 0, 2, 1, 1, 0, 1, 1]);
        assert_eq!(served("random:4", 3, 4, 100), [2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1]);
    }

    /// Are the skewed draws fio's, with the lost draw at the end of a file of ten blocks?
    #[test]
    fn skewed_draws_equal_fio() {
        let zipf = served("zipf:1.2", 10, 10, 28);
        let measured =
            [9, 9, 9, 9, 9, 9, 1, 9, 1, 9, 9, 9, 1, 9, 9, 9, 9, 8, 9, 9, 9, 9, 9, 9, 9, 7, 9, 1];
        assert_eq!(zipf, measured);
        let pareto = served("pareto", 10, 10, 20);
        assert_eq!(pareto, [1, 9, 9, 0, 9, 9, 5, 9, 5, 1, 9, 9, 9, 5, 9, 9, 9, 8, 9, 9]);
        let normal = served("normal:10", 10, 10, 20);
        assert_eq!(normal, [5, 4, 5, 5, 5, 4, 5, 5, 5, 4, 4, 5, 5, 3, 6, 5, 4, 3, 5, 5]);
    }

    /// Does a restart serve all files again, and wrong values say what would be right?
    #[test]
    fn restart_and_refusals() {
        let mut choice = FileChoice::new(&Job::default(), 2, &Seeds::new(None, true, false, 1, 0));
        for file in [0, 1] {
            assert_eq!(choice.choose(), Some(file));
            choice.at_end(file);
        }
        assert_eq!(choice.choose(), None);
        choice.restart();
        assert_eq!(choice.choose(), Some(0));
        for text in ["roundrobin:0", "random:x", "zipf:1", "pareto:1", "normal:100", "first"] {
            assert!(FileService::read(text).is_err(), "{text}");
        }
    }
}
