//! Tolerations of taints that no node has.

use berth_rules::TolerationRule;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::is_condition;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    if input.nodes.is_empty() {
        return;
    }
    let mut taints: Vec<_> = input.nodes.all().iter().flat_map(|node| &node.spec.taints).collect();
    taints.sort_by_key(|taint| (&taint.key, &taint.value, &taint.effect));
    taints.dedup();
    for subject in input.subjects() {
        let tolerations = subject.written.spec.tolerations.iter().enumerate();
        for (i, toleration) in tolerations.filter(|(_, t)| !t.key.is_empty() && !is_condition(&t.key)) {
            let rule = TolerationRule::parse(toleration, input.settings.config.feature_gates);
            let first = taints.partition_point(|taint| taint.key < toleration.key);
            let mut of_key = taints[first..].iter().take_while(|taint| taint.key == toleration.key);
            if of_key.clone().any(|taint| rule.tolerates(taint)) {
                continue;
            }
            let message = match of_key.next() {
                Some(taint) => format!(
                    "no node has such a taint; there is {}={}:{}",
                    taint.key, taint.value, taint.effect
                ),
                None => format!("no node has a taint {}", toleration.key),
            };
            findings.add(&subject.object, subject.path(format!("spec.tolerations[{i}]")), message);
        }
    }
}
