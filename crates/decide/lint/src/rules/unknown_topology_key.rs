//! Topology keys that nodes do not have.

use berth_api::syntax::labels::NESTED_TOPOLOGIES;
use berth_api::syntax::similar::distance;
use berth_rules::TopologyScope;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

/// Other label keys of Kubernetes that nodes have.
const KNOWN: [&str; 12] = [
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/instance-type",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "kubernetes.io/role",
];

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for (path, key) in topology_keys(subject) {
            if key.is_empty() {
                // The API server rejects it.
                continue;
            }
            let message = if input.nodes.is_empty() {
                match is_suspect(&key) {
                    true => format!("{key} is not a label that nodes have by convention"),
                    false => continue,
                }
            } else if input.nodes.domains(&key).is_empty() {
                format!("none of the {} nodes has the label {key}", input.nodes.all().len())
            } else {
                continue;
            };
            let finding = findings.add(&subject.object, subject.path(format!("{path}.topologyKey")), message);
            if let Some(meant) = NESTED_TOPOLOGIES.iter().find(|common| is_like(&key, common)) {
                finding.fix(format!("did you mean {meant}?"));
            }
        }
    }
}

fn topology_keys(subject: &Subject<'_>) -> Vec<(String, String)> {
    let terms = subject.terms().filter_map(|term| match &term.term.topology {
        TopologyScope::Key(key) => Some((term.path(), key.clone())),
        TopologyScope::All => None,
    });
    let constraints = subject.pod.rules.spread_constraints.iter();
    terms
        .chain(constraints.map(|constraint| (constraint.path.clone(), constraint.topology_key.clone())))
        .collect()
}

/// Whether a key looks like a mistyped one: one of Kubernetes' own that it does not define, or without a prefix.
fn is_suspect(key: &str) -> bool {
    let is_known = NESTED_TOPOLOGIES.contains(&key) || KNOWN.contains(&key);
    let prefix = key.split_once('/').map(|(prefix, _)| prefix);
    let of_kubernetes = matches!(
        prefix,
        Some(
            "kubernetes.io"
                | "topology.kubernetes.io"
                | "beta.kubernetes.io"
                | "failure-domain.beta.kubernetes.io"
                | "k8s.io"
        )
    );
    !is_known && (of_kubernetes || NESTED_TOPOLOGIES.iter().any(|common| is_like(key, common)))
}

/// Whether a key has the same last part as another one in any spelling, or differs from it by few letters.
fn is_like(key: &str, common: &str) -> bool {
    let last = |key: &str| key.rsplit('/').next().unwrap_or_default().to_lowercase().replace(['-', '_'], "");
    let is_short = !key.contains('/') || key.contains("kubernetes.io/") || key.contains("k8s.io/");
    key != common
        && (is_short && last(key) == last(common)
            || distance(key, common).is_some_and(|distance| distance <= 2))
}
