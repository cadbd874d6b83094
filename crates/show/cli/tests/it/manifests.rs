//! Manifests of well-known projects, simulated on twelve nodes in three zones.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_testkit::programs::TempDir;
use berth_testkit::programs::difference;
use serde_json::Value;

use crate::summary::summary;

/// The entries of a directory, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    entries
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn every_manifest_is_simulated_on_twelve_nodes() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifests = crate_folder.join("../../../../shared/manifests");
    if !manifests.is_dir() {
        eprintln!("{}: the manifests were not found; nothing was simulated", manifests.display());
        return;
    }
    let (mut n_files, mut wrong) = (0, String::new());
    for folder in entries(&manifests).into_iter().filter(|path| path.is_dir()) {
        let mut got = String::new();
        for file in entries(&folder).iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")) {
            n_files += 1;
            let args = ["-f", name(file), "--nodes", "12", "--zones", "3"];
            writeln!(got, "# {}\n{}", name(file), summary(&folder, &args)).unwrap();
        }
        let golden = crate_folder.join("tests/golden/manifests").join(format!("{}.txt", name(&folder)));
        wrong.extend(difference(&golden, &got));
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(n_files, 73);
}

#[test]
fn the_action_annotates_the_lines_of_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let action = fs::read_to_string(root.join("action.yml")).unwrap();
    let action: Value = serde_saphyr::from_str(&action).unwrap();
    let steps = action["runs"]["steps"].as_array().unwrap();
    let lint = steps.iter().find(|step| step["name"] == "Lint").unwrap();
    let script = lint["run"].as_str().unwrap();
    let run = |files: &str, args: &str| {
        let inputs = &action["inputs"];
        let mut shell = Command::new("bash");
        shell.args(["-eo", "pipefail", "-c", script]).current_dir(&root);
        shell.env("BERTH", env!("CARGO_BIN_EXE_berth")).env("FILES", files).env("ARGS", args);
        shell.env("FORMAT", inputs["format"]["default"].as_str().unwrap());
        let output = shell.output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let folder = TempDir::new("action");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  affinty: {}\n  containers: [{name: c, image: i}]\n";
    fs::write(folder.0.join("pod.yaml"), pod).unwrap();
    let files = folder.0.to_str().unwrap();
    let (text, code) = run(files, "--fail-on never");
    assert!(text.starts_with("::") && text.contains("pod.yaml,line=5,title=unknown-field::"), "{text}");
    assert_eq!((code, run(files, "").1), (Some(0), Some(1)), "{text}");
}
