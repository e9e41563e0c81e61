// SPDX-License-Identifier: MIT OR Apache-2.0
//! Succession: a second server over the same names takes over from the first one, or tries to.
//!
//! ```text
//! first   files ─▶ serves ─▶ negotiation pauses ─▶ loop is quiet ─▶ connections ─▶ gone, or on
//! second      claims: their locks    opens           waits             has them, serves
//! rival   may not have the names, at any of these moments
//! ```
//!
//! The loop, the negotiation, the claims and the records of a handed-over connection are production
//! code; a connection's current request is passed on in the format used between processes. Only the
//! channel between the servers, and the threads that wait, are replaced: a verdict is there before
//! anything waits for it. So the paused negotiation resumes at once, and does not run before the
//! loop has answered.
//!
//! Names are those of a name space in memory (`names`); a rival is another process there.
//!
//! Laws: N1 while a file is served, no other server may have it for writing, and a server that
//! begins finds free what the one before had; N2 a server that has handed over gives its device no
//! job. All laws of streams, disk and tenants hold across a handover: no client notices it, except
//! for those in handshake.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use paternoster_core::Nanos;
use paternoster_sim::chance::Chance;

use super::engine::Given;
use super::house::{House, Own};
use super::life::When;
use super::medium::Gone;
use super::names::{NAMES, Names};
use super::plan::{Plan, pick};
use super::{Stage, config, keep_memory};
use crate::config::Volume;
use crate::device::Giving;
use crate::device::claim::Claims;
use crate::device_loop::handover::{HandoverMessage, Leave, Leaving, Verdict};
use crate::handover::record::HandedConnection;
use crate::host::ours::Ours;
use crate::negotiation::Pause;
use crate::reload::Word;

/// How a hand-over ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The second one serves.
    Taken,
    /// The second one refuses, or dies, after it has received everything.
    Refused,
    /// Requests under way do not end in time.
    Late,
}

/// A handover.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    end: End,
    /// Rounds that the second server takes to open everything.
    opens: u64,
    /// A rival tries to open the files. (Its refusal names the process that holds them, for which
    /// all processes are examined.)
    has_rival: bool,
}

/// In one case of three there are up to three handovers.
pub(super) fn handovers(chance: &mut Chance) -> Vec<When<How>> {
    let count = if chance.once_in(3) { 1 + chance.below(3) } else { 0 };
    let mut round = 0;
    let each = (0..count).map(|_| {
        round += 1 + chance.below(50);
        let end = pick(chance, &[End::Taken, End::Taken, End::Refused, End::Late]);
        let (opens, has_rival) = (pick(chance, &[0, 1, 30]), chance.once_in(8));
        When { round, what: How { end, opens, has_rival } }
    });
    each.collect()
}

/// The files that a server has claimed, until it ends.
pub(super) type Claimed = Option<Claims>;

/// N1: what no living server has is free.
pub(super) fn claim(own: &Own, plan: &Plan) -> Claimed {
    let claims = Claims::take_of(&own.system, &[config(plan).1], false);
    let claims = claims.unwrap_or_else(|why| panic!("N1: no other serves it, but {why}"));
    claims.confirm().unwrap_or_else(|why| panic!("N1: {why}"));
    Some(claims)
}

/// Whether volumes of a file overlap, which they may where they are shared.
pub(super) fn is_shared(plan: &Plan, file: usize) -> bool {
    let volumes: Vec<_> = plan.volumes.iter().filter(|volume| volume.file == file).collect();
    let end = |volume: usize| volumes[volume].start + volumes[volume].size + volumes[volume].odd;
    (0..volumes.len()).any(|one| {
        (0..one).any(|other| volumes[one].start < end(other) && volumes[other].start < end(one))
    })
}

/// The stage of a handover.
enum At {
    /// The files are asked for; and whether a volume was going then.
    Files(Receiver<Result<Vec<Giving>, String>>, bool),
    /// The second server opens everything.
    Opens(Heir),
    Pauses(Heir, Receiver<u32>),
    Leaves(Heir, Receiver<Result<Leaving, String>>),
}

/// A handover in progress.
pub(super) struct Passing {
    how: How,
    since: u64,
    at: At,
}

impl Passing {
    /// Whether the second server opens everything: nothing else is waited for.
    pub(super) const fn opens(&self) -> bool {
        matches!(self.at, At::Opens(_))
    }
}

/// What the second server has so far.
struct Heir {
    own: Own,
    given: Vec<Given>,
    claims: Claims,
    ours: Ours,
}

impl Heir {
    fn of(stage: &Stage, giving: &[Giving], plan: &Plan) -> Heir {
        let opened = |giving: &Giving| {
            let opened = stage.medium.state().opened(giving.raw());
            (opened.expect("it is open"), giving.lost)
        };
        let own = Own::new(plan, &stage.medium, &stage.names);
        let ours = Ours::not_yet();
        let claims = stage.claims.as_ref().expect("it serves").to_hand_over().expect("descriptors");
        Heir {
            given: giving.iter().map(opened).collect(),
            claims: Claims::taken(&own.system, claims, &ours),
            own,
            ours,
        }
    }
}

impl Stage {
    /// Servers that have handed over end; their claims remain.
    pub(super) fn turn_elders(&mut self) {
        for (mut house, claims) in std::mem::take(&mut self.elders) {
            house.turn(self.now);
            match house.device_loop.is_done() {
                true => house.device_loop.end(),
                false => self.elders.push((house, claims)),
            }
        }
    }

    /// A handover begins, goes on, or ends.
    pub(super) fn pass_on(&mut self, plan: &Plan) -> Result<(), String> {
        let Some(Passing { how, since, at }) = self.passing.take() else {
            let due = plan.handovers.iter().find(|due| due.round == self.round);
            let Some(due) = due.filter(|_| self.stops.is_none()) else { return Ok(()) };
            // The next server is told of losses with the files. It is not told of a loss that a
            // thread finds later, while it closes a file.
            self.close();
            let (answer, answers) = channel();
            self.house.tell(HandoverMessage::Files(answer));
            let at = At::Files(answers, self.house.device_loop.volumes.ending() > 0);
            self.passing = Some(Passing { how: due.what, since: self.round, at });
            return Ok(());
        };
        let at = match at {
            At::Files(answers, goes) => {
                let giving = answers.try_recv().map_err(|_| "O1: no answer: files")?;
                match giving {
                    Ok(giving) => At::Opens(Heir::of(self, &giving, &self.current(plan))),
                    // It may have gone since the answer was given.
                    Err(_) if goes || self.house.device_loop.volumes.ending() > 0 => return Ok(()),
                    Err(why) => return Err(why),
                }
            }
            At::Opens(heir) if self.round < since + how.opens => At::Opens(heir),
            At::Opens(heir) => {
                let ((paused, pauses), (verdict, waits)) = (channel(), channel());
                verdict.send(Verdict::Resume).expect("it is heard");
                let pause = Pause { paused, verdict: waits, until: None };
                self.house.door.put(Word::Pause(pause)).expect("the negotiation is there");
                self.keep_a_rival_out(plan, how)?;
                At::Pauses(heir, pauses)
            }
            At::Pauses(heir, pauses) => match pauses.try_recv() {
                Err(_) => At::Pauses(heir, pauses),
                Ok(_) => {
                    self.house.is_paused = true;
                    At::Leaves(heir, self.ask_to_leave(how.end))
                }
            },
            At::Leaves(heir, answers) => match answers.try_recv() {
                Err(TryRecvError::Empty) => At::Leaves(heir, answers),
                Err(TryRecvError::Disconnected) => {
                    return Err("O1: no answer: connections".to_owned());
                }
                Ok(Ok(leaving)) if how.end == End::Taken => {
                    self.succeed(plan, heir, leaving)?;
                    return self.keep_a_rival_out(plan, how);
                }
                Ok(_) => {
                    self.house.is_paused = false;
                    drop(heir);
                    return self.keep_a_rival_out(plan, how);
                }
            },
        };
        self.passing = Some(Passing { how, since, at });
        Ok(())
    }

    fn keep_a_rival_out(&self, plan: &Plan, how: How) -> Result<(), String> {
        if how.has_rival { self.is_any_kept_out(&self.current(plan)) } else { Ok(()) }
    }

    /// N1 for the first volume that is served.
    pub(super) fn is_any_kept_out(&self, plan: &Plan) -> Result<(), String> {
        let served = plan.volumes.iter().position(|volume| !volume.is_out);
        self.is_kept_out(plan, served.expect("a device has at least one volume"))
    }

    /// N1: a rival that wants to be the only writer of a volume's file is refused, and the message
    /// names the server that has it.
    pub(super) fn is_kept_out(&self, plan: &Plan, volume: usize) -> Result<(), String> {
        let file = plan.volumes[volume].file;
        let mut of_it = plan.volumes.iter().filter(|it| it.file == file && !it.is_out);
        if is_shared(plan, file) && of_it.all(|volume| volume.readonly) {
            return Ok(());
        }
        let path = Names::path(file, volume % NAMES);
        match self.claim_alone(plan, &path) {
            Ok(()) => Err(format!("N1: a rival may write to file {file}, which is served")),
            Err(why) => {
                let server = self.house.own.server;
                let names = [path.display().to_string(), format!("server {server} has")];
                let is_named = names.iter().all(|name| why.contains(name));
                is_named.then_some(()).ok_or_else(|| format!("N1: {names:?} is told as: {why}"))
            }
        }
    }

    /// Another server, which would write alone to a file, comes and goes.
    fn claim_alone(&self, plan: &Plan, path: &Path) -> Result<(), String> {
        let (_, mut device) = config(plan);
        device.volumes = vec![Volume::new("rival".to_owned(), path.to_owned())];
        let own = Own::new(plan, &self.medium, &self.names);
        let claims = Claims::take_of(&own.system, &[device], false);
        claims.map(drop).map_err(|why| why.to_string())
    }

    /// N1: what is served is kept, and what is not any more is given back.
    pub(super) fn give_back(&mut self, plan: &Plan) -> Result<(), String> {
        self.close();
        let plan = &self.current(plan);
        for file in 0..plan.files.len() {
            let mut of_it = plan.volumes.iter().enumerate().filter(|(_, it)| it.file == file);
            match of_it.clone().find(|(_, volume)| !volume.is_out) {
                Some((served, _)) => self.is_kept_out(plan, served)?,
                None if of_it.next().is_none() => {}
                None => self.claim_alone(plan, &Names::path(file, 0)).map_err(|why| {
                    format!("N1: file {file} is of no volume any more, but {why}")
                })?,
            }
        }
        Ok(())
    }

    fn ask_to_leave(&self, end: End) -> Receiver<Result<Leaving, String>> {
        let ((answer, answers), (verdict, waits)) = (channel(), channel());
        match end {
            End::Taken => verdict.send(Verdict::Gone).expect("it is heard"),
            // If the other side disappears, that is a refusal.
            End::Refused | End::Late => drop(verdict),
        }
        let patience = if end == End::Late { Nanos(1) } else { Nanos::from_secs(1 << 20) };
        self.house.tell(HandoverMessage::Leave(Leave {
            patience,
            by: None,
            answer,
            verdict: waits,
        }));
        answers
    }

    fn succeed(&mut self, plan: &Plan, heir: Heir, leaving: Leaving) -> Result<(), String> {
        let Heir { own, given, claims, ours } = heir;
        self.medium.state().goes(self.house.own.server, Gone::HandedOver);
        self.names.hand_over(self.house.own.server, own.server);
        let plan = &self.current(plan);
        let next = House::open(plan, &self.medium, &self.street, own, &given);
        let last = std::mem::replace(&mut self.house, next);
        self.kept = keep_memory(plan, &mut self.house.device_loop);
        let before = self.claims.replace(claims);
        before.iter().for_each(Claims::leave);
        ours.set(true);
        self.clients.iter_mut().for_each(super::Client::is_passed_on);
        let wrong = |error: serde_json::Error| format!("a connection in words: {error}");
        for HandedConnection { socket, state, input, output, behind } in leaving.connections {
            let words = serde_json::to_vec(&state).map_err(wrong)?;
            let state = serde_json::from_slice(&words).map_err(wrong)?;
            let socket = socket.as_fd().try_clone_to_owned().expect("a descriptor");
            self.house.negotiation.take_over(HandedConnection {
                socket,
                state,
                input,
                output,
                behind,
            });
        }
        self.house.tell(HandoverMessage::Tenants(leaving.tenants));
        self.elders.push((last, before));
        Ok(())
    }
}
