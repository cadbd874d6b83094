//! The proposal's guard against denial of service (inter-pod affinity proposal, "Denial of Service").
//!
//! Required anti-affinity is symmetric: a pod that rejects all other pods is also rejected by them. With all namespaces
//! and the host name as topology key, the pod takes one node, which is allowed. With a wider topology key, a small pod
//! would block a whole zone for all namespaces.

use berth_api::syntax::labels::HOSTNAME;
use berth_rules::{Dialect, PodTerm, Selector, TopologyScope};

use super::attributes::PodAttributes;
use crate::answer::{Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::Action;
use crate::rule::Rule;
use crate::state::StateAccess;

/// Required anti-affinity over all namespaces must use the host name as topology key. "All topologies" counts as
/// another key. All namespaces are also those that exist: a selector, or a list of names, that has each of them.
pub(super) fn blocks_no_domains<K: StateAccess>(
    attributes: &PodAttributes<'_>,
    access: &K,
    found: &mut Findings,
) -> Result<(), ReviewError> {
    let action = attributes.policy.all_namespaces_anti_affinity;
    if action == Action::Allow {
        return Ok(());
    }
    for term in attributes.blocking_terms() {
        let key = match &term.topology {
            TopologyScope::Key(key) if key == HOSTNAME => continue,
            TopologyScope::Key(key) => format!("topologyKey {key:?}"),
            TopologyScope::All => "an empty topologyKey (all topologies)".to_owned(),
        };
        let namespaces = if term.namespaces.is_all() {
            "all namespaces".to_owned()
        } else if has_all_that_exist(term, attributes, access)? {
            format!("all namespaces ({}: every existing namespace that the term can block)", term.namespaces)
        } else {
            continue;
        };
        let message = format!(
            "{}: required anti-affinity over {namespaces} may only have topologyKey {HOSTNAME:?}, not {key}: it would block \
             pods of all namespaces from whole domains; select fewer namespaces, or use {HOSTNAME:?}",
            term.path
        );
        let denial = Denial::forbidden(Rule::AllNamespacesAntiAffinity, attributes.request, message);
        found.broken(action, denial);
    }
    Ok(())
}

/// Whether a term has every namespace that exists. Exempt namespaces, which it cannot block, do not count.
fn has_all_that_exist<K: StateAccess>(
    term: &PodTerm,
    attributes: &PodAttributes<'_>,
    access: &K,
) -> Result<bool, ReviewError> {
    let policy = attributes.policy;
    if term.namespaces.selector == Selector::Nothing && term.namespaces.names.len() < 2 {
        return Ok(false);
    }
    let exempts = term.dialect == Dialect::Proposal || policy.exempt_from_v1;
    let is_exempt = |name: &str| exempts && policy.exempt_namespaces.iter().any(|exempt| exempt == name);
    Ok(access.placement()?.are_all_namespaces_in(&term.namespaces, is_exempt))
}
