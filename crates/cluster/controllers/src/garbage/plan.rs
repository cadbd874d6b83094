//! The action for an object whose owners may be absent. Pure.

use std::collections::{HashMap, HashSet};

use berth_api::resource::Resource;
use serde_json::{Value, json};

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Uid};
use crate::api::Propagation;
use crate::resources::owner_resource;
use crate::view::OwnerReference;

/// The state of an owner, as far as the watches show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    Present,
    /// Waits for the deletion of its dependents.
    DeletingForeground,
    Absent,
    /// Not in the graph: the collector reads it from the API.
    Unknown(&'static Resource),
    /// Of an unknown kind: the collector ignores it.
    UnknownKind,
}

/// The state of an owner of `dependent`, according to the graph.
pub(super) fn owner_state(graph: &Graph, dependent: &Node, owner: &OwnerReference) -> OwnerState {
    let Some(kind) = owner_resource(&owner.api_version, &owner.kind) else { return OwnerState::UnknownKind };
    if kind.namespaced && dependent.key.namespace().is_empty() {
        // A cluster-scoped object cannot have a namespaced owner; the intended namespace is unknown.
        return OwnerState::UnknownKind;
    }
    let found = graph.node(&owner.uid).filter(|node| {
        let same_place = !kind.namespaced || node.key.namespace() == dependent.key.namespace();
        node.kind.kind == kind.kind && same_place && node.key.name() == owner.name
    });
    match found {
        Some(node) if node.is_deleting_foreground() => OwnerState::DeletingForeground,
        Some(_) => OwnerState::Present,
        None => OwnerState::Unknown(kind),
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    Delete(Propagation),
    /// Write these owner references, without the absent owners.
    SetOwners(Value),
    /// Write these finalizers: the wait of the object is over.
    SetFinalizers(Vec<String>),
    Orphan,
    /// Process these dependents, which block its deletion and are not being deleted yet.
    WaitForDependents(Vec<Uid>),
}

/// Decides by the states of the owners, in the order of the references.
pub(super) fn plan(graph: &Graph, node: &Node, owners: &[OwnerState]) -> Action {
    if node.is_orphaning() {
        return Action::Orphan;
    }
    if node.is_deleting_foreground() {
        return if is_released(graph, node) {
            Action::SetFinalizers(without(node, FOREGROUND))
        } else {
            let waiting = blockers(graph, node).filter(|dependent| !dependent.deleting);
            Action::WaitForDependents(waiting.map(|dependent| dependent.uid.clone()).collect())
        };
    }
    if node.deleting || owners.is_empty() || owners.contains(&OwnerState::UnknownKind) {
        return Action::Nothing;
    }
    let is_held = owners.iter().any(|state| matches!(state, OwnerState::Present | OwnerState::Unknown(_)));
    if is_held {
        let stays = |state: &OwnerState| matches!(state, OwnerState::Present | OwnerState::Unknown(_));
        let kept: Vec<_> =
            node.owners.iter().zip(owners).filter(|(_, s)| stays(s)).map(|(owner, _)| owner).collect();
        return if kept.len() == owners.len() { Action::Nothing } else { Action::SetOwners(json!(kept)) };
    }
    let has_dependents = graph.dependents(&node.uid).next().is_some();
    let waited_for = owners.contains(&OwnerState::DeletingForeground);
    Action::Delete(if waited_for && has_dependents || node.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else if node.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else {
        Propagation::Background
    })
}

/// The dependents for whose deletion an owner waits. A reference that does not name the owner with its kind, namespace
/// and name blocks nothing: its dependent would never be deleted.
fn blockers<'g>(graph: &'g Graph, owner: &'g Node) -> impl Iterator<Item = &'g Node> {
    graph.dependents(&owner.uid).filter(|dependent| {
        dependent.owners.iter().any(|reference| {
            reference.uid == owner.uid
                && reference.block_owner_deletion == Some(true)
                && owner_state(graph, dependent, reference) == OwnerState::DeletingForeground
        })
    })
}

/// Whether an owner need not wait any more: nothing blocks its deletion, or it is part of a cycle of objects that only
/// wait for each other.
fn is_released(graph: &Graph, node: &Node) -> bool {
    // All objects for which it waits, directly or through others.
    let mut awaited: HashMap<&str, &Node> = HashMap::new();
    let mut open = vec![node];
    while let Some(next) = open.pop() {
        for dependent in blockers(graph, next) {
            if !dependent.is_deleting_foreground() {
                return false;
            }
            if awaited.insert(&dependent.uid, dependent).is_none() {
                open.push(dependent);
            }
        }
    }
    // Those of them that wait for it in turn.
    let mut waiting: HashSet<&str> = HashSet::new();
    let mut open = vec![node];
    while let Some(next) = open.pop() {
        let is_blocked = |owner: &&Node| blockers(graph, owner).any(|blocker| blocker.uid == next.uid);
        let owners = next.owners.iter().filter_map(|owner| awaited.get(owner.uid.as_str()).copied());
        for owner in owners.filter(is_blocked) {
            if waiting.insert(&owner.uid) {
                open.push(owner);
            }
        }
    }
    waiting.len() == awaited.len()
}

/// The finalizers of an object without one of them.
pub(super) fn without(node: &Node, finalizer: &str) -> Vec<String> {
    node.finalizers.iter().filter(|own| *own != finalizer).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::ObjectMeta;
    use berth_api::resource::{NODES, PODS, REPLICA_SETS};

    fn node(kind: &'static Resource, meta: Value) -> Node {
        let mut full = json!({"namespace": "a"});
        json_patch::merge(&mut full, &meta);
        Node::new(kind, &serde_json::from_value::<ObjectMeta>(full).unwrap())
    }

    fn reference(uid: &str, block: bool) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid, "blockOwnerDeletion": block})
    }

    #[test]
    fn an_object_is_deleted_when_all_owners_are_absent() {
        use OwnerState::*;
        let pod =
            node(&PODS, json!({"uid": "p", "ownerReferences": [reference("1", true), reference("2", true)]}));
        let graph = Graph::default();
        for (owners, expected) in [
            ([Present, Present], Action::Nothing),
            ([Present, Unknown(&REPLICA_SETS)], Action::Nothing),
            ([Absent, Absent], Action::Delete(Propagation::Background)),
            ([Absent, Present], Action::SetOwners(json!([reference("2", true)]))),
            ([DeletingForeground, Present], Action::SetOwners(json!([reference("2", true)]))),
            ([DeletingForeground, Absent], Action::Delete(Propagation::Background)),
            ([Absent, UnknownKind], Action::Nothing),
        ] {
            assert_eq!(plan(&graph, &pod, &owners), expected, "{owners:?}");
        }
        let deleting = node(
            &PODS,
            json!({"uid": "p", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [reference("1", true)]}),
        );
        assert_eq!(plan(&graph, &deleting, &[Absent]), Action::Nothing);
    }

    #[test]
    fn an_owner_waits_for_blocking_dependents() {
        let owner = |finalizers: Value| {
            node(
                &REPLICA_SETS,
                json!({"name": "rs", "uid": "1", "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            )
        };
        let foreground = owner(json!(["x/y", FOREGROUND]));
        let pod = |block| node(&PODS, json!({"uid": "p", "ownerReferences": [reference("1", block)]}));
        let mut graph = Graph::default();
        assert_eq!(graph.observe(foreground.clone()), ["1"]);
        graph.observe(pod(true));
        assert_eq!(plan(&graph, &foreground, &[]), Action::WaitForDependents(vec!["p".to_owned()]));
        assert_eq!(owner_state(&graph, &pod(true), &pod(true).owners[0]), OwnerState::DeletingForeground);
        // It stops blocking, or is deleted: the owner is processed again.
        assert!(graph.observe(pod(false)).contains(&"1".into()));
        assert_eq!(plan(&graph, &foreground, &[]), Action::SetFinalizers(vec!["x/y".to_owned()]));
        assert_eq!(graph.remove("p"), ["1"]);
        assert_eq!(plan(&graph, &owner(json!([ORPHAN])), &[]), Action::Orphan);
        assert_eq!(graph.remove("1"), [""; 0]);
        assert!(graph.dependents("1").next().is_none());
    }

    #[test]
    fn an_owner_in_another_namespace_is_invalid() {
        let mut graph = Graph::default();
        graph.observe(node(&REPLICA_SETS, json!({"name": "rs", "uid": "1", "namespace": "b"})));
        graph.observe(node(&NODES, json!({"name": "n", "uid": "2", "namespace": null})));
        let pod = node(
            &PODS,
            json!({"uid": "p", "ownerReferences": [
                reference("1", false), {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2"},
                {"apiVersion": "x.io/v1", "kind": "Thing", "name": "t", "uid": "3"},
            ]}),
        );
        let states: Vec<_> = pod.owners.iter().map(|owner| owner_state(&graph, &pod, owner)).collect();
        assert_eq!(
            states,
            [OwnerState::Unknown(&REPLICA_SETS), OwnerState::Present, OwnerState::UnknownKind]
        );
    }
}
