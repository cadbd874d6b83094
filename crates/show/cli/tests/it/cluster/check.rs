//! Checks the final state of a cluster with code that is independent of the engine.

use std::collections::{BTreeSet, HashMap};

use berth_api::object::{Namespace, Node, Pod, VolumeKind, VolumeObject};
use berth_testkit::check::{self, Placed, volumes};
use berth_testkit::naive::World;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::{list, text};

fn typed<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap()
}

/// Checks that every pod is on an existing node and violates no required rule; returns the number of pods.
pub async fn assert_every_rule_kept(client: &Client) -> usize {
    let nodes = list(client, "/api/v1/nodes").await.unwrap();
    let namespaces = list(client, "/api/v1/namespaces").await.unwrap();
    let mut pods = list(client, "/api/v1/pods").await.unwrap();
    pods.retain(|pod| !["Succeeded", "Failed"].contains(&text(pod, "/status/phase")));
    // Affinity applies at the time of the placement.
    pods.sort_by_key(|pod| bound_at(pod).to_owned());
    let index: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(i, node)| (text(node, "/metadata/name"), i)).collect();
    let mut placed = Vec::new();
    let mut nowhere = BTreeSet::new();
    for (i, pod) in pods.iter().enumerate() {
        match index.get(text(pod, "/spec/nodeName")) {
            Some(node) => placed.push(Placed { template: i as u32, node: *node as u32 }),
            None => drop(nowhere.insert(text(pod, "/metadata/name"))),
        }
    }
    assert!(nowhere.is_empty(), "pods that are on no node: {nowhere:?}");
    let nodes: Vec<Node> = nodes.iter().map(typed).collect();
    let namespaces: Vec<Namespace> = namespaces.iter().map(typed).collect();
    let templates: Vec<Pod> = pods.iter().map(typed).collect();
    let findings = check::check(nodes.into_iter(), &namespaces, &templates, &placed);
    assert_eq!(findings.n_violations, 0, "{:?}", findings.violations);
    pods.len()
}

/// Checks that claims and volumes belong together in pairs, that every pod can use its volumes where it is, and that every
/// waiting pod has a reason.
pub async fn assert_volumes_right(client: &Client) {
    let pods = list(client, "/api/v1/pods").await.unwrap();
    let mut world = World {
        nodes: list(client, "/api/v1/nodes").await.unwrap().iter().map(typed).collect(),
        pods: pods.iter().map(typed).filter(|pod: &Pod| !pod.is_terminal()).collect(),
        ..World::default()
    };
    for kind in [VolumeKind::PersistentVolume, VolumeKind::PersistentVolumeClaim, VolumeKind::CsiNode] {
        let listed = list(client, &kind.resource().path("")).await.unwrap();
        listed.iter().for_each(|value| world.storage.set(VolumeObject::decode(kind, value).unwrap()));
    }
    assert_eq!(volumes::check(&world), Vec::<String>::new());
}

fn bound_at(pod: &Value) -> &str {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let scheduled = conditions.into_iter().flatten().find(|c| c["type"] == "PodScheduled");
    scheduled.map_or("", |c| text(c, "/lastTransitionTime"))
}
