//! Each rule has a page in docs/lint, whose examples are found, or are not.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use berth_lint::{Finding, RULES, RuleInfo};

use crate::report;

pub(crate) fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lint")
}

/// The text with the changes of a diff, whose hunks have `@@` between them.
fn changed(text: &str, diff: &str) -> String {
    let (mut done, mut rest) = (String::new(), format!("\n{text}"));
    for hunk in diff.split("@@\n") {
        let [old, new] = [" -", " +"].map(|signs| {
            let lines = hunk.lines().filter(|line| line.starts_with(|sign| signs.contains(sign)));
            lines.fold("\n".to_owned(), |text, line| text + &line[1..] + "\n")
        });
        let (before, after) = rest.split_once(&old).unwrap_or_else(|| panic!("{old}is not in\n{rest}"));
        done = done + before + new.trim_end_matches('\n');
        rest = format!("\n{after}");
    }
    (done + &rest).split_off(1)
}

fn shown(findings: &[Finding]) -> String {
    let mut shown = String::new();
    for Finding { severity, kind, namespace, name, rule, path, message, fix, .. } in findings {
        let object = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        writeln!(shown, "{severity}: {kind} {object}: {rule}\n  {path}\n  {message}").unwrap();
        writeln!(shown, "  fix: {}", fix.replace('\n', "\n    ")).unwrap();
    }
    shown
}

/// Checks the blocks of a page: `yaml` is an example, `diff` a change of the wrong example before it, or of the last `yaml right` for the
/// first one of a section, and `text output` what is found in the example before it. Returns the page with the right outputs.
fn check_page(rule: &str, page: &str) -> String {
    let (mut lines, mut checked) = (page.lines(), String::new());
    let mut selected = rule.to_owned();
    let (mut base, mut example, mut findings) = (String::new(), String::new(), Vec::new());
    while let Some(line) = lines.next() {
        writeln!(checked, "{line}").unwrap();
        if let Some(finding) = line.strip_prefix("## ") {
            selected = format!("{rule}/{finding}");
            example.clone_from(&base);
        }
        let Some(fence) = line.strip_prefix("```") else { continue };
        let text: String = lines.by_ref().take_while(|l| *l != "```").map(|l| format!("{l}\n")).collect();
        let full = match fence.split_once(' ') {
            Some(("text", "output")) => {
                writeln!(checked, "{}```", shown(&findings)).unwrap();
                continue;
            }
            Some(("yaml", _)) => text.clone(),
            Some(("diff", _)) => changed(&example, &text),
            _ => panic!("{selected}: a block is {fence:?}"),
        };
        writeln!(checked, "{text}```").unwrap();
        let report = report(&full, &[&selected]);
        let is_wrong = fence.ends_with(" wrong");
        assert!(is_wrong || fence.ends_with(" right"), "{selected}: a block is {fence:?}");
        assert!(report.findings.is_empty() != is_wrong, "{selected}: {fence}\n{full}\n{report:?}");
        assert!(is_wrong || report.invalid.is_empty(), "{selected}: {fence}\n{full}\n{report:?}");
        if is_wrong {
            example = full;
        } else if fence.starts_with("yaml") {
            base = full;
        }
        findings = report.findings;
    }
    checked
}

#[test]
fn the_examples_of_each_page_are_found_as_shown_and_their_right_forms_are_not() {
    for rule in RULES.iter().map(RuleInfo::rule).collect::<BTreeSet<_>>() {
        let file = pages().join(format!("{rule}.md"));
        let page = fs::read_to_string(&file).unwrap();
        let checked = check_page(rule, &page);
        if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
            fs::write(file, checked).unwrap();
        } else {
            assert_eq!(page, checked, "{rule}: BERTH_UPDATE_GOLDEN=1 updates it");
        }
    }
}

#[test]
fn each_page_states_its_findings_as_the_table_does_and_has_an_example_of_each() {
    for info @ RuleInfo { name, severity, summary, fix, .. } in RULES {
        let page = fs::read_to_string(pages().join(format!("{}.md", info.rule()))).unwrap();
        let heading = match name.split_once('/') {
            None => format!("# {name}"),
            Some((_, finding)) => format!("## {finding}"),
        };
        let start = format!("\n{heading}\n\n{summary}.\nSeverity: {severity}. To fix it, {fix}.\n");
        let page = format!("\n{page}");
        let (_, section) = page.split_once(&start).unwrap_or_else(|| panic!("no page has{start}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        for fence in [" wrong\n", "\n```text output\n"] {
            assert!(section.contains(fence), "{name}: no block is{fence}");
        }
    }
}

#[test]
fn the_index_lists_all_rules() {
    let index = fs::read_to_string(pages().join("README.md")).unwrap();
    let rows: Vec<_> = index.lines().filter_map(|line| line.strip_prefix("| [")).collect();
    let expected = RULES.iter().map(|RuleInfo { name, severity, summary, .. }| {
        let page = name.replacen('/', ".md#", 1);
        let page = if page.contains('#') { page } else { format!("{page}.md") };
        format!("{name}]({page}) | {severity} | {summary} |")
    });
    let expected: Vec<_> = expected.collect();
    let without_count =
        |row: &&str| row.rsplit_once(" | ").map(|(row, _)| format!("{row} |")).unwrap_or_default();
    assert_eq!(rows.iter().map(without_count).collect::<Vec<_>>(), expected);
    assert!(RULES.is_sorted_by_key(|info| info.name));
}
