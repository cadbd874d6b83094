//! Trying a repair in a what-if.

use berth_api::object::device::DeviceKind;
use berth_api::object::{NamespacedName, Pod};
use berth_api::read::Kind;
use berth_api::resource::{RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use berth_simulate::{Change, Repair, has_rollouts};
use maud::{Markup, html};

use crate::{State, links};

/// What tries a repair of a pod: a link for changes of nodes and numbers of replicas, a form with the changed workload, with the changed pod
/// if it has none, or with the changed claims and their template.
pub(super) fn of(state: &State, namespace: &str, name: &str, repair: &Repair) -> Markup {
    let parameters: Vec<_> = repair.changes.iter().flat_map(parameters).collect();
    let address =
        parameters.iter().fold("/what-if".to_owned(), |path, (name, value)| links::with(&path, name, value));
    let mut manifests = manifests(state, namespace, name, repair);
    manifests.extend(repair.changes.iter().flat_map(|change| with_class(state, namespace, name, change)));
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

/// The claim or the template that the pod names, whose request gets another class. A claim that was made from the template is made again by the
/// commands of the repair, and so changes as well; one that only the simulation has made is made from the changed template.
fn with_class(state: &State, namespace: &str, name: &str, change: &Change) -> Vec<String> {
    let Change::UseDeviceClass { object, .. } = change else { return Vec::new() };
    let Some((kind, of)) = object.split_once(' ') else { return Vec::new() };
    let mut objects = vec![(kind, NamespacedName::new(namespace, of))];
    if kind == RESOURCE_CLAIM_TEMPLATES.kind {
        let pod = state.pods().simulation.pod(namespace, name).map(|pod| &pod.pod);
        let claims = pod.into_iter().flat_map(|pod| made_from(pod, of));
        let is_read = |claim: &NamespacedName| state.has_read(DeviceKind::ResourceClaim, claim);
        objects.extend(claims.filter(is_read).map(|claim| (RESOURCE_CLAIMS.kind, claim)));
    }
    let changed = |(kind, name): (&str, NamespacedName)| {
        let (object, _) = state.object(Kind::named(kind)?, &name)?;
        change.with_class(&object).map(|object| object.to_string())
    };
    objects.into_iter().filter_map(changed).collect()
}

/// The claims that were made for a pod from a template.
fn made_from<'a>(pod: &'a Pod, template: &'a str) -> impl Iterator<Item = NamespacedName> + 'a {
    let entries = pod.spec.resource_claims.iter();
    let of_template =
        entries.filter(move |entry| entry.resource_claim_template_name.as_deref() == Some(template));
    of_template.filter_map(|entry| {
        let status = pod.status.resource_claim_statuses.iter().find(|status| status.name == entry.name)?;
        Some(NamespacedName::new(&pod.metadata.namespace, status.resource_claim_name.as_deref()?))
    })
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
