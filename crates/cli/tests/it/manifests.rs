//! Manifests of well-known projects, simulated on twelve nodes in three zones.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::expected::difference;
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
    let manifests = crate_folder.join("../../../shared/manifests");
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
