//! Each rule has a page in docs/lint, whose examples are found, or are not.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use berth_lint::{RULES, RuleInfo};

use crate::report;

pub(crate) fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lint")
}

/// The code blocks with this fence.
fn blocks(page: &str, fence: &str) -> Vec<String> {
    let fence = format!("\n```yaml {fence}\n");
    let blocks = page.split(fence.as_str()).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_examples_of_each_page_are_found_and_their_right_forms_are_not() {
    let mut wrong = String::new();
    for RuleInfo { name, .. } in RULES {
        let page = fs::read_to_string(pages().join(format!("{name}.md"))).unwrap();
        for (fence, is_wrong) in [("wrong", true), ("right", false)] {
            let blocks = blocks(&page, fence);
            assert!(!blocks.is_empty(), "{name}: no example is {fence}");
            for (i, block) in blocks.iter().enumerate() {
                let report = report(block, &[name]);
                if report.findings.is_empty() == is_wrong {
                    writeln!(wrong, "{name}: {fence} example {}: {:?}\n{block}", i + 1, report.findings)
                        .unwrap();
                }
                if !is_wrong && !report.invalid.is_empty() {
                    writeln!(wrong, "{name}: right example {}: {:?}", i + 1, report.invalid).unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_page_states_the_rule_as_the_table_does() {
    for RuleInfo { name, severity, summary, fix, .. } in RULES {
        let page = fs::read_to_string(pages().join(format!("{name}.md"))).unwrap();
        let start = format!("# {name}\n\n{summary}.\n\nSeverity: {severity}. To fix it, {fix}.\n");
        assert!(page.starts_with(&start), "{name}: the page does not begin with\n{start}");
    }
}

#[test]
fn the_index_lists_all_rules() {
    let index = fs::read_to_string(pages().join("README.md")).unwrap();
    let rows: Vec<_> = index.lines().filter_map(|line| line.strip_prefix("| [")).collect();
    let expected = RULES.iter().map(|RuleInfo { name, severity, summary, .. }| {
        format!("{name}]({name}.md) | {severity} | {summary} |")
    });
    let expected: Vec<_> = expected.collect();
    let without_count =
        |row: &&str| row.rsplit_once(" | ").map(|(row, _)| format!("{row} |")).unwrap_or_default();
    assert_eq!(rows.iter().map(without_count).collect::<Vec<_>>(), expected);
    assert!(RULES.is_sorted_by_key(|info| info.name));
}
