// SPDX-License-Identifier: MIT OR Apache-2.0
//! A report in a real browser: is it shown, does its script run, does it leave the network alone?
//!
//! Chromium is the judge, without a window. Where it is not installed the tests say so and pass.
//! The pages stay in the target folder (`tmp/report-*.html`), for inspection.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use paternoster_core::{Nanos, Op};
use paternoster_trace::html::{Cell, Report, Section, Table, Timeline};
use paternoster_trace::record::{Charges, Turn};
use paternoster_trace::{Kind, Run, picture};

use crate::common::skipped;
use crate::scenes::Scene;

/// Names under which it may be installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

fn browser() -> Option<&'static str> {
    let starts = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = BROWSERS.into_iter().find(starts);
    if found.is_none() {
        skipped("no browser is installed (Debian package chromium)");
    }
    found
}

fn own_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Has the browser open a page that was written to a file, and do something.
fn open(browser: &str, page: &Path, hash: &str, what: &[&str]) -> Output {
    let own = format!("--user-data-dir={}.profile", page.display());
    let address = format!("file://{}{hash}", page.display());
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.args(["--disable-background-networking", "--disable-component-update"]);
    // A container may have little shared memory.
    command.arg("--disable-dev-shm-usage");
    command.args(["--no-first-run", "--enable-logging=stderr", "--v=0", &own]);
    command.args(["--virtual-time-budget=3000", "--window-size=1060,6000"]);
    command.args(what).arg(address).output().expect("the browser starts")
}

/// The page with itself tested, as the browser has it then, and what the page's script saw.
fn tested(browser: &str, page: &Path) -> (String, serde_json::Value) {
    let output = open(browser, page, "#self-test", &["--dump-dom"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let dom = String::from_utf8(output.stdout).expect("text");
    // Everything that a script says, or the policy refuses, appears as a line of the console.
    assert!(!told.contains("CONSOLE"), "{told}");
    let begin = dom.find("data-self-test=\"").expect("the script ran to its end") + 16;
    let end = begin + dom[begin..].find('"').expect("the end of the attribute");
    let seen = dom[begin..end].replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    let seen = seen.replace("&nbsp;", " ").replace("&amp;", "&");
    let seen = serde_json::from_str(&seen).expect("JSON");
    (dom, seen)
}

/// A picture of the page: width and its pixels, red, green and blue.
fn screenshot(browser: &str, page: &Path, more: &[&str]) -> (usize, Vec<[u8; 3]>) {
    let file = page.with_extension("png");
    let option = format!("--screenshot={}", file.display());
    open(browser, page, "", &[&[option.as_str()], more].concat());
    let file = std::fs::File::open(&file).expect("the browser made a picture");
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("pixels");
    let samples = info.color_type.samples();
    assert!(samples >= 3 && info.bit_depth == png::BitDepth::Eight, "{info:?}");
    let pixels = bytes.chunks_exact(samples).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (info.width as usize, pixels.collect())
}

fn count(pixels: &[[u8; 3]], colour: u32) -> usize {
    let [_, red, green, blue] = colour.to_be_bytes();
    pixels.iter().filter(|pixel| **pixel == [red, green, blue]).count()
}

fn write(name: &str, report: &Report) -> PathBuf {
    let file = own_file(&format!("report-{name}.html"));
    std::fs::write(&file, report.render()).expect("the page can be written");
    file
}

/// All pictures of these runs, and a table.
fn report(title: &str, runs: &[Run]) -> Report {
    let table = Table::new(["run", "requests", "slowest"])
        .row([Cell::from("b"), Cell::from(9_u64), Cell::shown(9e5, "900 us")])
        .row([Cell::from("a"), Cell::from(10_u64), Cell::shown(f64::NAN, "")])
        .row([Cell::from("c"), Cell::from(100_u64), Cell::shown(1.2e6, "1.2 ms")]);
    let summary = Section::new("Summary").paragraph("Three runs, told in a table.").table(table);
    let mut report = Report::new(title).section(summary);
    for kind in Kind::ALL {
        let section = Section::new(kind.name()).plot(picture(kind, title, runs));
        report = report.section(section);
    }
    report
}

/// Two kernels as in seed 001, one of them twice as fast.
fn two() -> Vec<Run> {
    let fast = Scene::new("2.6.34-rc5", 8, 4_000);
    let slow = Scene { service_us: 900, ..Scene::new("2.6.34-rc5-corrado", 8, 4_000) };
    [fast, slow].map(|scene| scene.run()).into()
}

/// Is a report shown with its lines in their colours, without a word on the console, and does it
/// show values under the pointer and sort?
#[test]
fn a_report_is_shown_and_works() {
    let Some(browser) = browser() else { return };
    let page = write("two", &report("Two kernels", &two()));
    let (dom, seen) = tested(browser, &page);
    assert!(dom.contains("<h1>Two kernels</h1>"));
    let tips = seen["tips"].as_array().expect("tips");
    assert_eq!(tips.len(), Kind::ALL.len());
    for (kind, tips) in Kind::ALL.iter().zip(tips) {
        let tips = tips.as_array().expect("three tips").iter().filter_map(|tip| tip.as_str());
        let tips = tips.collect::<Vec<&str>>().join("\n");
        // A time, and both runs or, where each has a panel of its own, one of them.
        assert!(tips.contains(" to ") && tips.contains("2.6.34-rc5"), "{}: {tips}", kind.name());
    }
    // Text first to last; numbers largest first; missing ones last.
    let sorted = &seen["sorted"][0];
    let expected = serde_json::json!([["a", "b", "c"], ["c", "a", "b"], ["c", "b", "a"]]);
    assert_eq!(*sorted, expected);

    let (width, pixels) = screenshot(browser, &page, &[]);
    assert_eq!(width, 1060);
    let mut colours = pixels.clone();
    colours.sort_unstable();
    colours.dedup();
    assert!(colours.len() > 50, "{} colours", colours.len());
    // The ground, and the colours of the first and the second run.
    assert!(count(&pixels, 0xff_ffff) > pixels.len() / 4);
    for colour in [0x00_72b2, 0xd5_5e00] {
        assert!(count(&pixels, colour) > 1_000, "{colour:06x}: {}", count(&pixels, colour));
    }
}

/// Does a timeline show why its longest request waited, and another one after a click and under
/// each key, without a word on the console?
#[test]
fn a_timeline_tells_why() {
    let Some(browser) = browser() else { return };
    let turn = |nth: u64, client: u32, issued: u64, ended: u64| {
        let [asked, got, inserted] = [nth * 100_000, nth * 100_000, nth * 100_000].map(Nanos);
        let [issued, ended] = [issued, ended].map(Nanos);
        let mut charges = Charges::default();
        charges[0] = issued.0 - inserted.0;
        let (op, sector, sectors, before) = (Op::Read, nth * 8, 8, 1);
        Turn { client, op, sector, sectors, asked, got, inserted, issued, ended, before, charges }
    };
    // One client reads at once, the other waits for it; the last read takes longest.
    let turns = (0..40_u64).map(|nth| {
        let (at, wait) = (nth * 100_000, if nth == 39 { 900_000 } else { nth % 3 * 10_000 });
        turn(nth, u32::from(nth % 2 == 1), at + wait, at + wait + 50_000)
    });
    let clients = ["base", "<b>guest</b>"].map(str::to_owned).into();
    let timeline = Timeline { label: "noop".to_owned(), clients, turns: turns.collect() };
    let section = Section::new("Turns").turns(timeline);
    let page = write("turns", &Report::new("Turns").section(section));
    let (dom, _) = tested(browser, &page);
    let seen = dom.split("data-turns-test=\"").nth(1).and_then(|rest| rest.split('"').next());
    let seen = seen.expect("the script ran to its end").replace("&quot;", "\"");
    let seen = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen: Vec<Vec<String>> = serde_json::from_str(&seen).expect("JSON");
    let told = &seen[0];
    assert!(told[0].starts_with("<b>guest</b>, read of 4 KiB at sector 312: 950 us"), "{told:?}");
    for part in ["900 us", "while base had the device", "50.0 us", "in the device, beside 1"] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    // A click; then the client's first, its next, the other client's, the same closer, its last.
    assert_ne!(told[1], told[0]);
    let sectors =
        |nth: usize| told[nth].split("sector ").nth(1).and_then(|of| of.split(':').next());
    assert!(told[1].contains("sector"), "{}", told[1]);
    let [home, right, down, closer, end] = [2, 3, 4, 5, 6].map(|nth| sectors(nth).expect("one"));
    assert_ne!(home, right);
    assert_ne!(told[3].split(',').next(), told[4].split(',').next(), "down is another client");
    assert_eq!(down, closer);
    assert!(["304", "312"].contains(&end), "the last of its client, not {end}");
}

/// Is it dark on request, with lines that are still visible?
#[test]
fn a_report_is_dark_where_that_is_wished_for() {
    let Some(browser) = browser() else { return };
    let page = write("dark", &report("In the dark", &two()));
    let dark = "--blink-settings=preferredColorScheme=0";
    let (_, pixels) = screenshot(browser, &page, &[dark]);
    assert!(count(&pixels, 0x16_181c) > pixels.len() / 4, "the ground is not dark");
    assert_eq!(count(&pixels, 0x00_72b2), 0, "a colour that is made lighter");
    assert!(count(&pixels, 0x3d_9fe0) > 1_000);
}

/// Are names that look like a page's own parts shown as names, run nothing and load nothing?
#[test]
fn names_are_only_names() {
    let Some(browser) = browser() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of our own");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a listener that does not wait");
    let load = format!("<img src=http://127.0.0.1:{port}/a onerror=alert(1)>");
    let ends = format!("</script></title></style></svg><script>alert(1)</script>{load}");
    let scene = Scene { name: ends.clone(), ..Scene::new(&ends, 3, 300) };
    let runs = [scene.run()];
    let table = Table::new([ends.clone()]).row([Cell::from(ends.clone())]);
    let section = Section::new(ends.clone()).paragraph(ends.clone()).table(table);
    let mut report = Report::new(ends.clone()).section(section);
    for kind in Kind::ALL {
        let section = Section::new(kind.name()).plot(picture(kind, &ends, &runs));
        report = report.section(section);
    }
    let page = write("names", &report);
    let (dom, seen) = tested(browser, &page);
    // Two scripts: the data and the page's own; no picture but plots.
    assert_eq!(dom.matches("<script").count(), 2);
    assert_eq!(dom.matches("<img").count(), 0);
    assert_eq!(seen["sorted"][0][0][0], serde_json::json!(ends));
    let tips = seen["tips"].to_string();
    // A kernel's name of a process is cut, the rest is as it was.
    assert!(tips.contains("</script></title></style></svg><script>"), "{tips}");
    let asked = listener.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(asked, Err(std::io::ErrorKind::WouldBlock), "the page asked the network");
}

/// Are pages of nothing, of one run, of twelve runs and of two hundred processes shown without an
/// error?
#[test]
fn sparse_and_crowded_pages_are_shown() {
    let Some(browser) = browser() else { return };
    let twelve = |nth: u64| {
        let label = format!("cfq:slice_idle={nth}");
        Scene { service_us: 300 + 60 * nth, ..Scene::new(&label, 4, 1_500) }.run()
    };
    let many = Scene { devices: 3, ..Scene::new("a server", 200, 12_000) };
    let reads = Scene { writes: false, ..Scene::new("reads alone", 1, 800) };
    for (name, runs) in [
        ("nothing", Vec::new()),
        ("empty", vec![Scene::new("no request", 1, 0).run()]),
        ("one", vec![reads.run()]),
        ("twelve", (0..12).map(twelve).collect()),
        ("processes", vec![many.run()]),
    ] {
        let page = write(name, &report(name, &runs));
        let (_, seen) = tested(browser, &page);
        assert_eq!(seen["tips"].as_array().map(Vec::len), Some(Kind::ALL.len()));
        let (_, pixels) = screenshot(browser, &page, &[]);
        assert!(count(&pixels, 0x22_2222) > 500, "{name}: no letters");
    }
}
