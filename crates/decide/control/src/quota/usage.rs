//! What objects use of quotas, by the names of `spec.hard`.

use std::collections::BTreeMap;

use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{Pod, ResourceList};
use berth_api::resource::{
    CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICATION_CONTROLLERS, RESOURCE_CLAIMS, RESOURCE_QUOTAS,
    Resource, SECRETS, SERVICES,
};
use berth_api::syntax::quantity::Quantity;
use berth_rules::{pod_limits, pod_requests};
use serde_json::Value;

/// Resources that a quota can count by their plural alone.
pub const BY_PLURAL: [Resource; 7] = [
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
];
/// Behind the name of a storage class: what its claims use.
pub const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Behind the name of a device class: the devices that claims request by it.
pub const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What a request for all devices counts as: a claim cannot have more.
const ALL_DEVICES: i64 = 32;

fn one() -> Quantity {
    Quantity::from_units(1)
}

/// What every object uses.
fn counted(resource: &Resource) -> ResourceList {
    ResourceList::from([(format!("count/{}", resource.group_resource()), one())])
}

pub(super) fn of_pod(pod: &Pod) -> ResourceList {
    let mut used = counted(&PODS);
    // A pod that has ended uses nothing but its object.
    if pod.is_terminal() {
        return used;
    }
    let mut add = |name: String, amount: Quantity| *used.entry(name).or_default() += amount;
    add(PODS.plural.to_owned(), one());
    for (name, amount) in pod_requests(&pod.spec) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            add(name.clone(), amount);
        }
        add(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_limits(&pod.spec) {
        add(format!("limits.{name}"), amount);
    }
    used
}

pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> ResourceList {
    let (storage, class) = (claim.requested(), claim.spec.storage_class_name.as_deref().unwrap_or_default());
    let mut used = counted(&PERSISTENT_VOLUME_CLAIMS);
    used.insert(PERSISTENT_VOLUME_CLAIMS.plural.to_owned(), one());
    used.insert("requests.storage".to_owned(), storage);
    if !class.is_empty() {
        used.insert(format!("{class}{OF_CLASS}requests.storage"), storage);
        used.insert(format!("{class}{OF_CLASS}persistentvolumeclaims"), one());
    }
    used
}

/// What an object of another kind uses.
pub(super) fn of(resource: &Resource, object: &Value) -> ResourceList {
    let mut used = counted(resource);
    if BY_PLURAL.contains(resource) {
        used.insert(resource.plural.to_owned(), one());
    }
    let spec = &object["spec"];
    match *resource {
        SERVICES => of_service(spec, &mut used),
        RESOURCE_CLAIMS => of_devices(spec, &mut used),
        _ => {}
    }
    used
}

fn of_service(spec: &Value, used: &mut ResourceList) {
    let (is_node_port, balances) = (spec["type"] == "NodePort", spec["type"] == "LoadBalancer");
    let allocates = is_node_port || spec["allocateLoadBalancerNodePorts"] != false;
    let ports = spec["ports"].as_array().into_iter().flatten();
    let n_ports = ports.filter(|port| allocates || port["nodePort"].as_i64().unwrap_or(0) != 0).count();
    if balances {
        used.insert("services.loadbalancers".to_owned(), one());
    }
    if balances || is_node_port {
        let n_ports = Quantity::from_units(i64::try_from(n_ports).unwrap_or(i64::MAX));
        used.insert("services.nodeports".to_owned(), n_ports);
    }
}

fn of_devices(spec: &Value, used: &mut ResourceList) {
    let n_devices = |request: &Value| match request["allocationMode"].as_str() {
        Some("All") => ALL_DEVICES,
        _ => request["count"].as_i64().unwrap_or(1),
    };
    for request in spec["devices"]["requests"].as_array().into_iter().flatten() {
        // Of alternatives by one class, the largest.
        let mut most = BTreeMap::<&str, i64>::new();
        let alternatives = request["firstAvailable"].as_array().into_iter().flatten();
        let exactly = Some(&request["exactly"]).filter(|exactly| !exactly.is_null());
        for choice in alternatives.chain(exactly) {
            let class = choice["deviceClassName"].as_str().unwrap_or_default();
            let most = most.entry(class).or_default();
            *most = n_devices(choice).max(*most);
        }
        for (class, count) in most {
            *used.entry(format!("{class}{DEVICES_OF_CLASS}")).or_default() += Quantity::from_units(count);
        }
    }
}
