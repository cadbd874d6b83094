//! Trying a repair in a what-if.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_simulate::{Change, Repair};
use maud::{Markup, html};
use serde_json::Value;

use crate::{State, links};

/// What tries a repair of a pod: a link for changes of nodes and workloads, a form with the changed pod otherwise.
pub(super) fn of(state: &State, namespace: &str, name: &str, repair: &Repair) -> Markup {
    let parameters: Vec<_> = repair.changes.iter().flat_map(parameters).collect();
    let address =
        parameters.iter().fold("/what-if".to_owned(), |path, (name, value)| links::with(&path, name, value));
    if repair.patch.is_empty() {
        return html! { @if !parameters.is_empty() { a.button.small href=(address) { "Try it" } } };
    }
    let changed = || {
        let (mut pod, _) = state.object(Kind::Pod, &NamespacedName::new(namespace, name))?;
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(repair.patch.clone())).ok()?;
        json_patch::patch(&mut pod, &patch).ok()?;
        Some(pod.to_string())
    };
    html! {
        @if let Some(manifest) = changed() {
            form method="post" action=(address) {
                input type="hidden" name="manifest" value=(manifest);
                button.small { "Try it" }
            }
        }
    }
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
