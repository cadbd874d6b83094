//! Replays the recorded suites and altered recordings with the built binary.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::program::berth;

/// The directory with the recorded suites, if it exists.
fn conformance() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/conformance");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("{}: the recorded suites were not found; nothing was replayed", folder.display());
    None
}

#[test]
fn every_suite_is_replayed_without_a_difference() {
    let Some(folder) = conformance() else { return };
    let suites = ["nodeaffinity", "interpod", "spread", "resources", "profiles", "admission", "mixed"];
    let others = ["large/openb", "more/preemption", "more/volumes", "more/dra"];
    let all = suites.iter().chain(&others).map(|suite| (String::new(), "1.36", *suite));
    // `large/openb` has the same answers in later versions.
    let later = suites.iter().chain(others.iter().skip(1));
    let later = ["1.37", "1.38"]
        .into_iter()
        .flat_map(|version| later.clone().map(move |suite| (format!("v{version}/"), version, *suite)));
    for (folder_of, version, suite) in all.chain(later) {
        let suite = format!("{folder_of}{suite}.jsonl.gz");
        let ran = berth(&folder, &["replay", "--kubernetes", version, &suite], b"");
        assert!(ran.stdout.contains(", 0 differences\n"), "{suite}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.starts_with("0 scenarios"), "{suite}: nothing in it");
        assert_eq!((ran.stderr.as_str(), ran.code), ("", 0), "{suite}");
    }
}

#[test]
fn the_recordings_of_each_version_are_replayed_without_a_difference() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance");
    for version in ["1.36", "1.37", "1.38"] {
        let ran = berth(&folder, &["replay", "--kubernetes", version, version], b"");
        assert!(ran.stdout.contains(", 0 differences\n"), "{version}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stdout.starts_with("0 scenarios"), "{version}: nothing in it");
    }
}

#[test]
fn differences_of_an_altered_recording_are_reported_by_field() {
    let Some(folder) = conformance() else { return };
    let suite = BufReader::new(GzDecoder::new(File::open(folder.join("interpod.jsonl.gz")).unwrap()));
    // Alters the score of the first feasible node, and the selected node.
    let (recording, expected) = suite.lines().find_map(|line| altered(&line.unwrap())).unwrap();
    let ran = berth(&folder, &["replay", "-"], recording.as_bytes());
    assert!(ran.stdout.starts_with(&expected), "expected:\n{expected}\ngot:\n{}", ran.stdout);
    assert!(ran.stdout.ends_with(" steps, 2 differences\n"), "{}", ran.stdout);
    assert_eq!(ran.code, 1);
}

/// The recording with the first feasible node's total and the choice changed, and the differences this makes.
fn altered(line: &str) -> Option<(String, String)> {
    let mut recording: Value = serde_json::from_str(line).unwrap();
    let scenario = recording["scenario"]["name"].as_str()?.to_owned();
    // The last step: an altered placement would affect later steps.
    let step = recording["expect"]["steps"].as_array_mut()?.last_mut()?;
    let pod = step["pod"].as_str()?.to_owned();
    let chosen = step["chosen"].as_str()?.to_owned();
    let total = step["nodes"][&chosen]["total"].as_i64()?;
    step["nodes"][&chosen]["total"] = (total + 1).into();
    step["chosen"] = "elsewhere".into();
    let expected = format!(
        "{scenario}: pod {pod}: node {chosen}: total\n  expected: {}\n  got:      {total}\n\
         {scenario}: pod {pod}: chosen\n  expected: elsewhere\n  got:      {chosen}\n",
        total + 1
    );
    Some((recording.to_string(), expected))
}
