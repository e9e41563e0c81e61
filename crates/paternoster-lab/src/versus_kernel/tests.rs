// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input that is read before anything runs: job files, and the names of their processes.

use super::*;

fn written(name: &str, text: &str) -> String {
    let file = format!("paternoster-versus-{name}-{}.fio", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Are jobs prepared as fio runs them: direct, with our duration? Are clones distinguished?
#[test]
fn jobs_are_the_same_on_both_sides() {
    let text = "[a]\nrw=read\nsize=1m\nnumjobs=2\nruntime=9\n[b]\nrw=read\nsize=1m\nloops=2\n";
    let name = written("same", text);
    let (stem, file) = read(&name, Some(Nanos::from_secs(3))).unwrap();
    std::fs::remove_file(&name).unwrap();
    assert!(stem.starts_with("paternoster-versus-same"));
    for job in &file.jobs {
        assert_eq!(
            (job.cache.direct, job.time.time_based, job.region.loops),
            (Some(true), true, 1)
        );
        assert_eq!(job.time.runtime, Some(Nanos::from_secs(3)));
    }
    assert_eq!(process_names(&file.jobs), ["a.0", "a.1", "b"]);
}

/// Is a job without a size refused with its place?
#[test]
fn sizes_are_asked_for() {
    let name = written("size", "[a]\nrw=read\n");
    let wrong = read(&name, None).unwrap_err();
    std::fs::remove_file(&name).unwrap();
    match wrong {
        Failure::Request(message) => {
            assert!(message.contains(":1: ") && message.contains("size"));
        }
        other => panic!("{other:?}"),
    }
}
