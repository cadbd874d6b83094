//! NodeRestriction: a node's identity may act for its own node only.
//!
//! The rules and words are those of kube-apiserver's admission plugin of this name. The embedded API server and the
//! webhook, which serves clusters without the plugin, both use them. Facts about stored objects come from the old object
//! of the request, or from [`Lookup`]. What needs more of the stored objects is left to the API server: the uid of the pod
//! that a token is bound to, the audiences of the token, and the name in a certificate signing request.
//!
//! Beyond kube-apiserver, a node changes no annotation `scheduling.berth.dev/*`: these say where pods of others may run.

mod labels;
mod references;

pub use berth_api::object::MIRROR_ANNOTATION as MIRROR;
pub use references::{Referent, references, token_audiences};

use serde_json::{Map, Value};

use super::Operation;
use berth_api::syntax::annotations::ANNOTATION_PREFIX;
use labels::forbidden_labels;

/// The group of the nodes' identities.
pub const NODES_GROUP: &str = "system:nodes";
pub const NODE_USER_PREFIX: &str = "system:node:";
const LEASES: &str = "kube-node-lease";

#[derive(Clone, Copy, Debug)]
pub struct NodeRequest<'a> {
    pub node: &'a str,
    pub operation: Operation,
    /// The group of the resource.
    pub group: &'a str,
    /// The name of the resource in paths.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The object in the request; null for a deletion.
    pub object: &'a Value,
    /// The stored object; null for a creation.
    pub old_object: &'a Value,
}

/// Facts about stored objects.
pub trait Lookup {
    /// The fact is not known.
    type Error;

    fn node_uid(&self, node: &str) -> Result<String, Self::Error>;

    fn is_bound(&self, namespace: &str, pod: &str, node: &str) -> Result<bool, Self::Error>;
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// The rule forbids it, in the words of kube-apiserver.
    Forbidden(String),
    /// A fact is not known.
    Unknown(E),
}

fn forbid<E>(why: impl Into<String>) -> Result<(), Refusal<E>> {
    Err(Refusal::Forbidden(why.into()))
}

/// Checks a request of a node's identity.
///
/// # Errors
/// It concerns more than the node itself.
pub fn keeps_to_own_node<L: Lookup>(request: &NodeRequest<'_>, lookup: &L) -> Result<(), Refusal<L::Error>> {
    let node = request.node;
    match (request.group, request.resource, request.subresource) {
        ("", "pods", "") => may_act_on_pod(request, lookup),
        ("", "pods", "status") => may_update_status(request),
        ("", "pods", "eviction") => may_evict(request, lookup),
        ("", "pods", other) => {
            forbid(format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"))
        }
        ("", "nodes", _) => may_modify_node(request),
        ("", "persistentvolumeclaims", "status") => may_update_claim_status(request),
        ("", "persistentvolumeclaims", _) => forbid("may only update PVC status"),
        ("", "serviceaccounts", "token") if request.operation == Operation::Create => {
            may_request_token(request, lookup)
        }
        ("coordination.k8s.io", "leases", _) => may_use_lease(request),
        ("storage.k8s.io", "csinodes", _) if request.name != node => {
            forbid("can only access CSINode with the same name as the requesting node")
        }
        ("resource.k8s.io", "resourceslices", _) => may_use_slice(request),
        _ => Ok(()),
    }
}

/// Checks that a node that updates a pod changes no annotation that says where pods may run.
pub fn keeps_annotations<E>(node: &str, new: &Value, old: &Value) -> Result<(), Refusal<E>> {
    let empty = Map::new();
    let [new, old] = [new, old].map(|pod| pod["metadata"]["annotations"].as_object().unwrap_or(&empty));
    let differs = |key: &&String| key.starts_with(ANNOTATION_PREFIX) && new.get(*key) != old.get(*key);
    match new.keys().chain(old.keys()).find(differs) {
        Some(key) => {
            forbid(format!("node {node:?} cannot set, change or remove the annotation {key} of a pod"))
        }
        None => Ok(()),
    }
}

fn may_act_on_pod<L: Lookup>(request: &NodeRequest<'_>, lookup: &L) -> Result<(), Refusal<L::Error>> {
    let node = request.node;
    match request.operation {
        Operation::Create => may_create_pod(request, lookup),
        Operation::Delete if text(request.old_object, "/spec/nodeName") != node => {
            forbid(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        Operation::Delete => Ok(()),
        operation => forbid(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation.as_str()
        )),
    }
}

fn may_create_pod<L: Lookup>(request: &NodeRequest<'_>, lookup: &L) -> Result<(), Refusal<L::Error>> {
    let (node, pod) = (request.node, request.object);
    if pod["metadata"]["annotations"].get(MIRROR).is_none() {
        return forbid(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        ));
    }
    let can_only =
        |what: &str| forbid(format!("node {node:?} can only create pods with {what} set to itself"));
    if text(pod, "/spec/nodeName") != node {
        return can_only("spec.nodeName");
    }
    let owner = match items(&pod["metadata"]["ownerReferences"]) {
        [owner] => owner,
        [] => return can_only("an owner reference"),
        _ => return can_only("a single owner reference"),
    };
    if (text(owner, "/apiVersion"), text(owner, "/kind"), text(owner, "/name")) != ("v1", "Node", node) {
        return can_only("an owner reference");
    }
    if owner["controller"] != true {
        return can_only("a controller owner reference");
    }
    if owner["blockOwnerDeletion"] == true {
        return forbid(format!("node {node:?} must not set blockOwnerDeletion on an owner reference"));
    }
    let uid = lookup.node_uid(node).map_err(Refusal::Unknown)?;
    let given = text(owner, "/uid");
    if uid != given {
        return forbid(format!("node {node} UID mismatch: expected {given} got {uid}"));
    }
    match references(pod).into_iter().map(|(referent, _)| referent).min() {
        Some(what) => forbid(format!("node {node:?} can not create pods that reference {}", what.as_str())),
        None => Ok(()),
    }
}

fn may_update_status<E>(request: &NodeRequest<'_>) -> Result<(), Refusal<E>> {
    if request.operation != Operation::Update {
        return forbid(format!("unexpected operation {:?}", request.operation.as_str()));
    }
    let (node, new, old) = (request.node, request.object, request.old_object);
    if text(old, "/spec/nodeName") != node {
        return forbid(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let empty = Map::new();
    let labels = |pod: &'_ Value| pod["metadata"]["labels"].as_object().unwrap_or(&empty).clone();
    if labels(new) != labels(old) {
        return forbid(format!("node {node:?} cannot update labels through pod status"));
    }
    let claims = |pod: &'_ Value| -> Vec<(Value, Value)> {
        let claims = items(&pod["status"]["resourceClaimStatuses"]).iter();
        claims.map(|c| (c["name"].clone(), c["resourceClaimName"].clone())).collect()
    };
    if claims(new) != claims(old) {
        return forbid(format!("node {node:?} cannot update resource claim statues"));
    }
    if new["status"]["extendedResourceClaimStatus"] != old["status"]["extendedResourceClaimStatus"] {
        return forbid(format!("node {node:?} cannot update extended resource claim status"));
    }
    keeps_annotations(node, new, old)
}

fn may_update_claim_status<E>(request: &NodeRequest<'_>) -> Result<(), Refusal<E>> {
    if request.operation != Operation::Update {
        return forbid(format!("unexpected operation {:?}", request.operation.as_str()));
    }
    let compared = |claim: &Value| {
        let mut claim = claim.clone();
        for (part, fields) in [
            ("metadata", &["resourceVersion", "managedFields"][..]),
            ("status", &["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"]),
        ] {
            // An absent part equals an empty one.
            let mut rest = claim[part].as_object().cloned().unwrap_or_default();
            rest.retain(|field, _| !fields.contains(&field.as_str()));
            claim[part] = Value::Object(rest);
        }
        claim
    };
    if compared(request.object) == compared(request.old_object) {
        return Ok(());
    }
    forbid(format!(
        "node {:?} is not allowed to update fields other than status.quantity and status.conditions",
        request.node
    ))
}

fn may_use_slice<E>(request: &NodeRequest<'_>) -> Result<(), Refusal<E>> {
    let (slice, verb) = match request.operation {
        Operation::Create => (request.object, "create"),
        Operation::Delete => (request.old_object, "delete"),
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if text(slice, "/spec/nodeName") == request.node {
        return Ok(());
    }
    forbid(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
}

fn may_evict<L: Lookup>(request: &NodeRequest<'_>, lookup: &L) -> Result<(), Refusal<L::Error>> {
    let (node, name) = (request.node, request.name);
    if request.operation != Operation::Create {
        return forbid(format!("unexpected operation {}", request.operation.as_str()));
    }
    if name.is_empty() {
        return forbid("could not determine pod from request data");
    }
    if lookup.is_bound(request.namespace, name, node).map_err(Refusal::Unknown)? {
        Ok(())
    } else {
        forbid(format!("node {node} can only evict pods with spec.nodeName set to itself"))
    }
}

fn may_request_token<L: Lookup>(request: &NodeRequest<'_>, lookup: &L) -> Result<(), Refusal<L::Error>> {
    let bound = &request.object["spec"]["boundObjectRef"];
    let is_pod = text(bound, "/apiVersion") == "v1" && text(bound, "/kind") == "Pod";
    let name = text(bound, "/name");
    if !is_pod || name.is_empty() {
        return forbid("node requested token not bound to a pod");
    }
    if text(bound, "/uid").is_empty() {
        return forbid("node requested token with a pod binding without a uid");
    }
    if lookup.is_bound(request.namespace, name, request.node).map_err(Refusal::Unknown)? {
        Ok(())
    } else {
        forbid("node requested token bound to a pod scheduled on a different node")
    }
}

fn may_modify_node<E>(request: &NodeRequest<'_>) -> Result<(), Refusal<E>> {
    let (node, name, new, old) = (request.node, request.name, request.object, request.old_object);
    if name != node {
        return forbid(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let source = &new["spec"]["configSource"];
    let labels = || forbidden_labels(&new["metadata"]["labels"], &old["metadata"]["labels"]);
    match request.operation {
        Operation::Create => {
            if !source.is_null() {
                return forbid(format!(
                    "node {node:?} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let forbidden = labels();
            if !forbidden.is_empty() {
                return forbid(format!(
                    "node {node:?} is not allowed to set the following labels: {forbidden}"
                ));
            }
        }
        Operation::Update => {
            if !source.is_null() && *source != old["spec"]["configSource"] {
                return forbid(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if items(&new["spec"]["taints"]) != items(&old["spec"]["taints"]) {
                return forbid(format!("node {node:?} is not allowed to modify taints"));
            }
            let owners = |node: &'_ Value| items(&node["metadata"]["ownerReferences"]).to_vec();
            if owners(new) != owners(old) {
                return forbid(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            let forbidden = labels();
            if !forbidden.is_empty() {
                return forbid(format!("is not allowed to modify labels: {forbidden}"));
            }
        }
        Operation::Delete | Operation::Connect => {}
    }
    Ok(())
}

fn may_use_lease<E>(request: &NodeRequest<'_>) -> Result<(), Refusal<E>> {
    if request.namespace != LEASES {
        return forbid(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    if request.name != request.node {
        return forbid("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
