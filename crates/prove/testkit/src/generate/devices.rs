//! Random devices, classes and claims, and the claims of pods. There are few of each, so that claims meet, and the
//! exhaustive search of the naive evaluator stays short.

use berth_api::object::device::{CLAIM_FINALIZER, ClaimDecision, DeviceKind, DeviceObject};
use berth_api::object::{ContainerClaim, Pod, PodResourceClaim};
use serde_json::{Value, json};

use super::names::{ZONE, ZONES, node_name};
use super::objects::{DELETED_AT, quantity};
use super::volumes::NAMESPACES;
use super::{Operation, Random};
use crate::naive::World;

const GPU: &str = "gpu.example.com";
const NIC: &str = "nic.example.com";
/// The extended resource of a class.
const EXTENDED: &str = "example.com/accelerator";
const CLASSES: [&str; 5] = ["gpu", "nic", "any", "model", "extended"];

/// One of the 30 objects at the start of a history: slices before allocated claims.
pub fn first(random: &mut Random, world: &World, n_left: usize) -> Operation {
    match n_left {
        0..10 => claim(random, world, None),
        10..15 => class(CLASSES[n_left - 10]),
        _ => slice(random),
    }
}

/// A change of an object. Claims of templates are made for the pod of the next operation.
pub fn change(random: &mut Random, world: &World, i: usize) -> Operation {
    match random.below(100) {
        0..35 => slice(random),
        35..70 => claim(random, world, None),
        70..84 => claim(random, world, Some(i + 1)),
        84..90 => {
            let name = random.word(&CLASSES);
            class(&name)
        }
        _ => match random.pick(&world.devices.objects) {
            Some(object) => Operation::RemoveDeviceObject(object.kind(), object.metadata().namespaced_name()),
            None => slice(random),
        },
    }
}

fn set(kind: DeviceKind, object: &Value) -> Operation {
    Operation::SetDeviceObject(DeviceObject::decode(kind, object).expect("an object of the vocabulary"))
}

fn class(name: &str) -> Operation {
    let expression = match name {
        "any" => "true",
        "nic" => "device.driver == \"nic.example.com\"",
        // Fails on devices without a model.
        "model" => "device.attributes[\"gpu.example.com\"].model == \"a\"",
        _ => "device.driver == \"gpu.example.com\"",
    };
    let mut spec = json!({"selectors": [{"cel": {"expression": expression}}]});
    if name == "extended" {
        spec["extendedResourceName"] = json!(EXTENDED);
    }
    set(DeviceKind::DeviceClass, &json!({"metadata": {"name": name}, "spec": spec}))
}

/// A slice: the devices of a node, in partitions or whole, or devices for several nodes.
fn slice(random: &mut Random) -> Operation {
    let node = node_name(random);
    let generation = 1 + random.below(10) / 9;
    let count = 1 + random.below(20) / 19;
    let (name, driver, pool, count) = match random.below(10) {
        0..4 => (format!("gpu-{node}"), GPU, node.clone(), count),
        4..6 => (format!("nic-{node}"), NIC, node.clone(), count),
        6 | 7 => (format!("parts-{node}-1"), GPU, format!("{node}-parts"), 2),
        8 => (format!("parts-{node}-0"), GPU, format!("{node}-parts"), 2),
        _ => ("fabric".to_owned(), NIC, "fabric".to_owned(), count),
    };
    let mut spec = json!({
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
    });
    let mut per_device = false;
    match (&*name, random.below(3)) {
        ("fabric", 0) => spec["allNodes"] = json!(true),
        ("fabric", 1) => spec["nodeSelector"] = in_zone(random),
        ("fabric", _) => {
            spec["perDeviceNodeSelection"] = json!(true);
            per_device = true;
        }
        _ => spec["nodeName"] = json!(node),
    }
    if name.ends_with("-0") {
        let counters = json!({"memory": {"value": random.word(&["2", "3", "4"])}});
        spec["sharedCounters"] = json!([{"name": "c", "counters": counters}]);
    } else {
        let is_part = name.starts_with("parts");
        let n = 1 + random.below(2);
        let devices: Vec<Value> = (0..n).map(|i| device(random, driver, i, is_part, per_device)).collect();
        spec["devices"] = json!(devices);
    }
    set(DeviceKind::ResourceSlice, &json!({"metadata": {"name": name}, "spec": spec}))
}

fn in_zone(random: &mut Random) -> Value {
    let zones = random.words(&ZONES, 1, 2);
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}]})
}

fn device(random: &mut Random, driver: &str, i: usize, is_part: bool, per_device: bool) -> Value {
    let mut device = json!({"name": format!("d{i}"), "attributes": {}});
    if driver == GPU && !random.chance(3) {
        device["attributes"]["model"] = json!({"string": random.word(&["a", "a", "b"])});
    }
    if random.chance(85) {
        device["attributes"]["example.com/numa"] = json!({"int": random.below(2)});
    }
    if random.chance(12) {
        let (key, effect) =
            (random.word(&["broken", "old"]), random.word(&["NoSchedule", "NoExecute", "None"]));
        device["taints"] = json!([{"key": key, "value": "", "effect": effect}]);
    }
    if is_part {
        let set = if random.chance(4) { "gone" } else { "c" };
        let value = random.word(&["1", "2", "3"]);
        device["consumesCounters"] = json!([{"counterSet": set, "counters": {"memory": {"value": value}}}]);
    }
    // The second device of each network pool is shared.
    if driver == NIC && i == 1 {
        device["allowMultipleAllocations"] = json!(true);
        device["capacity"]["bandwidth"] = match random.below(3) {
            0 => json!({"value": "4"}),
            1 => json!({"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2", "4"]}}),
            _ => {
                let range = json!({"min": "1", "max": "4", "step": "2"});
                json!({"value": "5", "requestPolicy": {"default": "1", "validRange": range}})
            }
        };
    } else if random.chance(40) {
        device["capacity"]["bandwidth"] = json!({"value": random.word(&["1", "3"])});
    }
    if random.chance(8) {
        device["bindingConditions"] = json!(["Attached"]);
        device["bindingFailureConditions"] = json!(["Failed"]);
        device["bindsToNode"] = json!(random.chance(50));
    }
    if random.chance(30) {
        device["nodeAllocatableResourceMappings"] = mappings(random, i);
    }
    if per_device {
        match random.below(3) {
            0 => device["allNodes"] = json!(true),
            1 => device["nodeSelector"] = in_zone(random),
            _ => device["nodeName"] = json!(node_name(random)),
        }
    }
    device
}

/// What a device takes of the node: of the second one, which is shared, by its bandwidth.
fn mappings(random: &mut Random, i: usize) -> Value {
    let resource = random.word(&["cpu", "cpu", "memory"]);
    let amount = match &*resource {
        "cpu" => random.word(&["500m", "1", "2"]),
        _ => random.word(&["1Gi", "2Gi"]),
    };
    let mut mapping = json!({});
    if random.chance(95) {
        mapping["allocationMultiplier"] = json!(amount);
    }
    if random.chance(if i == 1 { 60 } else { 3 }) {
        mapping["capacityKey"] = json!(random.word(&["bandwidth", "bandwidth", "bandwidth", "lanes"]));
    }
    json!({resource: mapping})
}

/// A claim, also one from the template for the pod with this number.
fn claim(random: &mut Random, world: &World, for_pod: Option<usize>) -> Operation {
    let namespace = random.word(&NAMESPACES);
    let name = for_pod.map_or_else(|| format!("c{}", random.below(6)), |n| format!("p{n}-made"));
    let uid = format!("uid-{namespace}-{name}-{}", random.below(2));
    let mut metadata = json!({"namespace": namespace, "name": name, "uid": uid});
    if let Some(n) = for_pod {
        let uid = if random.chance(90) { format!("u{n}") } else { "another".to_owned() };
        metadata["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Pod", "name": format!("p{n}"), "uid": uid, "controller": true}]);
    }
    if random.chance(4) {
        metadata["deletionTimestamp"] = json!(DELETED_AT);
        metadata["finalizers"] = json!([CLAIM_FINALIZER]);
    }
    let requests: Vec<Value> = (0..1 + random.below(3) / 2).map(|i| request(random, i)).collect();
    let mut devices = json!({"requests": requests});
    if random.chance(25) {
        let kind = random.word(&["matchAttribute", "matchAttribute", "distinctAttribute"]);
        let attribute = random.word(&["example.com/numa", "example.com/numa", "gpu.example.com/model"]);
        let mut constraint = json!({kind: attribute});
        if random.chance(30) {
            constraint["requests"] = json!(["r0"]);
        }
        devices["constraints"] = json!([constraint]);
    }
    let mut object = json!({"metadata": metadata, "spec": {"devices": devices}});
    if random.chance(25)
        && let Some(status) = status(random, world)
    {
        object["status"] = status;
    }
    set(DeviceKind::ResourceClaim, &object)
}

fn request(random: &mut Random, i: usize) -> Value {
    let name = format!("r{i}");
    if random.chance(70) {
        let mut exactly = devices(random);
        if random.chance(6) {
            exactly["adminAccess"] = json!(true);
        }
        return json!({"name": name, "exactly": exactly});
    }
    let n = 1 + random.below(2);
    let alternatives = (0..n).map(|i| {
        let mut alternative = devices(random);
        alternative["name"] = json!(format!("s{i}"));
        alternative
    });
    let alternatives: Vec<Value> = alternatives.collect();
    json!({"name": name, "firstAvailable": alternatives})
}

/// What requests and alternatives have in common.
fn devices(random: &mut Random) -> Value {
    let class = match random.below(50) {
        0 => "absent".to_owned(),
        1 | 2 => "model".to_owned(),
        _ => random.word(&["gpu", "gpu", "gpu", "nic", "nic", "any"]),
    };
    let mut devices = json!({"deviceClassName": class});
    match random.below(10) {
        0 => devices["allocationMode"] = json!("All"),
        _ => {
            devices["allocationMode"] = json!("ExactCount");
            devices["count"] = json!(1 + random.below(4) / 3);
        }
    }
    if random.chance(10) {
        let expression = "device.attributes[\"example.com\"].?numa.orValue(0) == 1";
        devices["selectors"] = json!([{"cel": {"expression": expression}}]);
    }
    if random.chance(12) {
        devices["tolerations"] = json!([{"key": "broken", "operator": "Exists"}]);
    }
    if random.chance(15) {
        devices["capacity"] = json!({"requests": {"bandwidth": random.word(&["1", "2", "3"])}});
    }
    devices
}

/// A claim that holds a device of a slice, or one that has gone, for some pods.
fn status(random: &mut Random, world: &World) -> Option<Value> {
    let slices: Vec<_> = world.devices.slices().filter(|slice| !slice.spec.devices.is_empty()).collect();
    let slice = random.pick(&slices)?;
    let device = random.pick(&slice.spec.devices)?;
    let node = slice.spec.node_name.clone().unwrap_or_else(|| node_name(random));
    let device_name = if random.chance(95) { device.name.as_str() } else { "gone" };
    let mut result = json!({"request": "r0", "driver": slice.spec.driver, "pool": slice.spec.pool.name, "device": device_name});
    if device.allow_multiple_allocations {
        result["shareID"] = json!(format!("share-{}", random.below(1000)));
        result["consumedCapacity"] = json!({"bandwidth": random.word(&["1", "2"])});
    }
    let mut devices = Vec::new();
    if !device.binding_conditions.is_empty() {
        result["bindingConditions"] = json!(device.binding_conditions);
        result["bindingFailureConditions"] = json!(device.binding_failure_conditions);
        if random.chance(60) {
            let condition = random.word(&["Attached", "Attached", "Failed"]);
            let mut status = result.clone();
            status["conditions"] = json!([{"type": condition, "status": "True"}]);
            devices.push(status);
        }
    }
    let mut allocation = json!({"devices": {"results": [result]}, "allocationTimestamp": random.word(&["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])});
    if random.chance(80) {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        allocation["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    }
    let reserved: Vec<Value> = (0..random.below(3))
        .map(|i| json!({"resource": "pods", "name": format!("r{i}"), "uid": format!("r{i}")}))
        .collect();
    Some(json!({"allocation": allocation, "reservedFor": reserved, "devices": devices}))
}

/// Gives a pod claims. Its namespace becomes one with claims.
pub fn draw(random: &mut Random, world: &World, pod: &mut Pod) {
    pod.metadata.namespace = random.word(&NAMESPACES);
    let made = format!("{}-made", pod.metadata.name);
    let is_made = world.devices.claims().find(|claim| claim.metadata.name == made);
    if is_made.is_some() || random.chance(3) {
        if let Some(claim) = is_made {
            pod.metadata.namespace.clone_from(&claim.metadata.namespace);
        }
        let of_template = PodResourceClaim {
            name: "made".to_owned(),
            resource_claim_template_name: Some("template".to_owned()),
            ..PodResourceClaim::default()
        };
        pod.spec.resource_claims.push(of_template);
        if !random.chance(10) {
            let status = json!({"name": "made", "resourceClaimName": made});
            let status = serde_json::from_value(status).expect("a status");
            pod.status.resource_claim_statuses.push(status);
        }
    }
    while random.chance(60) && pod.spec.resource_claims.len() < 2 {
        let namespace = &pod.metadata.namespace;
        let known = world.devices.claims().map(|claim| &claim.metadata);
        let known = known.filter(|m| m.namespace == *namespace && m.name.starts_with('c'));
        let known: Vec<&str> = known.map(|m| m.name.as_str()).collect();
        let name = match known.is_empty() || random.chance(3) {
            true => format!("c{}", random.below(6)),
            false => random.word(&known),
        };
        let n_before = pod.spec.resource_claims.len();
        pod.spec.resource_claims.push(PodResourceClaim {
            name: format!("d{n_before}"),
            resource_claim_name: Some(name),
            ..PodResourceClaim::default()
        });
    }
    let entries: Vec<String> = pod.spec.resource_claims.iter().map(|entry| entry.name.clone()).collect();
    for name in entries {
        let n = random.below(10).min(pod.spec.containers.len());
        for container in pod.spec.containers.iter_mut().take(n) {
            let request = String::new();
            container.resources.claims.push(ContainerClaim { name: name.clone(), request });
        }
    }
    // It counts if the pod has a node.
    if !pod.spec.resource_claims.is_empty() && random.chance(50) {
        let resource = random.word(&["cpu", "memory"]);
        let amount = random.word(if resource == "cpu" { &["500m", "1"] } else { &["1Gi", "2Gi"] });
        let claim = format!("c{}", random.below(6));
        let status = json!([{"resourceClaimName": claim, "resources": {resource: amount}}]);
        pod.status.node_allocatable_resource_claim_statuses =
            serde_json::from_value(status).expect("a status");
    }
    if random.chance(12)
        && let Some(container) = pod.spec.containers.first_mut()
    {
        let amount = quantity(&random.word(&["1", "2"]));
        container.resources.requests.insert(EXTENDED.to_owned(), amount);
        container.resources.limits.insert(EXTENDED.to_owned(), amount);
    }
}

/// The claims of a pod after a scheduler has written what it decided. A claim for extended resources is made, with the
/// name `made`.
pub fn written(world: &World, pod: &Pod, decisions: &[ClaimDecision], made: &str) -> Vec<DeviceObject> {
    let now = DELETED_AT.parse().expect("a time");
    let written = |decision: &ClaimDecision| {
        let before = world.devices.claims().find(|c| c.metadata.namespaced_name() == decision.claim);
        DeviceObject::ResourceClaim(Box::new(decision.written(before, &pod.metadata, made, now)))
    };
    decisions.iter().map(written).collect()
}
