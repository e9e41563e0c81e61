// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manifests of `packaging/kubernetes`: do they build, and do weights of claims take effect?

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use paternoster_serve::config::Config;
use serde_json::{Value, json};

use crate::common::skipped;
use crate::operation::blocks;
use crate::serve_arguments::{Scratch, serve};
use crate::serve_log::connect;
use crate::upgrade::Running;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes")
}

/// The output of `kubectl`, run offline.
fn kubectl(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("kubectl").args(arguments).current_dir(folder()).output();
    output.inspect_err(|_| skipped("kubectl is not installed: the manifests are not built")).ok()
}

/// Whether all of one value is in another.
fn is_within(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => one
            .iter()
            .all(|(key, value)| other.get(key).is_some_and(|there| is_within(value, there))),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_within(a, b))
        }
        _ => one == other,
    }
}

/// Do the manifests build, with a valid configuration, and does the DaemonSet have no field unknown
/// to Kubernetes? (Fields that its types do not know are lost on the way through them.)
#[test]
fn manifests_build() {
    let text = std::fs::read_to_string(folder().join("serve.toml")).expect("it is there");
    Config::parse("serve.toml", &text).expect("a configuration");
    let Some(built) = kubectl(&["kustomize", "."]) else { return };
    assert!(built.status.success(), "{built:?}");
    let text = String::from_utf8(built.stdout).expect("text");
    for kind in ["DaemonSet", "ConfigMap", "VolumeAttributesClass", "PersistentVolumeClaim"] {
        assert!(text.contains(&format!("kind: {kind}\n")), "{kind}");
    }
    let through = |how: &[&str]| -> Value {
        let output = kubectl(how).expect("it was there");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let file = ["--local", "-f", "server.yaml", "-o", "json"];
    let plain = through(&[&["label"][..], &file, &["a=b"]].concat());
    let typed = through(&[&["set", "env"][..], &file, &["A=b"]].concat());
    let pods = |value: &Value| value["spec"]["template"]["spec"].clone();
    assert!(pods(&plain)["containers"].is_array());
    assert!(is_within(&pods(&plain), &pods(&typed)), "{plain:#}\nis not\n{typed:#}");
}

/// What kubectl makes of documents in JSON with such a command, offline.
fn documents(how: &[&str]) -> Vec<Value> {
    let output = kubectl(how).expect("it was there");
    assert!(output.status.success(), "{output:?}");
    let mut all: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter::<Value>()
        .map(|one| one.expect("JSON"))
        .collect();
    if let [Value::Object(list)] = &all[..]
        && list.get("kind") == Some(&"List".into())
    {
        all = list["items"].as_array().expect("a list").clone();
    }
    all
}

/// Is the page right as written: its manifests, its patch of a claim, the server with its
/// configuration, its probe and the container's command, and the log line that it promises? (Each
/// step that needs a cluster, a builder or the kernel's client is reported.)
#[test]
fn the_page_as_written() {
    const PAGE: &str = include_str!("../../../../docs/serve/kubernetes.md");
    if kubectl(&["version", "--client"]).is_none()
        || Command::new("python3").arg("--version").output().is_err()
    {
        return skipped("python3 or kubectl is not installed: the page is not walked");
    }
    let [set_up, node] = &blocks(PAGE, "Set it up")[..] else { panic!("two blocks") };
    let [give] = &blocks(PAGE, "Give a claim its weight")[..] else { panic!("one block") };
    // Every file that a command names is there.
    for word in set_up.split_whitespace().filter(|word| word.starts_with("packaging/")) {
        assert!(folder().join("../..").join(word).exists(), "{word}");
    }
    let (build, others): (Vec<&str>, Vec<&str>) =
        set_up.lines().partition(|line| line.starts_with("docker build"));
    assert!(build[0].contains("-f Containerfile ") && folder().join("../Containerfile").exists());
    skipped(&format!("{}: no cluster, no builder: {}", build[0], others.join("; ")));
    skipped(&format!("{}: the kernel's client is a guest's business (heavy/guest)", node.trim()));

    // The claim as its patch makes it, which is the page's except for where the claim is.
    let [patch, logs] = give.lines().collect::<Vec<_>>()[..] else { panic!("{give}") };
    let (_, promised) = logs.split_once("# ").expect("what it says");
    let (to, how) = patch.split_once(" --type merge -p ").expect("a patch");
    assert_eq!(to, "kubectl patch pvc vm1 -n paternoster");
    let how = how.trim_matches('\'');
    let local = |file: &str| documents(&["label", "--local", "-f", file, "-o", "json", "a=b"]);
    let scratch = Scratch::new();
    let all = local("volumes.yaml");
    let of = |kind: &str| -> Vec<Value> {
        all.iter().filter(|one| one["kind"] == kind).cloned().collect()
    };
    let claim = scratch.text("claim.json");
    std::fs::write(&claim, of("PersistentVolumeClaim")[0].to_string()).expect("room");
    let claims =
        documents(&["patch", "--local", "-f", &claim, "-o", "json", "--type", "merge", "-p", how]);
    assert_eq!(claims[0]["metadata"]["name"], "vm1");
    let text = std::fs::read_to_string(folder().join("classes.yaml")).expect("it is there");
    // kubectl 1.32 has no types of this version, and cannot convert it offline.
    let class = |part: &str| {
        let value = |key: &str| {
            let line = part.lines().find_map(|line| line.trim().strip_prefix(key));
            line.unwrap_or_default().trim_matches('"').to_owned()
        };
        json!({ "metadata": { "name": value("name: ") }, "driverName": value("driverName: "),
                "parameters": { "weight": value("weight: ") } })
    };
    let classes: Vec<Value> = text.split("---").map(class).collect();
    let api = api_server([json!(classes), json!(of("PersistentVolume")), json!(claims)]);

    // The node: its folders are elsewhere here.
    let here = |text: &str| {
        let port = text.replace("127.0.0.1:9809", "127.0.0.1:0");
        let run = port.replace("/run/paternoster/", &scratch.text(""));
        run.replace("/srv/images/", &scratch.text("")).replace("/etc/paternoster/", "")
    };
    for disk in ["vm1.img", "vm2.img"] {
        scratch.disk(disk);
    }
    let file = std::fs::read_to_string(folder().join("serve.toml")).expect("it is there");
    std::fs::write(scratch.text("serve.toml"), here(&file)).expect("room");
    let server = Running(
        serve(&[&scratch.text("serve.toml")]).stderr(Stdio::null()).spawn().expect("a server"),
    );
    let (nbd, control) = (scratch.text("nbd.sock"), scratch.text("control.sock"));
    drop((connect(&nbd), connect(&control)));
    let manifest = &local("server.yaml")[0]["spec"]["template"]["spec"]["containers"];
    let words = |value: &Value| -> Vec<String> {
        let words = value.as_array().expect("words").iter();
        words.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let probe = words(&manifest[0]["livenessProbe"]["exec"]["command"]);
    assert_eq!(probe[0], "/usr/bin/paternoster");
    let probed = Command::new(env!("CARGO_BIN_EXE_paternoster"))
        .args(&probe[1..])
        .args(["--socket", &control])
        .output()
        .expect("it runs");
    assert!(probed.status.success(), "{probed:?}");
    let beside = words(&manifest[1]["command"]);
    assert_eq!(beside, ["python3", "/etc/paternoster/weights.py"]);
    let once = || {
        let output = Command::new(&beside[0])
            .arg(folder().join("weights.py"))
            .args(["--once", "--api", &api, "--control", &control])
            .output()
            .expect("python");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(once().trim(), promised);
    assert_eq!(once(), "", "it is so already");
    drop(server);
}

/// An API server with a claim `vm1` of a class with this weight, and one of another driver's class;
/// returns its address.
fn made_up(weight: &str) -> String {
    let named = |name: &str| json!({ "name": name, "labels": { "paternoster.io/tenant": name } });
    let claim = |name: &str, class: &str| {
        let spec = json!({ "volumeName": name, "volumeAttributesClassName": class });
        json!({ "spec": spec })
    };
    let class = |name: &str, driver: &str, weight: &str| {
        json!({ "metadata": { "name": name }, "driverName": driver,
                "parameters": { "weight": weight } })
    };
    api_server([
        json!([
            class("gold", "paternoster.io/weights", weight),
            class("theirs", "csi.example", "7")
        ]),
        json!([{ "metadata": named("vm1") }, { "metadata": named("vm2") }]),
        json!([claim("vm1", "gold"), claim("vm2", "theirs"), claim("elsewhere", "gold")]),
    ])
}

/// An API server with these classes, volumes and claims; returns its address.
fn api_server(lists: [Value; 3]) -> String {
    let [classes, volumes, claims] = lists.map(|items| json!({ "items": items }).to_string());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).expect("a request");
            let body = match asked.split(' ').nth(1).and_then(|path| path.rsplit('/').next()) {
                Some("volumeattributesclasses") => &classes,
                Some("persistentvolumes") => &volumes,
                _ => &claims,
            };
            let head = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n";
            // A client that has heard enough may be gone.
            let _gone = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

/// Does a claim's class give its tenant a weight, once; is another driver's class left alone; and
/// is a weight that the server refuses reported?
#[test]
fn weights_of_claims_arrive() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skipped("python3 is not installed: weights.py is not run");
    }
    let scratch = Scratch::new();
    let (disk, socket, control) = (scratch.disk("disk"), scratch.text("s"), scratch.text("c"));
    let options = ["--engine=threads", "--tenant=vm1=100", "--tenant=vm2=100"];
    let at = [&*disk, "--socket", &socket, "--control", &control];
    let mut child =
        serve(&[&at[..], &options].concat()).stderr(Stdio::null()).spawn().expect("a server");
    drop((connect(&socket), connect(&control)));
    let weights = |weight: &str| {
        let output = Command::new("python3")
            .arg(folder().join("weights.py"))
            .args(["--once", "--api", &made_up(weight), "--control", &control])
            .output()
            .expect("python");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let told = "vm1: weight 100 -> 300\n".to_owned();
    assert_eq!(weights("300"), (Some(0), told, String::new()));
    assert_eq!(weights("300"), (Some(0), String::new(), String::new()), "it is so already");
    let (status, _, why) = weights("20000");
    assert_eq!(status, Some(1));
    assert!(why.starts_with("vm1: weight 20000: ") && why.contains("1 to 10000"), "{why}");
    child.kill().expect("it is ours");
    let _ended = child.wait();
}
