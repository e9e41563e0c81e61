// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of each message, read and written.
//!
//! A pattern is the text of a message with `{}` in place of numbers. The first word selects which
//! to try; if text remains after the pattern, the message is another one.
//!
//! ```text
//! calc_finish: serv {}, w {}     calc_finish: serv 10922, w 40      ["10922", "40"]
//! ```

use core::fmt;

use super::{BfqMessage, ExpireReason, Partner, QueueName};
use crate::ftrace::line::whole;

/// The text at each `{}` of the pattern, if the text matches it. A hole ends at the first
/// occurrence of the words after it.
fn holes<'a, const N: usize>(text: &'a str, pattern: &str) -> Option<[&'a str; N]> {
    let mut words = pattern.split("{}");
    let mut rest = text.strip_prefix(words.next()?)?;
    let mut holes = [""; N];
    for hole in &mut holes {
        let behind = words.next()?;
        let end = if behind.is_empty() { rest.len() } else { rest.find(behind)? };
        *hole = &rest[..end];
        rest = &rest[end + behind.len()..];
    }
    (rest.is_empty() && words.next().is_none()).then_some(holes)
}

fn yes(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn address(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

fn partner(text: &str) -> Option<Partner> {
    match text {
        "-1" | "18446744073709551615" => Some(Partner::Shared),
        _ => Some(Partner::Process(whole(text)?)),
    }
}

fn reason(text: &str) -> Option<ExpireReason> {
    ExpireReason::ALL.get(whole::<usize>(text)?).copied()
}

/// A message; `None` for an unknown one.
pub(super) fn message(text: &str) -> Option<BfqMessage> {
    let (first, _) = text.split_once(' ').unwrap_or((text, ""));
    let message = match first {
        "allocated" => BfqMessage::Allocated,
        "schedule" => BfqMessage::ScheduleDispatch,
        "WARN:" => BfqMessage::PendingPriority,
        "add" => BfqMessage::AddToBusy,
        "del" => BfqMessage::DelFromBusy,
        "select_queue:" => return selection(text),
        "get_request" | "put_queue:" | "get_entity:" | "exit_bfqq:" => return references(text),
        "recalc_budg:" => return budget(text),
        "calc_finish:" => return finish(text),
        "merging" | "scheduling" | "merge_bfqqs:" | "set" => return merge(text),
        _ => return numbers(first, text),
    };
    // These have no numbers; there may be more after the first word.
    (message.to_string() == text).then_some(message)
}

fn selection(text: &str) -> Option<BfqMessage> {
    Some(match text.strip_prefix("select_queue: ")? {
        "already in-service queue" => BfqMessage::AlreadyInService,
        "checking new queue" => BfqMessage::CheckingNew,
        "returned this queue" => BfqMessage::ReturnedThis,
        "no queue returned" => BfqMessage::NoneReturned,
        _ => return None,
    })
}

/// Messages that count references.
fn references(text: &str) -> Option<BfqMessage> {
    if let Some([request, queue, references]) = holes(text, "get_request {}: bfqq {}, {}") {
        let (request, queue) = (address(request)?, address(queue)?);
        return Some(BfqMessage::GetRequest { request, queue, references: whole(references)? });
    }
    let (kind, rest) = text.split_once(": ")?;
    let pattern = if kind == "exit_bfqq" { "{}, {}" } else { "{} {}" };
    let [queue, references] = holes(rest, pattern)?;
    let (queue, references) = (address(queue)?, whole(references)?);
    Some(match kind {
        "put_queue" => BfqMessage::PutQueue { queue, references },
        "get_entity" => BfqMessage::GetEntity { queue, references },
        "exit_bfqq" => BfqMessage::ExitQueue { queue, references },
        _ => return None,
    })
}

/// The three lines before a new budget.
fn budget(text: &str) -> Option<BfqMessage> {
    if let Some([budget, left]) = holes(text, "recalc_budg: last budg {}, budg left {}") {
        return Some(BfqMessage::RecalcLast { budget: whole(budget)?, left: left.parse().ok()? });
    }
    if let Some([most, least]) = holes(text, "recalc_budg: last max_budg {}, min budg {}") {
        let (max_budget, min_budget) = (whole(most)?, whole(least)?);
        return Some(BfqMessage::RecalcBounds { max_budget, min_budget });
    }
    let [sync, seeky] = holes(text, "recalc_budg: sync {}, seeky {}")?;
    Some(BfqMessage::RecalcKind { sync: yes(sync)?, seeky: yes(seeky)? })
}

fn finish(text: &str) -> Option<BfqMessage> {
    if let Some([service, weight]) = holes(text, "calc_finish: serv {}, w {}") {
        return Some(BfqMessage::FinishOf { service: whole(service)?, weight: whole(weight)? });
    }
    let [start, finish, delta] = holes(text, "calc_finish: start {}, finish {}, delta {}")?;
    Some(BfqMessage::Finish { start: whole(start)?, finish: whole(finish)?, delta: whole(delta)? })
}

fn merge(text: &str) -> Option<BfqMessage> {
    if let Some([with]) = holes(text, "scheduling merge with queue {}") {
        return Some(BfqMessage::ScheduleMerge { with: partner(with)? });
    }
    if let Some([with]) = holes(text, "merging with queue {}") {
        return Some(BfqMessage::Merge { with: partner(with)? });
    }
    if let Some([waker]) = holes(text, "set tentative waker {}") {
        return Some(BfqMessage::TentativeWaker { waker: QueueName::read(waker)? });
    }
    let [raised] = holes(text, "merge_bfqqs: wr_busy {}")?;
    Some(BfqMessage::Merged { raised_busy: whole(raised)? })
}

/// All other messages, each with a first word of its own.
fn numbers(first: &str, text: &str) -> Option<BfqMessage> {
    Some(match first {
        "[bfq_limit_depth]" => {
            let pattern = "[bfq_limit_depth] wr_busy {} sync {} depth {}";
            let [raised, sync, depth] = holes(text, pattern)?;
            let (raised_busy, sync) = (whole(raised)?, yes(sync)?);
            BfqMessage::LimitDepth { raised_busy, sync, depth: whole(depth)? }
        }
        "new_ioprio" => {
            let [level, weight] = holes(text, "new_ioprio {} new_weight {}")?;
            BfqMessage::NewPriority { level: whole(level)?, weight: whole(weight)? }
        }
        "add_request" => {
            let [sync] = holes(text, "add_request {}")?;
            BfqMessage::AddRequest { sync: yes(sync)? }
        }
        "rq_pos_tree_lookup" => {
            let [sector, found] = holes(text, "rq_pos_tree_lookup {}: returning {}")?;
            let found = if found == "0" { None } else { Some(partner(found)?) };
            BfqMessage::PositionLookup { sector: whole(sector)?, found }
        }
        "dispatch" => {
            let [busy] = holes(text, "dispatch requests: {} busy queues")?;
            BfqMessage::DispatchRequests { busy: whole(busy)? }
        }
        "set_in_service_queue," => {
            let [budget] = holes(text, "set_in_service_queue, cur-budget = {}")?;
            BfqMessage::SetInService { budget: whole(budget)? }
        }
        "may_budget_timeout:" => {
            let pattern = "may_budget_timeout: wait_request {} left {} timeout {}";
            let [waits, left, timeout] = holes(text, pattern)?;
            let (wait_request, left) = (yes(waits)?, yes(left)?);
            BfqMessage::MayBudgetTimeout { wait_request, left, timeout: yes(timeout)? }
        }
        "bfqq_served" => {
            let [sectors] = holes(text, "bfqq_served {} secs")?;
            BfqMessage::Served { sectors: whole(sectors)? }
        }
        "bfq_bfqq_is_slow:" => {
            let [slow] = holes(text, "bfq_bfqq_is_slow: slow {}")?;
            BfqMessage::IsSlow { slow: yes(slow)? }
        }
        "expire" => {
            let pattern = "expire ({}, slow {}, num_disp {}, short_ttime {})";
            let [number, slow, dispatched, short] = holes(text, pattern)?;
            let (reason, slow, dispatched) = (reason(number)?, yes(slow)?, whole(dispatched)?);
            BfqMessage::Expire { reason, slow, dispatched, short_think_time: yes(short)? }
        }
        "head" => {
            let [head, budget] = holes(text, "head sect: {}, new budget {}")?;
            BfqMessage::NewBudget { head: whole(head)?, budget: whole(budget)? }
        }
        "updated" => {
            let [budget] = holes(text, "updated next rq: new budget {}")?;
            BfqMessage::NextRequest { budget: whole(budget)? }
        }
        "update_peak_rate:" => {
            let [samples] = holes(text, "update_peak_rate: goto reset, samples {}")?;
            BfqMessage::RateNotUpdated { samples: whole(samples)? }
        }
        "reset_rate_computation" => {
            let pattern = "reset_rate_computation at end, sample {}/{} tot_sects {}";
            let [samples, sequential, sectors] = holes(text, pattern)?;
            let (samples, sequential) = (whole(samples)?, whole(sequential)?);
            BfqMessage::RateReset { samples, sequential, sectors: whole(sectors)? }
        }
        "new" => {
            let [budget] = holes(text, "new max_budget = {}")?;
            BfqMessage::MaxBudget { budget: whole(budget)? }
        }
        "raising" => {
            let pattern = "raising period dur {}/{} msec, old coeff {}, w {}({})";
            let [elapsed, duration, coefficient, weight, original] = holes(text, pattern)?;
            BfqMessage::Raising {
                elapsed_ms: whole(elapsed)?,
                duration_ms: whole(duration)?,
                coefficient: whole(coefficient)?,
                weight: whole(weight)?,
                original_weight: whole(original)?,
            }
        }
        "check_fifo:" => {
            let [request] = holes(text, "check_fifo: returned {}")?;
            BfqMessage::CheckFifo { request: address(request)? }
        }
        _ => return None,
    })
}

/// Writes a message as it was read.
pub(super) fn write(message: &BfqMessage, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    use BfqMessage as M;
    let number = |flag: bool| u8::from(flag);
    match message {
        M::LimitDepth { raised_busy, sync, depth } => {
            let sync = number(*sync);
            write!(f, "[bfq_limit_depth] wr_busy {raised_busy} sync {sync} depth {depth}")
        }
        M::NewPriority { level, weight } => write!(f, "new_ioprio {level} new_weight {weight}"),
        M::Allocated => f.write_str("allocated"),
        M::GetRequest { request, queue, references } => {
            write!(f, "get_request {request:016x}: bfqq {queue:016x}, {references}")
        }
        M::PutQueue { queue, references } => write!(f, "put_queue: {queue:016x} {references}"),
        M::GetEntity { queue, references } => write!(f, "get_entity: {queue:016x} {references}"),
        M::ExitQueue { queue, references } => write!(f, "exit_bfqq: {queue:016x}, {references}"),
        M::AddRequest { sync } => write!(f, "add_request {}", number(*sync)),
        M::AddToBusy => f.write_str("add to busy"),
        M::DelFromBusy => f.write_str("del from busy"),
        M::PositionLookup { sector, found: None } => {
            write!(f, "rq_pos_tree_lookup {sector}: returning 0")
        }
        M::PositionLookup { sector, found: Some(found) } => {
            write!(f, "rq_pos_tree_lookup {sector}: returning {}", signed(*found))
        }
        M::DispatchRequests { busy } => write!(f, "dispatch requests: {busy} busy queues"),
        M::SetInService { budget } => write!(f, "set_in_service_queue, cur-budget = {budget}"),
        M::AlreadyInService => f.write_str("select_queue: already in-service queue"),
        M::CheckingNew => f.write_str("select_queue: checking new queue"),
        M::ReturnedThis => f.write_str("select_queue: returned this queue"),
        M::NoneReturned => f.write_str("select_queue: no queue returned"),
        M::MayBudgetTimeout { wait_request, left, timeout } => {
            let [waits, left, timeout] = [*wait_request, *left, *timeout].map(number);
            write!(f, "may_budget_timeout: wait_request {waits} left {left} timeout {timeout}")
        }
        M::Served { sectors } => write!(f, "bfqq_served {sectors} secs"),
        M::IsSlow { slow } => write!(f, "bfq_bfqq_is_slow: slow {}", number(*slow)),
        M::Expire { reason, slow, dispatched, short_think_time } => {
            let (reason, slow, short) = (reason.number(), number(*slow), number(*short_think_time));
            write!(f, "expire ({reason}, slow {slow}, num_disp {dispatched}, short_ttime {short})")
        }
        M::RecalcLast { budget, left } => {
            write!(f, "recalc_budg: last budg {budget}, budg left {left}")
        }
        M::RecalcBounds { max_budget, min_budget } => {
            write!(f, "recalc_budg: last max_budg {max_budget}, min budg {min_budget}")
        }
        M::RecalcKind { sync, seeky } => {
            write!(f, "recalc_budg: sync {}, seeky {}", number(*sync), number(*seeky))
        }
        M::NewBudget { head, budget } => write!(f, "head sect: {head}, new budget {budget}"),
        M::NextRequest { budget } => write!(f, "updated next rq: new budget {budget}"),
        M::FinishOf { service, weight } => write!(f, "calc_finish: serv {service}, w {weight}"),
        M::Finish { start, finish, delta } => {
            write!(f, "calc_finish: start {start}, finish {finish}, delta {delta}")
        }
        M::RateNotUpdated { samples } => {
            write!(f, "update_peak_rate: goto reset, samples {samples}")
        }
        M::RateReset { samples, sequential, sectors } => write!(
            f,
            "reset_rate_computation at end, sample {samples}/{sequential} tot_sects {sectors}"
        ),
        M::MaxBudget { budget } => write!(f, "new max_budget = {budget}"),
        M::Raising { elapsed_ms, duration_ms, coefficient, weight, original_weight } => write!(
            f,
            "raising period dur {elapsed_ms}/{duration_ms} msec, old coeff {coefficient}, \
             w {weight}({original_weight})"
        ),
        M::PendingPriority => f.write_str("WARN: pending prio change"),
        M::CheckFifo { request } => write!(f, "check_fifo: returned {request:016x}"),
        M::ScheduleMerge { with } => {
            write!(f, "scheduling merge with queue {}", signed(*with))
        }
        M::Merge { with } => match with {
            Partner::Process(pid) => write!(f, "merging with queue {pid}"),
            Partner::Shared => write!(f, "merging with queue {}", u64::MAX),
        },
        M::Merged { raised_busy } => write!(f, "merge_bfqqs: wr_busy {raised_busy}"),
        M::TentativeWaker { waker } => write!(f, "set tentative waker {waker}"),
        M::ScheduleDispatch => f.write_str("schedule dispatch"),
        M::Unknown(text) => f.write_str(text),
    }
}

/// The process of a queue as some messages print it: signed, -1 for a shared queue.
fn signed(partner: Partner) -> i64 {
    match partner {
        Partner::Process(pid) => i64::from(pid),
        Partner::Shared => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of each form, with numbers that are all different.
    const FORMS: [&str; 38] = [
        "[bfq_limit_depth] wr_busy 2 sync 1 depth 256",
        "new_ioprio 4 new_weight 40",
        "allocated",
        "get_request 000000009c5b551a: bfqq 00000000ca82b30d, 2",
        "put_queue: 00000000ca82b30d 5",
        "get_entity: 00000000ca82b30d 3",
        "exit_bfqq: 00000000806d45cf, 1",
        "add_request 1",
        "add to busy",
        "del from busy",
        "rq_pos_tree_lookup 524288: returning 0",
        "rq_pos_tree_lookup 524288: returning -1",
        "dispatch requests: 2 busy queues",
        "set_in_service_queue, cur-budget = 10922",
        "select_queue: already in-service queue",
        "select_queue: checking new queue",
        "select_queue: returned this queue",
        "select_queue: no queue returned",
        "may_budget_timeout: wait_request 0 left 1 timeout 0",
        "bfqq_served 256 secs",
        "bfq_bfqq_is_slow: slow 1",
        "expire (4, slow 0, num_disp 1, short_ttime 1)",
        "recalc_budg: last budg 16384, budg left -265",
        "recalc_budg: last max_budg 10922, min budg 512",
        "recalc_budg: sync 1, seeky 0",
        "head sect: 256, new budget 16384",
        "updated next rq: new budget 512",
        "calc_finish: serv 10922, w 40",
        "calc_finish: start 26843545, finish 1172098252, delta 1145254707",
        "update_peak_rate: goto reset, samples 3",
        "reset_rate_computation at end, sample 1/0 tot_sects 256",
        "new max_budget = 21127",
        "raising period dur 164/300 msec, old coeff 3000, w 120000(40)",
        "WARN: pending prio change",
        "check_fifo: returned 00000000902899a4",
        "scheduling merge with queue -1",
        "merging with queue 18446744073709551615",
        "set tentative waker bfq3644S",
    ];

    /// Does each form have a variant, and is it written as it was read?
    #[test]
    fn forms_come_back() {
        for form in FORMS {
            let message = BfqMessage::read(form);
            assert!(!matches!(message, BfqMessage::Unknown(_)), "{form}");
            assert_eq!(message.to_string(), form);
        }
    }

    /// Are numbers read into their places?
    #[test]
    fn numbers_have_their_places() {
        let raising = BfqMessage::Raising {
            elapsed_ms: 164,
            duration_ms: 300,
            coefficient: 3000,
            weight: 120_000,
            original_weight: 40,
        };
        assert_eq!(BfqMessage::read(FORMS[32]), raising);
        let expire = BfqMessage::Expire {
            reason: ExpireReason::Preempted,
            slow: false,
            dispatched: 1,
            short_think_time: true,
        };
        assert_eq!(BfqMessage::read(FORMS[21]), expire);
        let with = Partner::Process(3508);
        let merge = BfqMessage::read("merging with queue 3508");
        assert_eq!(merge, BfqMessage::Merge { with });
        assert_eq!(merge.to_string(), "merging with queue 3508");
    }

    /// Is what is nearly a known form kept unchanged?
    #[test]
    fn nearly_known_is_unknown() {
        let near = [
            "",
            "allocated twice",
            "add to",
            "add_request 2",
            "add_request +1",
            "bfqq_served 256 secs and more",
            "bfqq_served 18446744073709551616 secs",
            "expire (5, slow 0, num_disp 1, short_ttime 1)",
            "put_queue: ca82b30d 5",
            "get_request 000000009c5b551a: bfqq 00000000ca82b30d",
            "calc_finish: serv 1, w 4294967296",
            "select_queue: slept",
            "set tentative waker 3644",
        ];
        for text in near {
            assert_eq!(BfqMessage::read(text), BfqMessage::Unknown(text.to_owned()));
        }
    }

    /// Are queues named as bfq names them?
    #[test]
    fn names() {
        for name in ["bfq3445S", "bfq0A", "bfqSHARED-S", "bfqSHARED-A"] {
            assert_eq!(QueueName::read(name).unwrap().to_string(), name);
        }
        for name in ["bfq", "bfqS", "bfq34", "bfq-1S", "cfq34S", "bfqSHARED"] {
            assert_eq!(QueueName::read(name), None, "{name}");
        }
    }
}
