//! What objects use of quotas, by the names of `spec.hard`. Source of the rules: the evaluators of kube-apiserver's
//! `pkg/quota/v1`.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{PodSpec, ResourceList};
use berth_api::read::from_value;
use berth_api::syntax::quantity::Quantity;
use berth_rules::{pod_limits, pod_requests};
use berth_schema::resource::{
    CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PODS, REPLICATION_CONTROLLERS, RESOURCE_CLAIMS, RESOURCE_QUOTAS,
    RESOURCES, Resource, SECRETS, SERVICES,
};
use serde_json::Value;

use crate::strategy::{items, text};

/// Resources that a quota can count by their plural alone.
static BY_PLURAL: [&Resource; 7] = [
    &CONFIG_MAPS,
    &PERSISTENT_VOLUME_CLAIMS,
    &PODS,
    &REPLICATION_CONTROLLERS,
    &RESOURCE_QUOTAS,
    &SECRETS,
    &SERVICES,
];
/// Requests and limits that a pod must have if a quota bounds them.
const REQUIRED: &[&str] =
    &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Behind the name of a device class: the devices that claims request by it.
const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// What a request for all devices counts as: a claim cannot have more.
const ALL_DEVICES: i64 = 32;

/// The resource whose objects use an amount.
pub fn counted(name: &str) -> Option<&'static Resource> {
    if let Some(counted) = name.strip_prefix("count/") {
        let stored = RESOURCES.iter().copied().filter(|resource| resource.stored().is_some());
        return stored.into_iter().find(|resource| resource.group_resource() == counted);
    }
    if name == "requests.storage" || name.contains(OF_CLASS) {
        return Some(&PERSISTENT_VOLUME_CLAIMS);
    }
    if name.ends_with(DEVICES_OF_CLASS) {
        return Some(&RESOURCE_CLAIMS);
    }
    if name.starts_with("services.") {
        return Some(&SERVICES);
    }
    Some(BY_PLURAL.iter().find(|resource| resource.plural == name).copied().unwrap_or(&PODS))
}

/// The amounts that an object uses.
pub fn of(resource: &Resource, object: &Value) -> ResourceList {
    let one = Quantity::from_units(1);
    let mut used = ResourceList::from([(format!("count/{}", resource.group_resource()), one)]);
    let mut add = |name: String, amount: Quantity| *used.entry(name).or_default() += amount;
    if *resource == PODS {
        // A pod that has ended uses nothing but its object.
        if matches!(text(object, "/status/phase"), "Succeeded" | "Failed") {
            return used;
        }
        add("pods".to_owned(), one);
        let spec = from_value::<PodSpec>(&object["spec"]).unwrap_or_default();
        for (name, amount) in pod_requests(&spec) {
            if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-")
            {
                add(name.clone(), amount);
            }
            add(format!("requests.{name}"), amount);
        }
        for (name, amount) in pod_limits(&spec) {
            add(format!("limits.{name}"), amount);
        }
    } else if BY_PLURAL.iter().any(|other| std::ptr::eq(*other, resource)) {
        add(resource.plural.to_owned(), one);
    }
    let spec = &object["spec"];
    if *resource == SERVICES {
        let ports = items(spec, "ports");
        let balances = text(spec, "/type") == "LoadBalancer";
        let allocates = text(spec, "/type") == "NodePort" || spec["allocateLoadBalancerNodePorts"] != false;
        let n_ports =
            ports.iter().filter(|port| allocates || port["nodePort"].as_i64().unwrap_or(0) != 0).count();
        if balances {
            add("services.loadbalancers".to_owned(), one);
        }
        if balances || text(spec, "/type") == "NodePort" {
            add(
                "services.nodeports".to_owned(),
                Quantity::from_units(i64::try_from(n_ports).unwrap_or(i64::MAX)),
            );
        }
    }
    if *resource == PERSISTENT_VOLUME_CLAIMS {
        let requests = from_value::<ResourceList>(&spec["resources"]["requests"]).unwrap_or_default();
        let storage = requests.get("storage").copied().unwrap_or_default();
        add("requests.storage".to_owned(), storage);
        let class = text(spec, "/storageClassName");
        if !class.is_empty() {
            add(format!("{class}{OF_CLASS}requests.storage"), storage);
            add(format!("{class}{OF_CLASS}persistentvolumeclaims"), one);
        }
    }
    if *resource == RESOURCE_CLAIMS {
        let n_devices = |request: &Value| match text(request, "/allocationMode") {
            "All" => ALL_DEVICES,
            _ => request["count"].as_i64().unwrap_or(1),
        };
        for request in items(&spec["devices"], "requests") {
            // Of alternatives by one class, the largest.
            let mut most = BTreeMap::<&str, i64>::new();
            let exactly = Some(&request["exactly"]).filter(|exactly| !exactly.is_null());
            for choice in items(request, "firstAvailable").iter().chain(exactly) {
                let most = most.entry(text(choice, "/deviceClassName")).or_default();
                *most = n_devices(choice).max(*most);
            }
            for (class, count) in most {
                add(format!("{class}{DEVICES_OF_CLASS}"), Quantity::from_units(count));
            }
        }
    }
    used
}

/// Checks that the containers of a pod have the requests and limits that a quota bounds.
///
/// # Errors
/// Some are missing: the names, each with its containers.
pub fn constraints(pod: &Value, hard: &ResourceList) -> Result<(), String> {
    let required: Vec<&str> = REQUIRED.iter().copied().filter(|name| hard.contains_key(*name)).collect();
    let has = |resources: &Value, name: &str| {
        let (part, of) = name.split_once('.').unwrap_or(("requests", name));
        !resources[part][of].is_null()
    };
    let spec = &pod["spec"];
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["initContainers", "containers"].iter().flat_map(|list| items(spec, list)) {
        for name in required
            .iter()
            .filter(|name| !has(&container["resources"], name) && !has(&spec["resources"], name))
        {
            missing.entry(*name).or_default().insert(text(container, "/name"));
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names = |containers: &BTreeSet<&str>| containers.iter().copied().collect::<Vec<_>>().join(",");
    let each = missing.iter().map(|(name, containers)| format!("{name} for: {}", names(containers)));
    Err(each.collect::<Vec<_>>().join("; "))
}
