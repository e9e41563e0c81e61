// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results in the forms of `--format`: the contents of documents, CSV, tables, pages.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The keys of all documents: removing one or changing its meaning requires another number.
const SCHEMA: &str = include_str!("../../../../docs/results.schema.json");

fn output(columns: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paternoster"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(arguments).env("COLUMNS", columns).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// A reader, a writer that syncs and two clones, under these schedulers, in this form.
fn run(columns: &str, more: &[&str]) -> String {
    let job = "run -q --device ssd-870evo --no-entitlement --direct=1 --size=16m --runtime=50ms \
               --name=r --rw=randread --name=w --rw=randwrite --fdatasync=1 --name=two --rw=read \
               --numjobs=2";
    let job: Vec<&str> = job.split_whitespace().collect();
    text(&output(columns, &[&job[..], more].concat()))
}

/// What does not follow docs/results.schema.json. The part of JSON Schema that the file uses is
/// small: `type`, `const`, `anyOf`, `$ref`, `items`, `properties`, `required` and
/// `additionalProperties`; any other word in it is reported, too.
struct Judge {
    schema: Value,
    wrong: Vec<String>,
}

impl Judge {
    fn hold(&mut self, value: &Value, schema: &Value, path: &str) {
        for (word, rule) in schema.as_object().expect("a schema") {
            match (word.as_str(), value) {
                ("description" | "required" | "properties", _) => {}
                ("$ref", _) => {
                    let place = rule.as_str().expect("a place").trim_start_matches('#');
                    let own = self.schema.pointer(place).expect("it is defined").clone();
                    self.hold(value, &own, path);
                }
                ("anyOf", _) => {
                    let fits = rule.as_array().expect("schemas").iter().any(|one| {
                        let mut own = Judge { schema: self.schema.clone(), wrong: Vec::new() };
                        own.hold(value, one, path);
                        own.wrong.is_empty()
                    });
                    self.expect(fits, || format!("{path}: {value} is none of {rule}"));
                }
                ("const", _) => {
                    self.expect(value == rule, || format!("{path}: {value} is not {rule}"));
                }
                ("type", _) => {
                    let is = |name: &Value| match name.as_str().expect("a type") {
                        "null" => value.is_null(),
                        "boolean" => value.is_boolean(),
                        "integer" => value.is_i64() || value.is_u64(),
                        "number" => value.is_number(),
                        "string" => value.is_string(),
                        "array" => value.is_array(),
                        name => name == "object" && value.is_object(),
                    };
                    let fits = rule.as_array().map_or_else(|| is(rule), |any| any.iter().any(is));
                    self.expect(fits, || format!("{path}: {value} is no {rule}"));
                }
                ("items", Value::Array(items)) => {
                    items.iter().for_each(|item| self.hold(item, rule, &format!("{path}[]")));
                }
                ("additionalProperties", Value::Object(fields)) => {
                    self.fields(fields, schema, path);
                }
                ("items" | "additionalProperties", _) => {}
                (word, _) => self.wrong.push(format!("{path}: the test knows no `{word}`")),
            }
        }
    }

    fn fields(&mut self, fields: &serde_json::Map<String, Value>, schema: &Value, path: &str) {
        for key in schema["required"].as_array().into_iter().flatten() {
            let has = fields.contains_key(key.as_str().expect("a key"));
            self.expect(has, || format!("{path}: there is no {key}"));
        }
        for (key, value) in fields {
            let below = format!("{path}.{key}");
            match (schema["properties"].get(key), &schema["additionalProperties"]) {
                (Some(own), _) => self.hold(value, own, &below),
                (None, Value::Bool(false)) => self.wrong.push(format!("{below} is not in it")),
                (None, other) => self.hold(value, other, &below),
            }
        }
    }

    fn expect(&mut self, fits: bool, wrong: impl FnOnce() -> String) {
        if !fits {
            self.wrong.push(wrong());
        }
    }
}

/// What is not as the schema has it of documents of this kind.
pub(crate) fn wrong(document: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
    let kind = document["kind"].as_str().expect("its kind");
    let place = format!("#/$defs/{kind}");
    let kinds = schema["oneOf"].as_array().expect("kinds");
    assert!(kinds.iter().any(|one| one["$ref"] == *place), "{kind} is none of the kinds");
    let own = schema.pointer(&place[1..]).expect("it is defined").clone();
    let mut judge = Judge { schema, wrong: Vec::new() };
    judge.hold(document, &own, kind);
    judge.wrong
}

/// Panics unless a document follows the schema for its kind.
pub(crate) fn conforms(document: &Value) {
    let wrong = wrong(document);
    assert!(wrong.is_empty(), "docs/results.schema.json: {wrong:#?}");
}

/// Does each kind of document have the keys that the schema promises, and no others?
#[test]
fn documents_keep_their_schema() {
    let trace = std::env::temp_dir().join(format!("paternoster-schema-{}", std::process::id()));
    let trace = trace.to_str().expect("text");
    let job = "jobs/recipes/database.fio --device ssd-870evo --scheduler=none -q --runtime=20ms";
    let asked = [
        format!("run {job} --trace {trace}"),
        format!("compare {job} --seeds=1 --goal=pg-read:p99<5ms"),
        format!("replay -q {trace} --scheduler bfq"),
        format!("analyze {trace} {trace}"),
        "devices".to_owned(),
        "devices flash-card-2010".to_owned(),
        "schedulers".to_owned(),
        "schedulers bfq".to_owned(),
        "cost-model --device flash-card-2010".to_owned(),
        "scoreboard --device flash-card-2010 --workload W1-8 --scheduler none --seeds 1 \
         --settle 100ms --runtime 300ms -q"
            .to_owned(),
    ];
    for asked in asked {
        let words: Vec<String> =
            asked.split(' ').map(|word| word.replace("read:p99", "read p99")).collect();
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(["--format", "json"]).collect();
        conforms(&serde_json::from_str(&text(&output("", &words))).expect("one document"));
    }
    conforms(&serde_json::from_str(&run("", &["--scheduler=noop", "--format=json"])).expect("one"));
    for cpu in 0..4 {
        let _absent = std::fs::remove_file(format!("{trace}.blktrace.{cpu}"));
    }
}

/// Does `run` tell what a drive counted that no request shows, in documents and below its table,
/// and nothing of a drive that counts nothing?
#[test]
fn what_a_drive_counted_is_told() {
    let words = |device: &str, format: &str| {
        let words = format!(
            "run -q --device {device} --scheduler noop --no-entitlement --direct=1 --size=1g \
             --runtime=300ms --name=w --rw=randwrite --iodepth=32 --ioengine=libaio \
             --format {format}"
        );
        text(&output("", &words.split_whitespace().collect::<Vec<_>>()))
    };
    let document: Value =
        serde_json::from_str(&words("ssd-870evo-aged", "json")).expect("one document");
    conforms(&document);
    let figures = &document["runs"][0]["device_figures"];
    let of = |name: &str| figures[name].as_f64().expect("a number");
    assert!((of("occupied_part") - 1.0).abs() < 1e-9, "{figures}");
    let whole = of("host_bytes") + of("moved_bytes");
    assert!((of("write_amplification") - whole / of("host_bytes")).abs() < 1e-9, "{figures}");
    // A full drive with 8 % more flash moves more than it is given.
    assert!(of("moved_bytes") > of("host_bytes"), "{figures}");
    let table = words("ssd-870evo-aged", "table").replace('\n', " ");
    let sentence = "noop on ssd-870evo-aged: occupied 100.0 %, write amplification ";
    assert!(table.contains(sentence), "{table}");
    let silent: Value = serde_json::from_str(&words("ssd-870evo", "json")).expect("one document");
    assert_eq!(silent["runs"][0].get("device_figures"), None);
}

/// Do the older benchmarks print their figures as `run` does, on request, each of their runs side
/// by side, and otherwise as their originals do?
#[test]
fn older_benchmarks_have_all_forms() {
    for (words, runs) in [
        ("tiotest -t 2 -f 1 -r 5", 1),
        ("tiobench --threads=1,2 --size=2 --random=4", 2),
        ("disktest -T 1 -h 1 -K 2 /dev/sdb", 1),
        ("iostest drr --jobs=1,2 --time=100ms --filesize=4m", 2),
        ("dd --files=2 --size=1m", 1),
    ] {
        let told = |format: &str| {
            let words: Vec<&str> = words.split(' ').chain(["--device=hdd-7200", "-q"]).collect();
            let format = format!("--format={format}");
            text(&output("", &[&words[..], &[&format]].concat()))
        };
        let document: Value = serde_json::from_str(&told("json")).expect("one document");
        conforms(&document);
        assert_eq!(document["runs"].as_array().map(Vec::len), Some(runs), "{words}");
        let csv = told("csv");
        assert!(csv.starts_with("device,scheduler,"), "{words}: {csv}");
        assert!(csv.lines().count() > 1 && csv.contains("mq-deadline"), "{words}: {csv}");
        assert!(told("table").contains("bandwidth"), "{words}");
        assert!(told("markdown").starts_with("# "), "{words}");
        assert!(told("html").starts_with("<!DOCTYPE html>"), "{words}");
    }
    let words = ["dd", "--files=1", "--size=1m", "--device=hdd-7200", "-q"];
    assert!(text(&output("", &words)).starts_with("1+0 records in\n"));
}

/// Is a document refused that lacks a key, has an extra one, or a figure where a list belongs?
#[test]
fn the_schema_refuses() {
    let document = serde_json::json!({ "kind": "devices", "schema": 1, "devices": 3, "more": 1 });
    let expected = [
        "devices: there is no \"version\"",
        "devices.devices: 3 is no \"array\"",
        "devices.more is not in it",
    ];
    assert_eq!(wrong(&document), expected);
}

/// Are several runs one document, with each clone by its number and syncs next to reads and writes?
#[test]
fn several_runs_are_one_document() {
    let told = run("", &["--scheduler=noop", "--scheduler=none", "--format=json"]);
    let told: Value = serde_json::from_str(&told).expect("one document");
    let jobs = told["runs"][1]["jobs"].as_array().expect("jobs");
    assert_eq!(jobs.len(), 4);
    assert_eq!((&jobs[2]["clone"], &jobs[3]["clone"]), (&0.into(), &1.into()));
    assert!(jobs[0]["clone"].is_null() && jobs[0]["write"].is_null());
    let sync = &jobs[1]["sync"];
    assert!(sync["count"].as_u64().expect("a number") > 0);
    assert!(sync["p99_ns"].as_u64() <= sync["max_ns"].as_u64());
    // none is another name of noop.
    assert_eq!(told["runs"][0]["commands"], told["runs"][1]["commands"]);
}

/// Do all lines of CSV have as many fields as the head, one line per clone and direction, syncs
/// too?
#[test]
fn csv_has_clones_and_syncs() {
    let told = run("", &["--scheduler=noop", "--format=csv"]);
    let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split(',').collect()).collect();
    let directions: Vec<[&str; 3]> = lines[1..].iter().map(|f| [f[4], f[5], f[6]]).collect();
    let expected = [
        ["r", "", "read"],
        ["w", "", "write"],
        ["w", "", "sync"],
        ["two", "0", "read"],
        ["two", "1", "read"],
    ];
    assert_eq!(directions, expected);
    assert!(lines.iter().all(|fields| fields.len() == lines[0].len()), "{told}");
}

/// Does the table have percentiles, syncs, clones in one block, suitable units, and a note about
/// identical runs?
#[test]
fn the_table_has_percentiles_and_syncs() {
    let told = run("", &["--scheduler=noop", "--scheduler=none", "--scheduler=bfq"]);
    for figure in ["p50", "p99", "p99.9", "w sync", "two x2 read", "IOPS, least of a clone"] {
        assert!(told.contains(figure), "{figure}: {told}");
    }
    assert!(told.contains(" us") && told.contains(" MB/s") && told.contains(" %"), "{told}");
    let same = "The device got the same commands at the same times from noop and none.";
    assert!(told.contains(same), "{told}");
    assert!(!told.contains("and bfq"), "{told}");
}

/// Does a narrow terminal get all runs, each below the one before?
#[test]
fn the_terminals_width_is_kept() {
    let schedulers =
        ["--scheduler=noop", "--scheduler=bfq", "--scheduler=kyber", "--scheduler=cfq"];
    let (wide, narrow) = (run("300", &schedulers), run("60", &schedulers));
    let heads = |told: &str| {
        told.lines().filter(|line| line.contains("bfq") || line.contains("cfq")).count()
    };
    assert_eq!((heads(&wide), heads(&narrow)), (1, 2));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
}

/// Are the same figures in Markdown and on a self-contained page?
#[test]
fn pages_have_the_same_figures() {
    let markdown = run("", &["--scheduler=noop", "--format=markdown"]);
    assert!(markdown.contains("| r read | IOPS | "), "{markdown}");
    let html = run("", &["--scheduler=noop", "--format=html"]);
    assert!(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!DOCTYPE html>"), "{html}");
    assert!(html.contains("p99.9") && !html.contains("src=\"http"), "{html}");
    // The one address is the name of SVG's elements, for the page's own script.
    assert_eq!(html.matches("http://").count(), html.matches("http://www.w3.org/2000/svg").count());
}

/// Do the old spellings still work, with a note about the new one?
#[test]
fn old_spellings_work() {
    let note = |arguments: &[&str]| String::from_utf8(output("", arguments).stderr).expect("text");
    let job = ["run", "--name=a", "--size=1m", "--direct=1", "--no-entitlement"];
    let with = |form: &'static str| note(&[&job[..], &["--output-format", form]].concat());
    assert!(with("csv").contains("`--output-format csv` is now `--format csv`"));
    assert!(!with("json").contains("is now"), "fio's forms have no other name");
    let listed = note(&["reproduce", "--list", "--output-format=json"]);
    assert!(listed.contains("`reproduce --output-format` is now `--format`"), "{listed}");
}
