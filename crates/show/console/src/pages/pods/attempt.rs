//! Trying a repair in a what-if.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_simulate::{Change, Repair, has_rollouts};
use maud::{Markup, html};

use crate::{State, links};

/// What tries a repair of a pod: a link for changes of nodes and numbers of replicas, a form with the changed workload, or with the changed pod
/// if it has none.
pub(super) fn of(state: &State, namespace: &str, name: &str, repair: &Repair) -> Markup {
    let parameters: Vec<_> = repair.changes.iter().flat_map(parameters).collect();
    let address =
        parameters.iter().fold("/what-if".to_owned(), |path, (name, value)| links::with(&path, name, value));
    let manifests = manifests(state, namespace, name, repair);
    html! {
        @if !manifests.is_empty() {
            form method="post" action=(address) {
                input type="hidden" name="repair-of" value={ (namespace) "/" (name) };
                @for manifest in manifests { input type="hidden" name="manifest" value=(manifest); }
                button.small { "Try it" }
            }
        } @else if !parameters.is_empty() { a.button.small href=(address) { "Try it" } }
    }
}

/// The objects that a repair changes. Where a controller does not replace pods, the pod itself as well, which its commands create again.
fn manifests(state: &State, namespace: &str, name: &str, repair: &Repair) -> Vec<String> {
    let workload = state.pods().simulation.pod(namespace, name).and_then(|pod| pod.workload.clone());
    let of_workload = workload.as_deref().and_then(|workload| {
        let (kind, of) = workload.split_once(' ')?;
        let (object, _) = state.object(Kind::named(kind)?, &NamespacedName::new(namespace, of))?;
        repair.changed(Some(workload), &object)
    });
    let is_replaced = of_workload.is_some() && workload.is_some_and(|workload| has_rollouts(&workload));
    let pod = match is_replaced {
        true => None,
        false => state.object(Kind::Pod, &NamespacedName::new(namespace, name)),
    };
    let pod = pod.and_then(|(pod, _)| repair.changed(None, &pod));
    of_workload.into_iter().chain(pod).map(|object| object.to_string()).collect()
}

/// The parameters of the what-if page for a change of other objects than the pod.
fn parameters(change: &Change) -> Vec<(&'static str, String)> {
    match change {
        Change::Uncordon { node } => vec![("uncordon", node.clone())],
        Change::RemoveTaint { node, taint } => vec![("taint", format!("{node} {taint}-"))],
        Change::SetLabel { node, key, value } => vec![("set-label", format!("{node} {key}={value}"))],
        Change::RemoveLabel { node, key } => vec![("set-label", format!("{node} {key}-"))],
        Change::Scale { namespace, workload, replicas } => {
            let workload = workload.to_lowercase().replacen(' ', "/", 1);
            vec![("scale", format!("{workload}={replicas}")), ("namespace", namespace.clone())]
        }
        Change::Move { namespace, name, .. } => vec![("evict", format!("{namespace}/{name}"))],
        Change::AddNode { like, in_new_domain, .. } => {
            let node = format!("{like}-new-1");
            let label = |pair: &berth_engine::TopologyPair| {
                let value = pair.value.as_deref().unwrap_or("new");
                ("set-label", format!("{node} {}={value}", pair.key))
            };
            let added = [("add-nodes", "1".to_owned()), ("like", like.clone())];
            added.into_iter().chain(in_new_domain.iter().map(label)).collect()
        }
        _ => Vec::new(),
    }
}
