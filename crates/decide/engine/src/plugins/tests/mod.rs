//! Tests of all rules, and of a rule that only the tests have.

mod open_nodes;
mod reads;

pub(super) use open_nodes::OpenNodes;

/// The page about adding a rule.
const PAGE: &str = include_str!("../../../../../../docs/add-a-rule.md");

#[test]
fn the_page_about_adding_a_rule_names_files_that_exist() {
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let paths = PAGE.split('`').filter(|text| text.starts_with("crates/"));
    // `RULE` stands for any rule.
    let paths: Vec<_> = paths.map(|path| path.replace("/RULE", "/node_ports")).collect();
    assert!(paths.len() > 10);
    for path in paths {
        assert!(repository.join(&path).exists(), "{path}");
    }
}
