// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines by hand: every part of a head, every form of an event, every way to be wrong.

use super::*;

fn event_of(text: &str) -> Event {
    let text = format!("fio-1 [000] d..1. 1.000000: 7,0 {text}");
    match read(1, &text).unwrap().what {
        What::Event(event) => event,
        what => unreachable!("{what:?}"),
    }
}

fn wrong(text: &str) -> String {
    read(1, text).unwrap_err()
}

/// Is every part of a line read into its place?
#[test]
fn a_line_is_read() {
    let text = "     ksoftirqd/1-22      [001] dNs1.  4011.822281:   7,0    C  RS 44288 + 128 [-5]";
    let record = read(9, text).unwrap();
    assert_eq!((record.line, &*record.task, record.pid, record.cpu), (9, "ksoftirqd/1", 22, 1));
    assert_eq!((record.context, record.preempt_depth), (Context::SoftInterrupt, 1));
    // 4011 s and 822 281 us.
    assert_eq!(record.at_ns, 4_011_822_281_000);
    assert_eq!(record.device, Device { major: 7, minor: 0 });
    assert_eq!(record.group, None);
    let What::Event(event) = record.what else { unreachable!() };
    assert_eq!((event.action, event.letters.as_str()), (Action::Complete, "RS"));
    assert_eq!((event.sector, event.sectors, event.error), (44_288, 128, -5));
}

/// Are heads read that ftrace writes with other options, and names that look like heads?
#[test]
fn heads_of_all_kinds() {
    let of = |head: &str| {
        let record = read(1, &format!("{head} 1.000005:  8,16  Q  R 1 + 2 [x]")).unwrap();
        (record.task, record.pid, record.cpu, record.context, record.preempt_depth)
    };
    let task = |name: &str, pid, cpu| (name.to_owned(), pid, cpu, Context::Task, 0);
    assert_eq!(of("fio-3445 [000] d...."), task("fio", 3445, 0));
    assert_eq!(of("fio-3445  (  3440) [011]"), task("fio", 3445, 11));
    assert_eq!(of("<...>-3445 (-------) [000] ...."), task("<...>", 3445, 0));
    assert_eq!(of("kworker/u8:3-x -1-7 [000] ....."), task("kworker/u8:3-x -1", 7, 0));
    assert_eq!(of("a [1] b-7 [002] ....."), task("a [1] b", 7, 2));
    let idle = ("<idle>".to_owned(), 0, 1, Context::Interrupt, 10);
    assert_eq!(of("<idle>-0 [001] d.Ha."), idle);
    let nanoseconds = read(1, "a-1 [000] 2.000000007: 8,0 P N [a]").unwrap();
    assert_eq!(nanoseconds.at_ns, 2_000_000_007);
}

/// Is every form of an event of PARSE-3 to PARSE-8 read?
#[test]
fn events_of_all_forms() {
    let plug = event_of("P   N [fio]");
    assert_eq!((plug.action, plug.sectors, plug.detail), (Action::Plug, 0, Detail::None));
    assert_eq!(event_of("U   N [fio] 12").detail, Detail::Unplugged(12));
    assert_eq!(event_of("UT   N [(null)] 3").action, Action::UnplugTimer);
    let split = event_of("X  WS 100 / 164 [a [b] c]");
    assert_eq!((split.sector, split.detail), (100, Detail::SplitAt(164)));
    let remap = event_of("A   R 2716504 + 8 <- (253,0) 5433008");
    let from = Detail::From(Device { major: 253, minor: 0 }, 5_433_008);
    assert_eq!((remap.sector, remap.sectors, remap.detail), (2_716_504, 8, from));
    assert_eq!(event_of("D   N 36 (12 00 00 00 24 00 ..) [smartctl]").detail, Detail::Command);
    assert_eq!(event_of("C   N (12 00 ..) [0]").detail, Detail::Command);
    let flush = event_of("C FWS 0 [0]");
    assert_eq!((flush.sector, flush.sectors, flush.error), (0, 0, 0));
    assert_eq!(event_of("Q  FN [fio]").sectors, 0);
}

/// Do letters have blktrace's meaning? A leading F is a flush, a later one is FUA.
#[test]
fn letters() {
    let of = |text| Letters::of(text).unwrap();
    let all = of("FWFSM");
    assert!(all.preflush() && all.writes() && all.fua() && all.sync() && all.meta());
    assert!(!all.reads() && !all.ahead() && !all.discards());
    assert!(of("RA").reads() && of("RA").ahead() && !of("RA").sync());
    assert!(of("FN").preflush() && !of("FN").writes() && !of("FN").fua());
    assert!(of("WFS").fua() && !of("WFS").preflush());
    assert!(of("DS").discards() && of("DS").sync() && !of("DS").writes());
    // A lone F is an operation, not a flush before one.
    assert!(!of("F").preflush());
    assert!(!of("FS").preflush() && of("FS").sync());
    assert_eq!(Letters::of(""), None);
    assert_eq!(Letters::of("rs"), None);
}

/// Are messages distinguished by speaker?
#[test]
fn messages() {
    let of = |text: &str| read(1, &format!("a-1 [000] .... 1.000000: 7,0 1,0  m   N {text}"));
    let bfq = of("bfq3445S add to busy").unwrap();
    assert_eq!(bfq.group.as_deref(), Some("1,0"));
    let queue = Some(QueueName::Process { pid: 3445, sync: true });
    assert_eq!(bfq.what, What::Message { queue, message: BfqMessage::AddToBusy });
    let device = of("bfq schedule dispatch").unwrap().what;
    assert_eq!(device, What::Message { queue: None, message: BfqMessage::ScheduleDispatch });
    let unknown = BfqMessage::Unknown("dances".to_owned());
    assert_eq!(of("bfq dances").unwrap().what, What::Message { queue: None, message: unknown });
    let cfq = of("cfq109S idle=0").unwrap().what;
    assert_eq!(cfq, What::Note("cfq109S idle=0".to_owned()));
    let path = read(1, "a-1 [000] 1.000000: 8,0 /a/b  m   N hello").unwrap();
    assert_eq!(path.group.as_deref(), Some("/a/b"));
}

/// Does each wrong line give what would be right?
#[test]
fn wrong_lines() {
    assert!(wrong("fio").contains("TASK-PID [CPU]"));
    assert!(wrong("fio-x [000] d..1. 1.000000: 7,0 Q R 1 + 2 [x]").contains("TASK-PID [CPU]"));
    assert!(wrong("fio-1 [000] d").contains("no flags"));
    assert!(wrong("fio-1 [000] d..1. 1.00:").contains("`1.00:` is no time"));
    assert!(wrong("fio-1 [000] d..1. +1.000000: 7,0").contains("is no time"));
    let late = "fio-1 [000] d..1. 18446744074.000000: 7,0";
    assert!(wrong(late).contains("is no time"), "2^64 ns are 18 446 744 073.7 s");
    assert!(wrong("fio-1 [000] d..1. 1.000000:").contains("ends where a device"));
    let other = "fio-1 [000] d..1. 1.000000: block_rq_issue: 7,0 R 0 () 0 + 8 [fio]";
    assert!(wrong(other).contains("only the tracer `blk`"));
    assert!(wrong("fio-1 [000] d..1. 1.000000: 7,0 Z R 1 + 2 [x]").contains("`Z` is no action"));
    assert!(wrong("fio-1 [000] d..1. 1.000000: 7,0 Q r 1 + 2 [x]").contains("`r` is no operation"));
    let cut = "fio-1 [000] d..1. 1.000000: 7,0 D RS 1 + ";
    assert!(wrong(cut).contains("not `SECTOR + SECTORS [TASK]`"));
    assert!(wrong("fio-1 [000] 1.000000: 7,0 C R 1 + 2 [x]").contains("[ERROR]"));
    assert!(wrong("fio-1 [000] 1.000000: 7,0 m R x").contains("a message has `N`"));
}
