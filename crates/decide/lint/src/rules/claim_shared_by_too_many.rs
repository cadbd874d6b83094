//! Claims that more pods share than may be reserved for.

use std::collections::BTreeMap;

use berth_api::object::device::MAX_CONSUMERS;

use crate::devices::is_of_group;
use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut users: BTreeMap<(&str, &str), Vec<(&Subject<'_>, usize)>> = BTreeMap::new();
    let subjects: Vec<_> = input.subjects().collect();
    for subject in &subjects {
        for (i, entry) in subject.written.spec.resource_claims.iter().enumerate() {
            if let Some(name) = &entry.resource_claim_name
                && !is_of_group(input, subject, entry)
            {
                users.entry((subject.namespace(), name)).or_default().push((subject, i));
            }
        }
    }
    for ((_, name), users) in users {
        let n_pods: i64 = users.iter().map(|(subject, _)| n_pods(input, subject)).sum();
        if n_pods <= MAX_CONSUMERS as i64 {
            continue;
        }
        for (subject, i) in users {
            let path = subject.path(format!("spec.resourceClaims[{i}].resourceClaimName"));
            let message = format!(
                "{n_pods} pods share ResourceClaim {name}, which at most {MAX_CONSUMERS} pods may use at one time"
            );
            findings.add(&subject.object, path, message);
        }
    }
}

/// Of a DaemonSet, one for each node that it may run on.
fn n_pods(input: &LintInput<'_>, subject: &Subject<'_>) -> i64 {
    match subject.replicas {
        None if !input.nodes.is_empty() => input.nodes.eligible(subject).nodes.len() as i64,
        _ => subject.n_pods(),
    }
}
