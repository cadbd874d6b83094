//! NodeRestriction: a node's identity acts for its own node only, and says no more of it than it may.
//!
//! The rules and words are those of kube-apiserver's plugin NodeRestriction, for clusters that run without it. What it
//! asks of stored objects is taken from the old object of the request, or from the state of the cluster. Two checks
//! are left to the API server, which makes them itself: the uid of the pod that a token is bound to, and changes of
//! claims beyond their status.

mod labels;

use serde_json::Value;

use crate::answer::{Answer, Denial, Unanswered};
use crate::policy::Policy;
use crate::request::{AdmissionRequest, Operation};
use crate::review::Rule;
use crate::state::Known;
use labels::forbidden_labels;

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";

/// A refusal, in the reference's words.
type Refused = Result<(), String>;

/// What is asked by a node identity concerns the node itself; everyone else is none of this rule's business.
pub(crate) fn keeps_to_own_node<K: Known>(
    request: &AdmissionRequest,
    policy: &Policy,
    known: &K,
) -> Result<Answer, Unanswered> {
    let user = &request.user_info;
    let identity = user.username.strip_prefix(NODE_PREFIX).filter(|_| user.groups.iter().any(|g| g == NODES));
    let Some(node) = identity.filter(|_| policy.node_restriction) else { return Ok(Answer::allowed()) };
    let refused = if node.is_empty() {
        Err(format!("could not determine node from user {:?}", user.username))
    } else {
        check(request, node, known)?
    };
    Ok(match refused {
        Ok(()) => Answer::allowed(),
        Err(why) => Answer::denied(Denial::forbidden(Rule::NodeRestriction, request, why)),
    })
}

fn check<K: Known>(request: &AdmissionRequest, node: &str, known: &K) -> Result<Refused, Unanswered> {
    let resource = &request.resource;
    match (resource.group.as_str(), resource.resource.as_str(), request.sub_resource.as_str()) {
        ("", "pods", "") => may_act_on_pod(request, node, known),
        ("", "pods", "status") => Ok(may_update_status(request, node)),
        ("", "pods", "eviction") => may_evict(request, node, known),
        ("", "pods", other) => {
            let why =
                format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed");
            Ok(Err(why))
        }
        ("", "nodes", _) => Ok(may_modify_node(request, node)),
        ("", "persistentvolumeclaims", "status") => Ok(Ok(())),
        ("", "persistentvolumeclaims", _) => Ok(Err("may only update PVC status".to_owned())),
        ("", "serviceaccounts", "token") if request.operation == Operation::Create => {
            may_request_token(request, node, known)
        }
        ("coordination.k8s.io", "leases", _) => Ok(may_use_lease(request, node)),
        ("storage.k8s.io", "csinodes", _) if own_name(request) != node => {
            Ok(Err("can only access CSINode with the same name as the requesting node".to_owned()))
        }
        _ => Ok(Ok(())),
    }
}

fn may_act_on_pod<K: Known>(
    request: &AdmissionRequest,
    node: &str,
    known: &K,
) -> Result<Refused, Unanswered> {
    match request.operation {
        Operation::Create => may_create_pod(request, node, known),
        Operation::Delete if text(&request.old_object, "/spec/nodeName") != node => {
            Ok(Err(format!("node {node:?} can only delete pods with spec.nodeName set to itself")))
        }
        Operation::Delete => Ok(Ok(())),
        operation => Ok(Err(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            operation.as_str()
        ))),
    }
}

fn may_create_pod<K: Known>(
    request: &AdmissionRequest,
    node: &str,
    known: &K,
) -> Result<Refused, Unanswered> {
    let pod = &request.object;
    if pod["metadata"]["annotations"].get(MIRROR).is_none() {
        let why =
            format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods");
        return Ok(Err(why));
    }
    if text(pod, "/spec/nodeName") != node {
        return Ok(Err(format!("node {node:?} can only create pods with spec.nodeName set to itself")));
    }
    let owners = pod["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let owner = match owners {
        [owner] => owner,
        [] => {
            let why = format!("node {node:?} can only create pods with an owner reference set to itself");
            return Ok(Err(why));
        }
        _ => {
            let why =
                format!("node {node:?} can only create pods with a single owner reference set to itself");
            return Ok(Err(why));
        }
    };
    let is_node =
        text(owner, "/apiVersion") == "v1" && text(owner, "/kind") == "Node" && text(owner, "/name") == node;
    if !is_node {
        return Ok(Err(format!("node {node:?} can only create pods with an owner reference set to itself")));
    }
    if owner["controller"] != true {
        let why =
            format!("node {node:?} can only create pods with a controller owner reference set to itself");
        return Ok(Err(why));
    }
    if owner["blockOwnerDeletion"] == true {
        return Ok(Err(format!("node {node:?} must not set blockOwnerDeletion on an owner reference")));
    }
    let uid = known.ask("NodeRestriction", |state| state.nodes.uid(node).map(str::to_owned))?;
    let given = text(owner, "/uid");
    match uid {
        None => return Err(Unanswered::Unseen(format!("node {node:?}"))),
        Some(uid) if uid != given => {
            return Ok(Err(format!("node {node} UID mismatch: expected {given} got {uid}")));
        }
        Some(_) => {}
    }
    if !text(pod, "/spec/serviceAccountName").is_empty() {
        return Ok(Err(format!("node {node:?} can not create pods that reference a service account")));
    }
    Ok(match referenced(&pod["spec"]) {
        Some(what) => Err(format!("node {node:?} can not create pods that reference {what}")),
        None => Ok(()),
    })
}

/// The kind of API object that a pod refers to, in the reference's order.
fn referenced(spec: &Value) -> Option<&'static str> {
    let each = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let containers: Vec<Value> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| each(&spec[*list]))
        .collect();
    let volumes = each(&spec["volumes"]);
    let sources: Vec<Value> = volumes.iter().flat_map(|v| each(&v["projected"]["sources"])).collect();
    let in_containers = |from: &str, key: &str| {
        containers.iter().any(|container| {
            each(&container["envFrom"]).iter().any(|source| !source[from].is_null())
                || each(&container["env"]).iter().any(|env| !env["valueFrom"][key].is_null())
        })
    };
    let in_volumes = |field: &str| volumes.iter().any(|volume| !volume[field].is_null());
    let in_sources = |field: &str| sources.iter().any(|source| !source[field].is_null());
    // Volumes of many kinds name a secret of theirs in one of these.
    let names_secret = |volume: &Value| {
        volume.as_object().into_iter().flatten().any(|(_, source)| {
            ["secretRef", "secretName", "nodePublishSecretRef"].iter().any(|field| !source[*field].is_null())
        })
    };
    if !each(&spec["imagePullSecrets"]).is_empty()
        || in_containers("secretRef", "secretKeyRef")
        || in_volumes("secret")
        || in_sources("secret")
        || volumes.iter().any(names_secret)
    {
        return Some("secrets");
    }
    if in_containers("configMapRef", "configMapKeyRef") || in_volumes("configMap") || in_sources("configMap")
    {
        return Some("configmaps");
    }
    if in_sources("clusterTrustBundle") {
        return Some("clustertrustbundles");
    }
    in_volumes("persistentVolumeClaim").then_some("persistentvolumeclaims")
}

fn may_update_status(request: &AdmissionRequest, node: &str) -> Refused {
    if request.operation != Operation::Update {
        return Err(format!("unexpected operation {:?}", request.operation.as_str()));
    }
    let (new, old) = (&request.object, &request.old_object);
    if text(old, "/spec/nodeName") != node {
        return Err(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let empty = Value::Object(serde_json::Map::new());
    let labels = |pod: &'_ Value| match &pod["metadata"]["labels"] {
        Value::Null => empty.clone(),
        labels => labels.clone(),
    };
    if labels(new) != labels(old) {
        return Err(format!("node {node:?} cannot update labels through pod status"));
    }
    let claims = |pod: &'_ Value| {
        let claims = pod["status"]["resourceClaimStatuses"].as_array().cloned().unwrap_or_default();
        let named = |c: &Value| (c["name"].clone(), c["resourceClaimName"].clone());
        claims.iter().map(named).collect::<Vec<_>>()
    };
    if claims(new) != claims(old) {
        return Err(format!("node {node:?} cannot update resource claim statues"));
    }
    Ok(())
}

fn may_evict<K: Known>(request: &AdmissionRequest, node: &str, known: &K) -> Result<Refused, Unanswered> {
    if request.operation != Operation::Create {
        return Ok(Err(format!("unexpected operation {}", request.operation.as_str())));
    }
    let name = own_name(request);
    if name.is_empty() {
        return Ok(Err("could not determine pod from request data".to_owned()));
    }
    Ok(if is_on(known, &request.namespace, name, node)? {
        Ok(())
    } else {
        Err(format!("node {node} can only evict pods with spec.nodeName set to itself"))
    })
}

fn may_request_token<K: Known>(
    request: &AdmissionRequest,
    node: &str,
    known: &K,
) -> Result<Refused, Unanswered> {
    let bound = &request.object["spec"]["boundObjectRef"];
    let is_pod = text(bound, "/apiVersion") == "v1" && text(bound, "/kind") == "Pod";
    if !is_pod || text(bound, "/name").is_empty() {
        return Ok(Err("node requested token not bound to a pod".to_owned()));
    }
    if text(bound, "/uid").is_empty() {
        return Ok(Err("node requested token with a pod binding without a uid".to_owned()));
    }
    Ok(if is_on(known, &request.namespace, text(bound, "/name"), node)? {
        Ok(())
    } else {
        Err("node requested token bound to a pod scheduled on a different node".to_owned())
    })
}

/// Whether a pod is on a node. One that only waits to be seen there is not.
fn is_on<K: Known>(known: &K, namespace: &str, name: &str, node: &str) -> Result<bool, Unanswered> {
    let on = known.ask("NodeRestriction", |state| {
        state.cluster().node_of(namespace, name).map(|there| there == node)
    })?;
    on.ok_or_else(|| Unanswered::Unseen(format!("pod {namespace}/{name} on a node")))
}

fn may_modify_node(request: &AdmissionRequest, node: &str) -> Refused {
    let name = own_name(request);
    if name != node {
        return Err(format!("node {node:?} is not allowed to modify node {name:?}"));
    }
    let (new, old) = (&request.object, &request.old_object);
    match request.operation {
        Operation::Create => {
            if !new["spec"]["configSource"].is_null() {
                return Err(format!(
                    "node {node:?} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let forbidden = forbidden_labels(&new["metadata"]["labels"], &Value::Null);
            if !forbidden.is_empty() {
                return Err(format!("node {node:?} is not allowed to set the following labels: {forbidden}"));
            }
        }
        Operation::Update => {
            let source = &new["spec"]["configSource"];
            if !source.is_null() && *source != old["spec"]["configSource"] {
                return Err(format!(
                    "node {node:?} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            let taints = |node: &'_ Value| node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            if taints(new) != taints(old) {
                return Err(format!("node {node:?} is not allowed to modify taints"));
            }
            let forbidden = forbidden_labels(&new["metadata"]["labels"], &old["metadata"]["labels"]);
            if !forbidden.is_empty() {
                return Err(format!("is not allowed to modify labels: {forbidden}"));
            }
        }
        Operation::Delete | Operation::Connect => {}
    }
    Ok(())
}

fn may_use_lease(request: &AdmissionRequest, node: &str) -> Refused {
    if request.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    if own_name(request) != node {
        return Err("can only access node lease with the same name as the requesting node".to_owned());
    }
    Ok(())
}

/// The name in the request, or else in the object it brings.
fn own_name(request: &AdmissionRequest) -> &str {
    if request.name.is_empty() { text(&request.object, "/metadata/name") } else { &request.name }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
