//! The findings in published manifests, as docs/lint/README.md counts them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use berth_input::inventory::Inventory;
use berth_lint::{Finding, LintInput, RULES, Selection, lint};

use crate::docs::pages;

/// The files of a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

fn findings(folder: &Path) -> Vec<Finding> {
    let mut inventory = Inventory::keeping_raw();
    for file in entries(folder).iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")) {
        inventory.read(File::open(file).unwrap(), &file.display().to_string()).unwrap();
    }
    let settings = berth_engine::Settings::default();
    let input = LintInput::new(&inventory, &settings, |_| true, None);
    let report = lint(&input, &Selection::default());
    assert!(report.invalid.is_empty(), "{}: {:?}", folder.display(), report.invalid);
    report.findings
}

#[test]
fn the_index_counts_the_findings_in_published_manifests() {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/manifests");
    if !manifests.is_dir() {
        eprintln!("{}: the manifests were not found; nothing was counted", manifests.display());
        return;
    }
    let mut counts: BTreeMap<&str, usize> = RULES.iter().map(|rule| (rule.name, 0)).collect();
    for finding in entries(&manifests).iter().filter(|path| path.is_dir()).flat_map(|folder| findings(folder))
    {
        *counts.get_mut(finding.rule).unwrap() += 1;
        let Finding { rule, severity, file, line, kind, name, path, message, fix, .. } = finding;
        println!(
            "{severity} {rule} {file}:{line:?} {kind} {name}\n    {path}\n    {message}\n    fix: {fix}"
        );
    }
    let index = fs::read_to_string(pages().join("README.md")).unwrap();
    for (rule, count) in counts {
        let row = index.lines().find(|line| line.starts_with(&format!("| [{rule}]"))).unwrap();
        assert!(row.ends_with(&format!("| {count} |")), "{count} findings: {row}");
    }
}
