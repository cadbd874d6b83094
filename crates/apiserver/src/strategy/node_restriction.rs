//! What a node identity may do beyond what its rules say: only what concerns the node itself.
//! The rules and words are those of the admission plugin NodeRestriction.

use berth_api::kubelet_labels::kubelet_may_set;
use berth_schema::resource::Resource;
use serde_json::{Map, Value};

use super::Context;
use super::fields::{items, text};
use crate::server::status::Status;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Says whether a node identity may create the object; everyone else may.
///
/// # Errors
/// It concerns another node.
pub fn admit_create(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    let name = text(value, "/metadata/name");
    let refuse = |why: String| Err(Status::forbidden(resource, name, &why));
    match (resource.group, resource.plural) {
        ("", "pods") => {
            if value["metadata"]["annotations"][MIRROR].as_str().is_none() {
                return refuse(format!(
                    "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
                ));
            }
            if text(value, "/spec/nodeName") != node {
                return refuse(format!(
                    "node {node:?} can only create pods with spec.nodeName set to itself"
                ));
            }
            for list in ["volumes", "initContainers", "containers"] {
                let secretive = |item: &Value| {
                    ["secret", "configMap", "persistentVolumeClaim", "projected"]
                        .iter()
                        .any(|k| !item[*k].is_null())
                };
                if list == "volumes" && items(&value["spec"], list).iter().any(secretive) {
                    return refuse(format!("node {node:?} can not create pods that reference API objects"));
                }
            }
            Ok(())
        }
        ("", "nodes") if name != node => {
            refuse(format!("node {node:?} is not allowed to modify node {name:?}"))
        }
        ("", "nodes") => {
            let labels = value["metadata"]["labels"].as_object();
            let forbidden = forbidden_labels(labels.into_iter().flatten().map(|(key, _)| key.as_str()));
            match forbidden.as_str() {
                "" => Ok(()),
                labels => {
                    refuse(format!("node {node:?} is not allowed to set the following labels: {labels}"))
                }
            }
        }
        ("coordination.k8s.io", "leases") => check_lease(resource, value, node),
        _ => Ok(()),
    }
}

/// Says whether a node identity may make the change; everyone else may.
///
/// # Errors
/// It concerns another node, or what others decide about this one.
pub fn admit_update(
    context: &Context<'_>,
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Result<(), Box<Status>> {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    let name = text(old, "/metadata/name");
    let refuse = |why: String| Err(Status::forbidden(resource, name, &why));
    match (resource.group, resource.plural) {
        ("", "pods") if subresource == "status" => {
            if text(old, "/spec/nodeName") != node {
                return refuse(format!(
                    "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
                ));
            }
            if new["metadata"]["labels"] != old["metadata"]["labels"] {
                return refuse(format!("node {node:?} cannot update labels through pod status"));
            }
            Ok(())
        }
        ("", "nodes") if name != node => {
            refuse(format!("node {node:?} is not allowed to modify node {name:?}"))
        }
        ("", "nodes") => {
            if new["spec"]["taints"] != old["spec"]["taints"] {
                return refuse(format!("node {node:?} is not allowed to modify taints"));
            }
            if new["metadata"]["ownerReferences"] != old["metadata"]["ownerReferences"] {
                return refuse(format!("node {node:?} is not allowed to modify ownerReferences"));
            }
            let empty = Map::new();
            let labels = |value: &'_ Value| value["metadata"]["labels"].as_object().unwrap_or(&empty).clone();
            let (new, old) = (labels(new), labels(old));
            let changed = new.keys().chain(old.keys()).filter(|key| new.get(*key) != old.get(*key));
            match forbidden_labels(changed.map(String::as_str)).as_str() {
                "" => Ok(()),
                labels => refuse(format!("is not allowed to modify labels: {labels}")),
            }
        }
        ("coordination.k8s.io", "leases") => check_lease(resource, old, node),
        _ => Ok(()),
    }
}

/// Says whether a node identity may delete the object; everyone else may.
///
/// # Errors
/// It concerns another node.
pub fn admit_delete(context: &Context<'_>, resource: &Resource, value: &Value) -> Result<(), Box<Status>> {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    let name = text(value, "/metadata/name");
    let refuse = |why: String| Err(Status::forbidden(resource, name, &why));
    match (resource.group, resource.plural) {
        ("", "pods") if text(value, "/spec/nodeName") != node => {
            refuse(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        ("", "nodes") if name != node => {
            refuse(format!("node {node:?} is not allowed to modify node {name:?}"))
        }
        ("coordination.k8s.io", "leases") => check_lease(resource, value, node),
        _ => Ok(()),
    }
}

/// Says whether a node identity may evict the pod; everyone else may.
///
/// # Errors
/// The pod is on another node.
pub fn admit_eviction(context: &Context<'_>, resource: &Resource, pod: &Value) -> Result<(), Box<Status>> {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    if text(pod, "/spec/nodeName") == node {
        return Ok(());
    }
    let why = format!("node {node:?} can only evict pods with spec.nodeName set to itself");
    Err(Status::forbidden(resource, text(pod, "/metadata/name"), &why))
}

fn check_lease(resource: &Resource, lease: &Value, node: &str) -> Result<(), Box<Status>> {
    let name = text(lease, "/metadata/name");
    if text(lease, "/metadata/namespace") != "kube-node-lease" {
        let why = "can only access leases in the \"kube-node-lease\" system namespace";
        return Err(Status::forbidden(resource, name, why));
    }
    if name != node {
        let why = "can only access node lease with the same name as the requesting node";
        return Err(Status::forbidden(resource, name, why));
    }
    Ok(())
}

/// Those of the labels that a kubelet may not set, sorted; empty if it may set all.
fn forbidden_labels<'k>(keys: impl Iterator<Item = &'k str>) -> String {
    let mut forbidden: Vec<&str> = keys.filter(|key| !kubelet_may_set(key)).collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    forbidden.join(", ")
}
