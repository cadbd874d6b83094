//! Templates of claims of which no node satisfies two: replicas run on different nodes.

use std::collections::HashMap;

use crate::devices::{Devices, claims, is_of_group};
use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut devices = Devices::of(input);
    let templates = claims(input);
    for subject in input.subjects().filter(|subject| subject.replicas.is_some_and(|n| n > 1)) {
        for (i, entry) in subject.written.spec.resource_claims.iter().enumerate() {
            let Some(name) = &entry.resource_claim_template_name else { continue };
            if is_of_group(input, subject, entry) {
                continue;
            }
            let is_it = |claim: &&crate::devices::Claim<'_>| {
                claim.path == "spec.spec"
                    && (claim.object.namespace, claim.object.name) == (subject.namespace(), name)
            };
            let Some(claim) = templates.iter().find(is_it) else { continue };
            let mut once = None;
            for alternatives in claim.requests() {
                // With alternatives, another device may do.
                let [wanted] = alternatives.as_slice() else { continue };
                let Some(selected) = devices.selected(input, wanted) else { continue };
                let is_shared = |node: &Option<&str>| node.is_none();
                let can_be_shared = selected.iter().any(|shape| {
                    shape.device.allow_multiple_allocations
                        || !shape.device.consumes_counters.is_empty()
                        || shape.by_node.keys().any(is_shared)
                });
                let mut by_node: HashMap<&str, usize> = HashMap::new();
                for (node, n) in selected.iter().flat_map(|shape| &shape.by_node) {
                    *by_node.entry(node.unwrap_or_default()).or_default() += n;
                }
                let most = by_node.values().copied().max().unwrap_or(0) as i64;
                // A request for all devices leaves none.
                let count = wanted.count.unwrap_or(most);
                if !can_be_shared && most >= count && most < 2 * count {
                    once = Some((wanted.name.clone(), most));
                }
            }
            if let Some((request, most)) = once {
                let path = subject.path(format!("spec.resourceClaims[{i}]"));
                let devices = if most == 1 { "1 device".to_owned() } else { format!("{most} devices") };
                let message = format!(
                    "no node has devices for two replicas (request {request}: {devices} at most): each of the {} \
                     replicas needs a node of its own",
                    subject.n_pods()
                );
                findings.add(&subject.object, path, message);
            }
        }
    }
}
