// SPDX-License-Identifier: MIT OR Apache-2.0
//! The manifests of `packaging/kubernetes`: do they build, and do weights of claims arrive?

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use paternoster_serve::config::Config;
use serde_json::{Value, json};

use crate::common::skipped;
use crate::serve_arguments::{Scratch, serve};
use crate::serve_log::connect;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes")
}

/// What `kubectl` says, and does offline.
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

/// Do the manifests build, with a configuration that is one, and has the DaemonSet no field that
/// Kubernetes does not know? (What its types do not know is lost on the way through them.)
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

/// An API server that tells of a claim `vm1` of a class with this weight, and of one that another
/// driver's class has; its address.
fn api_server(weight: &str) -> String {
    let list = |items: Value| json!({ "items": items }).to_string();
    let named = |name: &str| json!({ "name": name, "labels": { "paternoster.io/tenant": name } });
    let claim = |name: &str, class: &str| {
        let spec = json!({ "volumeName": name, "volumeAttributesClassName": class });
        json!({ "spec": spec })
    };
    let class = |name: &str, driver: &str, weight: &str| {
        json!({ "metadata": { "name": name }, "driverName": driver,
                "parameters": { "weight": weight } })
    };
    let classes = list(json!([
        class("gold", "paternoster.io/weights", weight),
        class("theirs", "csi.example", "7"),
    ]));
    let volumes = list(json!([{ "metadata": named("vm1") }, { "metadata": named("vm2") }]));
    let claims =
        list(json!([claim("vm1", "gold"), claim("vm2", "theirs"), claim("elsewhere", "gold")]));
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
            // One that has heard enough may be gone.
            let _gone = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    address
}

/// Does a claim's class give its tenant a weight, once; is another driver's class let be; and is a
/// weight that the server refuses told?
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
            .args(["--once", "--api", &api_server(weight), "--control", &control])
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
