//! The Node authorizer: permissions of a node's identity, by the rules of kube-apiserver's authorizer of this name.
//!
//! A node may read an object that pods refer to if there is a path from the object over a pod to the node. The paths are
//! searched in the store at each request: only nodes cause the search, and no graph has to follow every pod. The references
//! of a pod or volume are read once for each of its versions.

use std::borrow::Cow;

use berth_rules::admission::node_restriction::{MIRROR, Referent, references};
use berth_schema::resource::{PERSISTENT_VOLUMES, PODS, Resource, VOLUME_ATTACHMENTS, find};
use serde_json::Value;

use super::builtin::{RuleTable, is_listed};
use crate::request::Attributes;
use crate::store::{Compiled, Filter, Object, Store};

const READ: &[&str] = &["get", "list", "watch"];

/// Permissions that do not depend on stored objects. NodeRestriction limits the writes to the node's own objects.
const UNIFORM: RuleTable = &[
    (&["create"], "authentication.k8s.io", &["tokenreviews"]),
    (&["create"], "authorization.k8s.io", &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (READ, "", &["services"]),
    (&["create", "update", "patch"], "", &["nodes", "events"]),
    (&["update", "patch"], "", &["nodes/status", "pods/status"]),
    (&["create", "delete"], "", &["pods"]),
    (&["create"], "", &["pods/eviction"]),
    (&["create", "update", "patch"], "events.k8s.io", &["events"]),
    (&["get", "create", "list", "watch"], "certificates.k8s.io", &["certificatesigningrequests"]),
    (READ, "storage.k8s.io", &["csidrivers"]),
    (READ, "node.k8s.io", &["runtimeclasses"]),
    (&["create"], "resource.k8s.io", &["resourceslices"]),
];

/// Checks whether a node may do something.
///
/// # Errors
/// It may not; the text is the reason, empty if there is no other than the rules.
pub fn check(store: &Store, node: &str, what: &Attributes<'_>) -> Result<(), String> {
    let Attributes { verb, group, resource, subresource, namespace, name, selected_node, .. } = *what;
    let paths = Paths { store, node };
    let related = |is_related: bool| match is_related {
        true => Ok(()),
        false => Err(format!("no relationship found between node '{node}' and this object")),
    };
    let only = |allowed: bool, what: &str| if allowed { Ok(()) } else { Err(format!("can only {what}")) };
    let referent = match (group, resource) {
        ("", "secrets") => Some(Referent::Secret),
        ("", "configmaps") => Some(Referent::ConfigMap),
        ("", "persistentvolumeclaims") => Some(Referent::PersistentVolumeClaim),
        ("", "serviceaccounts") => Some(Referent::ServiceAccount),
        ("resource.k8s.io", "resourceclaims") => Some(Referent::ResourceClaim),
        _ => None,
    };
    if let Some(referent) = referent {
        let allowed = match (referent, subresource) {
            (Referent::Secret | Referent::ConfigMap, "") => READ.contains(&verb),
            (Referent::PersistentVolumeClaim, "status") => matches!(verb, "update" | "patch"),
            (Referent::ServiceAccount, "token") => verb == "create",
            (_, "") => verb == "get",
            _ => false,
        };
        return match (allowed, namespace.is_empty() || name.is_empty()) {
            (false, _) => Err(String::new()),
            (true, true) => Err("No Object name found".to_owned()),
            (true, false) => related(
                paths.is_used(referent, namespace, name)
                    || (referent == Referent::Secret && paths.is_secret_of_volume(namespace, name)),
            ),
        };
    }
    match (group, resource, subresource, verb) {
        ("", "persistentvolumes", "", "get") => {
            let volume = store.get(&PERSISTENT_VOLUMES, "", name);
            related(volume.is_some_and(|volume| paths.is_volume_used(&volume.compiled())))
        }
        ("storage.k8s.io", "volumeattachments", "", "get") => {
            let attachment = store.get(&VOLUME_ATTACHMENTS, "", name);
            related(attachment.is_some_and(|attachment| attachment.parsed()["spec"]["nodeName"] == node))
        }
        ("", "nodes", "", "get" | "list" | "watch") => only(name == node, "read its own Node object"),
        ("", "pods", "", "get") => related(paths.has_pod(namespace, name)),
        ("", "pods", "", "list" | "watch") if selected_node == node => Ok(()),
        ("", "pods", "", "list" | "watch") if !name.is_empty() => related(paths.has_pod(namespace, name)),
        ("", "pods", "", "list" | "watch") => {
            only(false, "list/watch pods with spec.nodeName field selector")
        }
        ("resource.k8s.io", "resourceslices", "", "get" | "update" | "patch" | "delete") => {
            related(paths.has_slice(name))
        }
        ("resource.k8s.io", "resourceslices", "", "list" | "watch" | "deletecollection") => only(
            selected_node == node,
            "list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("coordination.k8s.io", "leases", "", "get" | "create" | "update" | "patch" | "delete") => {
            let own = namespace == "kube-node-lease" && (verb == "create" || name == node);
            only(own, "access node lease with the same name as the requesting node")
        }
        ("storage.k8s.io", "csinodes", "", "get" | "create" | "update" | "patch" | "delete") => {
            let own = verb == "create" || name == node;
            only(own, "access CSINode with the same name as the requesting node")
        }
        _ if is_listed(UNIFORM, what) => Ok(()),
        _ => Err(String::new()),
    }
}

/// Paths from objects to a node.
struct Paths<'a> {
    store: &'a Store,
    node: &'a str,
}

impl Paths<'_> {
    fn has_pod(&self, namespace: &str, name: &str) -> bool {
        self.store.get(&PODS, namespace, name).is_some_and(|pod| self.is_here(&pod))
    }

    fn is_here(&self, pod: &Object) -> bool {
        let node_name = PODS.watched_field().and_then(|field| pod.facts.field(field));
        node_name == Some(self.node)
    }

    /// Whether a pod on the node refers to the object.
    fn is_used(&self, referent: Referent, namespace: &str, name: &str) -> bool {
        let (_, pods) = self.store.list(&PODS, &Filter::in_namespace(namespace));
        let mut here = pods.iter().filter(|pod| self.is_here(pod));
        here.any(|pod| {
            let PodReferences(all) = &*pod.compiled();
            all.iter().any(|(of, named)| *of == referent && **named == *name)
        })
    }

    fn is_volume_used(&self, volume: &VolumeReferences) -> bool {
        let (namespace, name) = &volume.claim;
        !name.is_empty() && self.is_used(Referent::PersistentVolumeClaim, namespace, name)
    }

    /// Whether the secret is one that a kubelet needs for a volume of a pod on the node.
    fn is_secret_of_volume(&self, namespace: &str, name: &str) -> bool {
        let (_, volumes) = self.store.list(&PERSISTENT_VOLUMES, &Filter::default());
        volumes.iter().map(|volume| volume.compiled::<VolumeReferences>()).any(|volume| {
            let is_it = |(place, secret): &(Box<str>, Box<str>)| **secret == *name && **place == *namespace;
            volume.secrets.iter().any(is_it) && self.is_volume_used(&volume)
        })
    }

    fn has_slice(&self, name: &str) -> bool {
        let slices: Option<&Resource> = find("resource.k8s.io", "v1", "resourceslices");
        let slice = slices.and_then(|slices| self.store.get(slices, "", name));
        slice.is_some_and(|slice| slice.parsed()["spec"]["nodeName"] == self.node)
    }
}

/// The references of a pod. A mirror pod has none: the node creates it itself.
struct PodReferences(Box<[(Referent, Box<str>)]>);

impl Compiled for PodReferences {
    fn compile(pod: Cow<'_, Value>) -> PodReferences {
        if pod["metadata"]["annotations"].get(MIRROR).is_some() {
            return PodReferences(Box::default());
        }
        PodReferences(references(&pod).into_iter().map(|(of, name)| (of, name.into())).collect())
    }
}

/// The claim of a volume, and the secrets that a kubelet needs for it, by namespace and name.
struct VolumeReferences {
    claim: (Box<str>, Box<str>),
    secrets: Box<[(Box<str>, Box<str>)]>,
}

impl Compiled for VolumeReferences {
    fn compile(volume: Cow<'_, Value>) -> VolumeReferences {
        let claim = |field: &str| volume["spec"]["claimRef"][field].as_str().unwrap_or_default();
        let sources = volume["spec"].as_object().into_iter().flatten().map(|(_, source)| source);
        let secrets = sources.filter_map(Value::as_object).flat_map(|source| {
            let in_azure = source.get("secretName").map(|name| (name, source.get("secretNamespace")));
            let is_of_node = |field: &str| {
                matches!(
                    field,
                    "secretRef" | "nodeStageSecretRef" | "nodePublishSecretRef" | "nodeExpandSecretRef"
                )
            };
            let references = source.iter().filter(move |(field, _)| is_of_node(field));
            references.map(|(_, secret)| (&secret["name"], secret.get("namespace"))).chain(in_azure)
        });
        let secrets = secrets.filter_map(|(secret, place)| {
            let place = place.and_then(Value::as_str).unwrap_or(claim("namespace"));
            Some((place.into(), secret.as_str()?.into()))
        });
        VolumeReferences {
            secrets: secrets.collect(),
            claim: (claim("namespace").into(), claim("name").into()),
        }
    }
}
