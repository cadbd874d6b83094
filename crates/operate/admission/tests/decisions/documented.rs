//! The examples in docs/admission.md parse as documented.

use berth_admission::Policy;
use berth_api::read::{Manifest, ReadError, read_manifests};

const PAGE: &str = include_str!("../../../../../docs/admission.md");

#[test]
fn the_policy_file_in_the_documentation_is_the_default_with_budgets() {
    let begin = PAGE
        .split("```yaml\n")
        .find(|block| block.contains("kind: AdmissionPolicy") && block.contains("budgets:"))
        .unwrap();
    let (file, _) = begin.split_once("```").unwrap();
    let mut found: Vec<Manifest> = Vec::new();
    let mut take = |manifest| {
        found.push(manifest);
        Ok::<(), ReadError>(())
    };
    read_manifests(file.as_bytes(), "docs/admission.md", &mut take).unwrap();
    let policy = Policy::from_value(&found[0].value).unwrap();
    assert_eq!(policy.budgets.len(), 1);
    assert_eq!(Policy { budgets: Vec::new(), ..policy }, Policy::default());
}
