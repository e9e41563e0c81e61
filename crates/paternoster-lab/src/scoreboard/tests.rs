// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the command: arguments, job files, and a small cell from end to end.

use super::*;

fn options(device: &str, workload: &str, schedulers: &[&str]) -> ScoreboardOptions {
    ScoreboardOptions {
        device: vec![device.to_owned()],
        drawn: 0,
        workload: vec![workload.to_owned()],
        scheduler: schedulers.iter().map(|&name| name.to_owned()).collect(),
        seeds: "1-2".to_owned(),
        threads: Some(2),
        settle: Some("1s".to_owned()),
        runtime: Some("2s".to_owned()),
        output_format: Form::Shared(Format::Json),
        json: None,
        html: None,
        svg: None,
        quiet: true,
    }
}

fn refusal(options: &ScoreboardOptions) -> String {
    match Plan::new(options) {
        Err(Failure::Request(message)) => message,
        other => panic!("{other:?}"),
    }
}

/// Do all job files parse on all devices, with the required sections, files that fit, and ten times
/// the pace on non-rotating devices?
#[test]
fn job_files_parse() {
    for name in DEVICES {
        let Ok(target) = Target::find(name, Real::Refused, 0) else { panic!("{name} is there") };
        for workload in workloads::ALL {
            let times = Times::of(&target.facts, workload);
            let jobs = cell::jobs(workload, &target.facts, times).expect(workload.name);
            let missing = |name: &&'static &'static str| {
                let has = Workload { sections: std::slice::from_ref(*name), ..*workload };
                !jobs.iter().any(|job| has.has(&job.name))
            };
            let missing: Vec<_> = workload.sections.iter().filter(missing).collect();
            assert!(missing.is_empty() && !jobs.is_empty(), "{}: {missing:?}", workload.name);
            assert!(jobs.iter().all(|job| job.time.runtime <= Some(times.measure)));
            let setting = cell::setting(256, 1).expect(name);
            let settings = setting.on(&target);
            let capacity = target.facts.capacity * 512;
            let laid = paternoster_workload::layout::plan(&jobs, capacity, settings.placement, 1);
            assert!(laid.is_ok(), "{} on {name}", workload.name);
            if workload.name == "W4p-1" {
                let pace = if target.facts.rotational { 10 } else { 100 };
                assert_eq!(jobs[0].pacing.rate_iops[0], Some(pace), "{name}");
            }
        }
    }
}

/// Is a reader compared with what its own tracks give? Of two streams one is at the beginning of a
/// disk that reads 200 MB/s outside and 95 inside, the other begins in its middle. CFQ gives each
/// the same time, so neither misses anything, although one reads a fifth less.
#[test]
fn a_reader_is_owed_what_its_own_tracks_give() {
    let options = ScoreboardOptions {
        seeds: "1".to_owned(),
        settle: Some("2s".to_owned()),
        runtime: Some("20s".to_owned()),
        ..options("hdd-7200", "W2-2", &["cfq"])
    };
    let Ok(plan) = Plan::new(&options) else { panic!("it is sound") };
    let Ok(board) = plan.run(true) else { panic!("it runs") };
    let measured = &board.rows[0].measured[0][0];
    assert!(measured.error < 0.03, "{measured:?}");
    let Ok(target) = Target::find("hdd-7200", Real::Refused, 0) else { panic!("it is there") };
    let (workload, times) =
        (board.rows[0].workload, Times::of(&target.facts, &board.rows[0].workload));
    let jobs = cell::jobs(&workload, &target.facts, times).expect("jobs");
    let places = cell::places(&jobs, &target.facts).expect("they fit");
    let half = target.facts.capacity * 512 / 2;
    assert!(places[0] == Some(0) && places[1] >= Some(half / 10 * 9), "{places:?}");
}

/// Are equal runs equal to the byte, whatever the number of threads? And are the figures those of
/// seed 000's card: 4 KiB take 1116 + 4 * 46.04 = 1300 us, 64 KiB 1116 + 64 * 46.04 = 4063 us.
///
/// Under noop they take turns of 5363 us in all, so the small one has 1300 / 5363 = 24.2 % of what
/// the card does when it is full of small ones, the large one 75.8 %. Each is owed half of the 100
/// %: 1 - 24.2 / 50 = 51.5 % are missed. Alone, with 20 us of the host between two, the small one
/// has 1300 / 1320 of that; of its half of this it gets 24.2 / (98.5 / 2) = 0.49. CFQ's slices give
/// each about a half. No client waits for longer than a second, or a slice or two of CFQ's.
#[test]
fn a_small_cell_is_sane_and_repeats() {
    let options = options("flash-card-2010", "W1-64", &["noop", "cfq"]);
    let Ok(plan) = Plan::new(&options) else { panic!("it is sound") };
    let Ok(board) = plan.run(true) else { panic!("it runs") };
    let again = Plan { threads: 1, ..plan }.run(true);
    let Ok(again) = again else { panic!("it runs again") };
    assert_eq!(tell::document(&board).to_string(), tell::document(&again).to_string());
    assert_eq!(tell::text(&board), tell::text(&again));
    assert_eq!(page::html(&board), page::html(&again));
    assert_eq!(kept::markdown(&board), kept::markdown(&again));
    let [noop, cfq] = [0, 1].map(|place| board.worst(&board.rows[0], place));
    assert!((noop.error - 0.515).abs() < 0.01 && !noop.keeps(), "{noop:?}");
    let own = &board.rows[0].measured[0][0];
    assert!((own.throughput - 1.0).abs() < 0.01 && own.wait < 0.1, "{own:?}");
    assert!(cfq.error < 0.1 && cfq.throughput > 0.9, "{cfq:?}");
    assert!((noop.incentive - 0.49).abs() < 0.02, "{noop:?}");
    // A card takes one command at a time: there is nothing to choose.
    assert_eq!(board.rows[0].curves[0].points.len(), 1);
}

/// Is a drawn device the same one each time, and are its shares judged? The curve of W13r, D* 144,
/// ends at what the device takes, 256 requests at most.
#[test]
fn drawn_devices_are_judged() {
    let mut options = options("flash-card-2010", "W13r", &["noop"]);
    (options.device, options.drawn) = (Vec::new(), 2);
    options.seeds = "1".to_owned();
    let Ok(plan) = Plan::new(&options) else { panic!("it is sound") };
    let Ok(again) = Plan::new(&options) else { panic!("it is sound") };
    let names = |plan: &Plan| plan.devices.iter().map(|one| one.0.clone()).collect::<Vec<_>>();
    assert!(names(&plan).iter().all(|name| name.starts_with("drawn-")) && plan.devices.len() == 2);
    assert_eq!(names(&plan), names(&again));
    let Ok(runs) = plan.runs() else { panic!("it has runs") };
    let shallow = runs.steps.iter().filter(|step| step.depth.is_some());
    let deepest = plan.devices.iter().map(|one| one.1.facts.depth).max().unwrap_or(0);
    assert!(shallow.clone().all(|step| (144..256).contains(&step.depth.unwrap_or(0))));
    assert_eq!(shallow.count() > 0, deepest > 144);
}

/// Does a paced client with a flood have a tail, and is it in the picture?
#[test]
fn a_client_has_a_tail() {
    let options = options("flash-card-2010", "W4p-1", &["noop"]);
    let Ok(board) = Plan::new(&options).and_then(|plan| plan.run(true)) else { panic!("it runs") };
    let noop = board.worst(&board.rows[0], 0);
    // The flood's 32 requests of 1300 us lie before each of the client's.
    assert!(noop.tail.is_some_and(|tail| (20.0..70.0).contains(&tail)), "{noop:?}");
    assert_eq!(noop.bulk, Some(1.0));
    let picture = picture::panels(&board);
    assert!(picture.starts_with("<svg") && picture.contains("noop"), "{picture}");
}

/// Do writers pay for what a full cache drains? Each of their writes costs a disk 9 ms, which it
/// spends after it has answered in 22 us. If they paid only those 22 us, a reader would have to
/// wait for five hundred of them after each of its 12 ms: thousands of times its wait alone. It
/// waits less than without a scheduler, where it is behind 128 writes.
#[test]
fn writers_pay_for_what_drains() {
    let mut options = options("hdd-7200", "W4pw", &["noop", "paternoster"]);
    options.seeds = "1".to_owned();
    (options.settle, options.runtime) = (Some("5s".to_owned()), Some("20s".to_owned()));
    let Ok(board) = Plan::new(&options).and_then(|plan| plan.run(true)) else { panic!("it runs") };
    let [noop, own] = [0, 1].map(|place| board.worst(&board.rows[0], place));
    assert!(own.tail.is_some() && own.tail < noop.tail, "{own:?} {noop:?}");
}

/// Are mistakes in the arguments reported before anything runs?
#[test]
fn arguments_are_refused() {
    let with = |change: fn(&mut ScoreboardOptions)| {
        let mut options = options("flash-card-2010", "W3", &["noop"]);
        change(&mut options);
        refusal(&options)
    };
    let message = with(|options| options.workload = vec!["W26".to_owned()]);
    assert!(message.starts_with("--workload W26: there is no such workload; there are W1-8,"));
    for text in ["x", "5-1", "1-", "1-100000"] {
        let mut options = options("flash-card-2010", "W3", &["noop"]);
        options.seeds = text.to_owned();
        assert!(refusal(&options).starts_with(&format!("--seeds {text}: it is a number")));
    }
    assert!(with(|options| options.scheduler = vec!["bfk".to_owned()]).contains("`bfk`"));
    assert!(with(|options| options.device = vec!["card".to_owned()]).contains("no device `card`"));
    assert!(with(|options| options.runtime = Some("0".to_owned())).contains("--runtime 0: "));
    assert!(with(|options| options.settle = Some("soon".to_owned())).contains("--settle soon"));
}

/// Are the schedulers all that the library has, except older versions?
#[test]
fn schedulers_come_from_the_library() {
    let names = present();
    for name in ["noop", "mq-deadline", "kyber", "cfq", "bfq"] {
        assert!(names.iter().any(|own| own == name), "{name}");
    }
    assert!(!names.iter().any(|name| name == "bfq-4.19"));
}

/// Does no scheduler exceed what any scheduler can do? With a small and a large reader on a SATA
/// drive, what each of them uses obeys the laws that follow from the model's own futures (within 2
/// %: delays are means of 48 draws, rates of half a second); so does the mixture; and with a small
/// error (none has one here) the throughput is not above the bound.
#[test]
fn no_scheduler_exceeds_the_bound() {
    let schedulers = ["noop", "deadline", "kyber", "cfq", "bfq", "paternoster"];
    let mut options = options("ssd-870evo", "W1-128", &schedulers);
    options.workload.push("W1-64".to_owned());
    options.seeds = "1".to_owned();
    (options.settle, options.runtime) = (Some("300ms".to_owned()), Some("500ms".to_owned()));
    let Ok(board) = Plan::new(&options).and_then(|plan| plan.run(true)) else { panic!("it runs") };
    assert_eq!(board.rows.len(), 2);
    for row in &board.rows {
        let states = &row.reach[0][0];
        assert_eq!(states.laws.len(), 2, "{}", row.workload.name);
        for costs in &states.costs {
            let holds = |law| states.holds(law, costs, 0.02);
            assert!(states.laws.iter().all(holds), "{costs:?} of {states:?}");
        }
        let bound = reach::bound(&row.reach[0]).expect("laws are known");
        assert!(reach::most(&row.reach[0]) <= 1.02 * bound);
        for own in row.measured.iter().map(|seeds| &seeds[0]) {
            assert!(own.error > 0.05 || own.throughput <= 1.02 * bound, "{own:?} {bound}");
        }
        // Far less than noop does, with which a reader of 4 KiB misses more than half: a cell that
        // no scheduler keeps at that throughput.
        assert!(bound < 0.5 * row.measured[0][0].throughput, "{bound}");
    }
    let text = reachable::markdown(&board);
    assert!(text.contains("| **all** | 0 | 0 | 2 | 0 |"), "{text}");
}

/// Is every workload there once, whatever it was named by?
#[test]
fn named_twice_is_run_once() {
    let names = ["W6d", "W6", "w3"].map(str::to_owned);
    let Ok(found) = chosen(&names) else { panic!("they are there") };
    let found: Vec<&str> = found.iter().map(|workload| workload.name).collect();
    assert_eq!(found, ["W3", "W6", "W6m", "W6d"]);
}
