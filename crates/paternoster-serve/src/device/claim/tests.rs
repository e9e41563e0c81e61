// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random servers on the same few files, compared with a model of which may have what.
//!
//! ```text
//! drawn: start, reload, ask, stop, clients of a volume that was taken out have gone
//!           │                                  │
//!           ▼                                  ▼
//! Claims, with the kernel's locks   ==   uses by server and file, compared in pairs
//! ```
//!
//! Locks belong to a file description, so that two servers in one process exclude each other as two
//! processes do. Laws: C1 a server starts, and a reload is accepted, if and only if the model says
//! so; C2 a refused start or reload has changed nothing for others; C3 at the end nothing is
//! locked.

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};

use rustix::fs::{Mode, open as open_path};

use super::*;
use crate::config::{Direct, Engine};
use crate::device_loop::planted::{Bug, plant};
use crate::host::scratch::Scratch;

const SERVERS: usize = 3;
const FILES: usize = 2;
/// Names of each file: its own, a link, a second name.
const NAMES: usize = 3;
const SIZE: u64 = 1 << 20;

/// A volume of a drawn configuration.
#[derive(Debug, Clone, PartialEq)]
struct Drawn {
    name: usize,
    /// The whole disk, its first or its second half.
    part: u8,
    readonly: bool,
    share: bool,
}

impl Drawn {
    const fn file(&self) -> usize {
        self.name / NAMES
    }

    const fn range(&self) -> (u64, u64) {
        match self.part {
            0 => (0, SIZE),
            1 => (0, SIZE / 2),
            _ => (SIZE / 2, SIZE),
        }
    }

    const fn wanted(&self) -> Use {
        Use { writes: !self.readonly, shared: self.share }
    }

    /// Whether one server may have both.
    const fn lives_with(&self, other: &Drawn) -> bool {
        let ((start, end), (others_start, others_end)) = (self.range(), other.range());
        self.file() != other.file()
            || end <= others_start
            || others_end <= start
            || (self.readonly && other.readonly)
            || (self.share && other.share)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Start {
        server: usize,
        volumes: Vec<Drawn>,
        force: bool,
    },
    Reload {
        server: usize,
        volumes: Vec<Drawn>,
    },
    Ask {
        volumes: Vec<Drawn>,
    },
    /// Clients of volumes that were taken out have gone.
    Forget {
        server: usize,
    },
    Stop {
        server: usize,
    },
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let name = 0..FILES * NAMES;
    (name, prop_oneof![2 => Just(0u8), 1 => Just(1), 1 => Just(2)], any::<bool>(), any::<bool>())
        .prop_map(|(name, part, readonly, share)| Drawn { name, part, readonly, share })
}

fn step() -> impl Strategy<Value = Step> {
    let volumes = || prop::collection::vec(drawn(), 1..3);
    let server = || 0..SERVERS;
    prop_oneof![
        4 => (server(), volumes(), prop::bool::weighted(0.1))
            .prop_map(|(server, volumes, force)| Step::Start { server, volumes, force }),
        4 => (server(), volumes()).prop_map(|(server, volumes)| Step::Reload { server, volumes }),
        1 => volumes().prop_map(|volumes| Step::Ask { volumes }),
        2 => server().prop_map(|server| Step::Forget { server }),
        2 => server().prop_map(|server| Step::Stop { server }),
    ]
}

/// How a server uses a file: all volumes of it together.
fn together(volumes: &[Drawn], file: usize) -> Option<Use> {
    let of_it = volumes.iter().filter(|volume| volume.file() == file).map(Drawn::wanted);
    of_it.reduce(|one, other| Use {
        writes: one.writes || other.writes,
        shared: one.shared && other.shared,
    })
}

/// A server that runs.
struct Running {
    claims: Claims,
    volumes: Vec<Drawn>,
    force: bool,
    /// The claims that clients of removed volumes still hold.
    going: Vec<(Claim, usize, Use)>,
}

impl Running {
    fn uses(&self, file: usize) -> impl Iterator<Item = Use> {
        let going = self.going.iter().filter(move |(_, of, _)| *of == file).map(|(.., it)| *it);
        going.chain(together(&self.volumes, file))
    }
}

/// The files, and what serves them.
struct Place {
    folder: Scratch,
    servers: [Option<Running>; SERVERS],
}

impl Place {
    fn new() -> Place {
        let folder = Scratch::new();
        for file in 0..FILES {
            let name = |of: usize| folder.path(&(file * NAMES + of).to_string());
            fs::File::create(name(0)).unwrap().set_len(SIZE).unwrap();
            std::os::unix::fs::symlink(name(0), name(1)).unwrap();
            fs::hard_link(name(0), name(2)).unwrap();
        }
        Place { folder, servers: [const { None }; SERVERS] }
    }

    fn volume(&self, (number, drawn): (usize, &Drawn)) -> Volume {
        let (start, end) = drawn.range();
        Volume {
            start,
            length: Some(end - start),
            readonly: drawn.readonly,
            share: drawn.share,
            ..Volume::new(format!("v{number}"), self.folder.path(&drawn.name.to_string()))
        }
    }

    fn devices(&self, volumes: &[Drawn]) -> Vec<Device> {
        vec![Device {
            name: "dev".to_owned(),
            scheduler: String::new(),
            attributes: Vec::new(),
            depth: None,
            memory: 0,
            direct: Direct::Auto,
            engine: Engine::Auto,
            delay_bound: None,
            volumes: volumes.iter().enumerate().map(|it| self.volume(it)).collect(),
        }]
    }

    /// Whether no other server conflicts with these; `has`: how the asking one uses a file already.
    fn may(
        &self,
        own: Option<usize>,
        volumes: &[Drawn],
        has: impl Fn(usize) -> Option<Use>,
    ) -> bool {
        let apart = volumes
            .iter()
            .enumerate()
            .all(|(place, one)| volumes[..place].iter().all(|other| one.lives_with(other)));
        apart
            && (0..FILES).all(|file| {
                let Some(wanted) = together(volumes, file) else { return true };
                let others = self.servers.iter().enumerate().filter(|(it, _)| Some(*it) != own);
                let mut others =
                    others.filter_map(|(_, it)| it.as_ref()).flat_map(|it| it.uses(file));
                has(file) == Some(wanted)
                    || others
                        .all(|it| (!it.writes || wanted.shared) && (!wanted.writes || it.shared))
            })
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Start { server, volumes, force } => {
                if self.servers[*server].is_some() {
                    return Ok(());
                }
                let expected = *force || self.may(None, volumes, |_| None);
                let taken = Claims::take(&self.devices(volumes), *force);
                prop_assert_eq!(taken.is_ok(), expected, "C1: {:?}: {:?}", step, taken.err());
                if let Ok(claims) = taken {
                    prop_assert!(claims.confirm().is_ok());
                    let (volumes, force) = (volumes.clone(), *force);
                    self.servers[*server] =
                        Some(Running { claims, volumes, force, going: Vec::new() });
                }
            }
            Step::Reload { server, volumes } => {
                let Some(running) = &self.servers[*server] else { return Ok(()) };
                let has = |file| together(&running.volumes, file);
                let expected = running.force || self.may(Some(*server), volumes, has);
                let more = running.claims.more(&self.devices(volumes), running.force);
                prop_assert_eq!(more.is_ok(), expected, "C1: {:?}: {:?}", step, more.err());
                let Ok(mut more) = more else { return Ok(()) };
                let gone: Vec<Drawn> =
                    running.volumes.iter().filter(|it| !volumes.contains(it)).cloned().collect();
                let out: Vec<Volume> = gone.iter().enumerate().map(|it| self.volume(it)).collect();
                let held = more.keep(&self.devices(volumes), &out.iter().collect::<Vec<_>>());
                let running = self.servers[*server].as_mut().expect("it runs");
                for (drawn, held) in gone.iter().zip(held) {
                    let each = held.into_iter().map(|claim| (claim, drawn.file(), drawn.wanted()));
                    running.going.extend(each);
                }
                running.claims = more;
                running.volumes.clone_from(volumes);
            }
            Step::Ask { volumes } => {
                let asked = ask(&self.devices(volumes));
                prop_assert_eq!(asked.is_ok(), self.may(None, volumes, |_| None), "{:?}", step);
            }
            Step::Forget { server } => {
                if let Some(running) = &mut self.servers[*server] {
                    running.going.clear();
                }
            }
            Step::Stop { server } => self.servers[*server] = None,
        }
        Ok(())
    }

    /// C3.
    fn end(mut self) -> Result<(), TestCaseError> {
        self.servers = [const { None }; SERVERS];
        for file in 0..FILES {
            let all = Drawn { name: file * NAMES, part: 0, readonly: false, share: false };
            let asked = ask(&self.devices(&[all]));
            prop_assert!(asked.is_ok(), "C3: file {}: {:?}", file, asked.err());
        }
        Ok(())
    }
}

fn judge(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut place = Place::new();
    for step in steps {
        place.take(step)?;
    }
    place.end()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Is a file given to the servers that may have it together, and to no other, whatever they
    /// start with, change to and give back?
    #[test]
    fn servers_share_as_the_model_says(steps in steps()) {
        judge(&steps)?;
    }
}

/// If the bug that let an image have two owners (finding 3 of a review) is planted, is it found,
/// and is the case made small: one server has the image, another starts with it, asks for it, or
/// reloads to it?
#[test]
fn a_planted_second_owner_is_found() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    plant(Some(Bug::LocksNothing));
    let found = TestRunner::new(config).run(&steps(), |steps| judge(&steps));
    plant(None);
    let Err(TestError::Fail(_, smallest)) = found else { panic!("{found:?}") };
    assert!(smallest.len() <= 3, "{smallest:?}");
}

/// Does dropping a claim take nothing from one that is made at the same moment? One thread drops a
/// writer's claim, the other becomes a writer.
#[test]
fn a_claim_that_goes_takes_nothing_of_another() {
    let place = Place::new();
    let of = |readonly| place.devices(&[Drawn { name: 0, part: 0, readonly, share: false }]);
    for round in 0..300 {
        let claims = Claims::take(&of(true), false).expect("no other is there");
        let reads = claims.held[0].clone();
        let writes = Use { writes: true, shared: false };
        let (goes, taken) = Claim::more(reads.thing(), writes, reads.locks(), false);
        assert!(taken.is_ok(), "{taken:?}");
        let mut stays = reads;
        std::thread::scope(|scope| {
            scope.spawn(|| drop(goes));
            stays.becomes(writes, false).expect("no other is there");
        });
        assert!(ask(&of(false)).is_err(), "round {round}: it writes, and others may");
        assert!(ask(&of(true)).is_err(), "round {round}: it minds no lock of a writer");
    }
}

/// A loop device over a file, detached at the end.
struct Loop(PathBuf);

impl Loop {
    fn over(image: &Path) -> Option<Loop> {
        let made = std::process::Command::new("losetup").args(["-f", "--show"]).arg(image).output();
        let made = made.ok().filter(|made| made.status.success());
        if made.is_none() {
            eprintln!(
                "skipped: a block device's exclusive opening: no loop device can be made here"
            );
        }
        Some(Loop(String::from_utf8(made?.stdout).ok()?.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _gone = std::process::Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

/// When a reload makes a block device read-only or shared, does the server give back its exclusive
/// opening and the lock of its disk? When a reload makes it writable, does the server take both;
/// and is the reload refused, and nothing changed, while another process has it exclusively?
#[test]
fn a_block_device_is_alone_as_long_as_it_is_written_to() {
    let folder = Scratch::new();
    let image = folder.path("image");
    fs::File::create(&image).unwrap().set_len(SIZE).unwrap();
    let Some(device) = Loop::over(&image) else { return };
    let of = |readonly, share| {
        let place = Place { folder: Scratch::new(), servers: [const { None }; SERVERS] };
        let mut all = place.devices(&[Drawn { name: 0, part: 0, readonly, share }]);
        all[0].volumes[0].path.clone_from(&device.0);
        all
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let alone = || open_path(&device.0, flags | OFlags::EXCL, Mode::empty());
    let changes = || {
        use rustix::fs::{FlockOperation, flock};
        let disk = open_path(&device.0, flags, Mode::empty()).expect("it is there");
        flock(&disk, FlockOperation::NonBlockingLockExclusive).is_ok()
    };
    // A program started by a concurrent test has all descriptors for a moment.
    let soon = |what: &dyn Fn() -> bool| {
        (0..2000).any(|_| {
            what() || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                false
            }
        })
    };
    let mut claims = Claims::take(&of(false, false), false).expect("it is free");
    assert!(alone().is_err() && !changes(), "a writer has it for itself");
    claims = claims.more(&of(true, false), false).expect("it reads");
    assert!(soon(&|| alone().is_ok()), "one that reads is not alone");
    assert!(soon(&changes), "one that reads changes nothing on the disk");
    let other = alone().expect("it is free");
    let refused = claims.more(&of(false, false), false).expect_err("another has it");
    assert!(refused.to_string().contains("O_EXCL"), "{refused}");
    drop(other);
    assert!(soon(&|| alone().is_ok() && changes()), "a refusal leaves nothing behind");
    assert!(ask(&of(true, false)).is_ok(), "it still reads, beside others that read");
    let mut attempts = 0;
    claims = loop {
        // Until no program of another test has that one's descriptor.
        match claims.more(&of(false, false), false) {
            Ok(more) => break more,
            Err(refused) => assert!(attempts < 2000, "{refused}"),
        }
        attempts += 1;
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(alone().is_err() && !changes(), "one that writes from now on has it for itself");
    claims = claims.more(&of(false, true), false).expect("it shares");
    assert!(soon(&|| alone().is_ok()), "one that shares is not alone");
    assert!(!changes(), "it is written to");
    drop(claims);
    assert!(soon(&|| alone().is_ok() && changes()), "nothing is left");
}
