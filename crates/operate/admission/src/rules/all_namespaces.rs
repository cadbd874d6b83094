//! The proposal's guard against denial of service (inter-pod affinity proposal, "Denial of Service").
//!
//! Required anti-affinity is symmetric: a pod that rejects all other pods is also rejected by them. With all namespaces
//! and the host name as topology key, the pod takes one node, which is allowed. With a wider topology key, a small pod
//! would block a whole zone for all namespaces.

use berth_api::rules::TopologyScope;
use berth_api::syntax::labels::HOSTNAME;

use super::attributes::PodAttributes;
use crate::answer::Denial;
use crate::findings::Findings;
use crate::rule::Rule;

/// Required anti-affinity over all namespaces must use the host name as topology key. "All topologies" counts as
/// another key. Selectors that happen to match all namespaces that exist now are not detected.
pub(super) fn blocks_no_domains(attributes: &PodAttributes<'_>, found: &mut Findings) {
    for term in attributes.blocking_terms().filter(|term| term.namespaces.is_all()) {
        let key = match &term.topology {
            TopologyScope::Key(key) if key == HOSTNAME => continue,
            TopologyScope::Key(key) => format!("topologyKey {key:?}"),
            TopologyScope::All => "an empty topologyKey (all topologies)".to_owned(),
        };
        let message = format!(
            "{}: required anti-affinity over all namespaces may only have topologyKey {HOSTNAME:?}, not {key}: it \
             would keep pods of everybody out of whole domains; name the namespaces, or use {HOSTNAME:?}",
            term.path
        );
        let denial = Denial::forbidden(Rule::AllNamespacesAntiAffinity, attributes.request, message);
        found.broken(attributes.policy.all_namespaces_anti_affinity, denial);
    }
}
