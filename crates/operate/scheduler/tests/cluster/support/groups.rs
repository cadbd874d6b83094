//! Pod groups of tests.

use serde_json::{Value, json};

use super::*;

pub const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

pub async fn gang(world: &World, name: &str, min: usize, topology: Option<&str>) {
    let topology: Vec<_> = topology.iter().map(|key| json!({"key": key})).collect();
    gang_with(world, name, min, json!({"schedulingConstraints": {"topology": topology}})).await;
}

/// A gang with these fields as well.
pub async fn gang_with(world: &World, name: &str, min: usize, fields: Value) {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": min}}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": spec});
    world.create(POD_GROUPS, object).await;
}

pub fn member(name: &str, group: &str) -> Value {
    let mut pod = pod(name, group);
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": group});
    pod
}

pub fn annotated(name: &str, group: &str, min: usize) -> Value {
    let mut pod = pod(name, name);
    pod["metadata"]["annotations"] =
        json!({"scheduling.berth.dev/group": group, "scheduling.berth.dev/group-min": min.to_string()});
    pod
}

pub async fn until_message(world: &World, name: &str, message: &str) {
    until(&format!("the condition of {name} says {message:?}"), async || {
        let pod = world.get(&format!("{PODS}/{name}")).await;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_said = conditions.iter().any(|c| c["message"].as_str().is_some_and(|m| m.contains(message)));
        if is_said { Ok(()) } else { Err(conditions) }
    })
    .await;
}

pub async fn until_status(world: &World, group: &str, status: &str, reason: &str) -> Value {
    until_shown(world, &format!("{POD_GROUPS}/{group}"), status, reason).await
}

/// Waits until the first condition of an object says so.
pub async fn until_shown(world: &World, path: &str, status: &str, reason: &str) -> Value {
    until(&format!("{path} is {reason}"), async || {
        let condition = world.get(path).await["status"]["conditions"].get(0).cloned().unwrap_or_default();
        let is_shown = condition["status"] == status && condition["reason"] == reason;
        if is_shown { Ok(condition) } else { Err(condition) }
    })
    .await
}

/// The nodes of the pods with a prefix, empty for those that are not bound.
pub async fn nodes_of(world: &World, prefix: &str) -> Vec<String> {
    let pods = world.pods().await.into_iter().filter(|pod| pod.metadata.name.starts_with(prefix));
    pods.map(|pod| pod.spec.node_name.clone()).collect()
}

pub async fn classes(world: &World) {
    for (name, value) in [("low", 1), ("high", 1000)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
}

pub fn of_class(mut pod: Value, class: &str) -> Value {
    pod["spec"]["priorityClassName"] = json!(class);
    pod
}
