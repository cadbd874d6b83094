//! Label keys that are to be merged into selectors, and that the pods do not have.

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let mut lists = Vec::new();
        for (path, term) in subject.written_terms() {
            lists.push((format!("{path}.matchLabelKeys"), term.match_label_keys));
            lists.push((format!("{path}.mismatchLabelKeys"), term.mismatch_label_keys));
        }
        for (i, constraint) in subject.written.spec.topology_spread_constraints.iter().enumerate() {
            let path = format!("spec.topologySpreadConstraints[{i}].matchLabelKeys");
            lists.push((path, constraint.match_label_keys.clone()));
        }
        for (path, keys) in lists {
            for (i, key) in keys.iter().enumerate() {
                if !subject.written.metadata.labels.contains_key(key) {
                    let message = format!("the pods have no label {key}: the key is ignored");
                    findings.add(&subject.object, subject.path(format!("{path}[{i}]")), message);
                }
            }
        }
    }
}
