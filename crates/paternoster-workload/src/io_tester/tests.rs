// SPDX-License-Identifier: MIT OR Apache-2.0
//! Io_tester's files: what they become, and what is refused.

use super::*;
use crate::fio::jobfile::{Source, parse};

/// The example that Seastar comes with (Apache-2.0).
const CONF: &str = "\
- name: big_writes
  shards: all
  type: seqwrite
  shard_info:
    parallelism: 10
    reqsize: 256kB
    shares: 10
    think_time: 0

- name: latency_reads
  shards: [0]
  type: randread
  shard_info:
    parallelism: 1
    reqsize: 512
    shares: 100
    think_time: 1000us
";

fn translated(text: &str) -> String {
    assert!(looks_like(text), "{text}");
    let told = translate("t.yaml", text).unwrap_or_else(|problems| panic!("{problems:?}"));
    // Each line is valid for fio, too.
    let source = Source { name: "t", text: &told };
    let include = |_: &str, _: &str| Err(String::new());
    parse(&[source], &[], &[], &|_| None, &include)
        .unwrap_or_else(|problems| panic!("{problems:?}"));
    told
}

/// Is Seastar's own example translated, shares of 10 and 100 as weights of 100 and 1000?
#[test]
fn the_example_is_translated() {
    let told = translated(CONF);
    let (_, sections) = told.split_once("group_reporting=1\n").expect("a global section");
    assert_eq!(
        sections,
        "[big_writes]\nnumjobs=1\ncgroup=big_writes\ncgroup_weight=100\n\
         rw=write\nbs=262144\nsize=1073741824\niodepth=10\n\
         [latency_reads]\nnumjobs=1\ncgroup=latency_reads\ncgroup_weight=1000\n\
         rw=randread\nbs=512\nsize=1073741824\niodepth=1\nthinktime=1000\n"
    );
}

/// Do fibers with pauses become processes, can a class be shared with another job, are data divided
/// among shards, and do rates, limits and options get through?
#[test]
fn each_key_gets_through() {
    let told = translated(
        "# three shards\n---\n\
         - name: a\n  type: randwrite\n  shards: [0, 2]\n  data_size: 3GB\n\
         \x20 shard_info: {parallelism: 4, rps: 50, batch: 2, limit: 1000, shares: 200}\n\
         \x20 options: {dsync: true, pause_distribution: poisson}\n\
         - name: b\n  type: seqread\n  shards: all\n\
         \x20 shard_info: {parallelism: 2, class: a, think_time: 2ms}\n\
         \x20 options: {sleep_type: busyloop}\n\
         - name: c\n  type: cpu\n  shards: all\n\
         \x20 shard_info: {parallelism: 1, execution_time: 90us, think_time: 10us, shares: 100}\n",
    );
    let section = |name: &str| {
        let (_, rest) = told.split_once(&format!("[{name}]\n")).expect("a section");
        rest.split('[').next().unwrap_or("").replace('\n', " ")
    };
    // 2 shards * 4 fibers; 3 GiB of 3 shards; 50 * 2 a second; 1000 requests a
    // shard are 250 a fiber, of 4096 bytes.
    assert_eq!(
        section("a"),
        "numjobs=8 cgroup=a cgroup_weight=1000 rw=randwrite bs=4096 size=1073741824 iodepth=2 \
         sync=dsync time_based=0 io_size=1024000 rate_iops=100 rate_process=poisson "
    );
    assert_eq!(
        section("b"),
        "numjobs=6 cgroup=a cgroup_weight=1000 rw=read bs=4096 size=1073741824 iodepth=1 \
         thinktime=2000 thinktime_spin=2000 "
    );
    // 90 of 100 us; 100 of 200 shares.
    assert_eq!(
        section("c"),
        "numjobs=3 cgroup=c cgroup_weight=500 ioengine=cpuio cpuload=90 cpuchunks=90 "
    );
}

/// Does each refusal name file, line, key and what would be valid?
#[test]
fn refusals_name_the_key() {
    let job = |more: &str| format!("- name: a\n  type: seqread\n  shards: all\n{more}");
    let info = |more: &str| job(&format!("  shard_info:\n    parallelism: 1\n    {more}\n"));
    for (text, told) in [
        (info("reqsiez: 4kB"), "t.yaml:6: unknown key; there are parallelism, rps, batch, limit"),
        (info("reqsize: 4kiB"), "t.yaml:6: no size, as 512, 4kB, 2MB, 1GB"),
        (info("reqsize: 100"), "t.yaml:6: no size"),
        (info("reqsize: 99999999999GB"), "t.yaml:6: no size"),
        (
            info("think_time: 5"),
            "t.yaml:6: no time up to an hour, as 90us, 5ms, 1s: `think_time: 5`",
        ),
        (info("think_after: 5ms"), "t.yaml:6: pauses by turns"),
        (info("bandwidth: 5MB"), "t.yaml:6: io_tester reads it and does nothing with it"),
        (info("class: x"), "t.yaml:6: no job is the class `x`: `a`"),
        (info("rps: -1"), "t.yaml:6: no number from 0 to 4294967296: `rps: -1`"),
        (job("  typo: 1\n"), "t.yaml:4: unknown key; there are name, type, shards"),
        (job("  options: {dsync: yes}\n"), "t.yaml:4: not one of true, false: `dsync: yes`"),
        (job("  files_count: 3\n"), "t.yaml:4: only for `unlink`"),
        (job(""), "t.yaml:1: `parallelism` is missing or 0"),
        ("- name: a\n  type: unlink\n".to_owned(), "t.yaml:2: no file is deleted here"),
        ("- name: a\n  type: reed\n".to_owned(), "t.yaml:2: unknown type; there are seqread"),
        ("- name: 'a]'\n".to_owned(), "t.yaml:1: a name has letters"),
        ("- name: global\n".to_owned(), "t.yaml:1: fio takes a section whose name begins with"),
        ("- name: ' global 2'\n".to_owned(), "t.yaml:1: fio takes a section whose name begins"),
        ("- name: a\n  type: cpu\n".to_owned(), "t.yaml:1: the job has no `shards`: `a`"),
        ("- word\n".to_owned(), "t.yaml:1: no job: name, type, shards: `word`"),
        ("- name: a\n  shards: {}\n".to_owned(), "t.yaml:2: `all`, or a list of numbers"),
        ("- name: [a\n".to_owned(), "t.yaml:"),
        ("- &x a\n- *x\n".to_owned(), "t.yaml:2: an alias"),
        ("- [[[[[[[[[a]]]]]]]]]\n".to_owned(), "t.yaml:1: more than 8 lists and maps"),
        ("- a\n---\n- b\n".to_owned(), "t.yaml:4: a second document"),
    ] {
        let problems = translate("t.yaml", &text).expect_err(&text);
        assert!(problems[0].to_string().starts_with(told), "{}", problems[0]);
    }
    let unequal = CONF.replace("shares: 100", "shares: 101");
    let problems = translate("t.yaml", &unequal).expect_err("more than ten times");
    assert!(problems[0].message.starts_with("shares from 10 to 101"), "{problems:?}");
}

/// Is a job file of fio not taken for one of io_tester's?
#[test]
fn fios_files_are_left_alone() {
    for text in ["", "# - a\n[a]\nrw=read\n", "[-]\nrw=read\n", "; - \n[a]\n", "rw=read\n"] {
        assert!(!looks_like(text), "{text}");
    }
}

/// Does any cut of an example, and any of its bytes doubled, end without a panic?
#[test]
fn broken_files_end() {
    for place in 0..CONF.len() {
        let _either = translate("t", &CONF[..place]);
        let _either =
            translate("t", &format!("{}{}", &CONF[..place], &CONF[place.saturating_sub(1)..]));
    }
}
