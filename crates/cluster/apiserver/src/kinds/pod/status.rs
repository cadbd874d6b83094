//! Validation of the status of pods.

use std::collections::HashSet;
use std::net::IpAddr;

use berth_api::syntax;

use crate::kinds::prelude::*;

/// What devices take of the node of the pod, by claim.
pub const NODE_ALLOCATABLE: &str = "nodeAllocatableResourceClaimStatuses";
/// Native resources that a node has for pods.
const OF_NODES: [&str; 2] = ["cpu", "memory"];

/// Whether devices can take a resource of their node.
pub fn is_node_allocatable(resource: &str) -> bool {
    OF_NODES.contains(&resource)
        || resource.strip_prefix("hugepages-").is_some_and(|size| quantity(&size.into()).is_some())
}

pub fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    let status = &new["status"];
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let path = format!("status.conditions[{i}]");
        if condition["observedGeneration"].as_i64().is_some_and(|generation| generation < 0) {
            let why = "must be a non-negative integer";
            causes.invalid(&format!("{path}.observedGeneration"), &condition["observedGeneration"], why);
        }
        let kind = text(condition, "/type");
        causes.problems(&format!("{path}.Type"), &kind.into(), syntax::label_key(kind));
    }
    validate_nomination(new, old, causes);
    if status["observedGeneration"].as_i64().is_some_and(|generation| generation < 0) {
        causes.invalid(
            "status.observedGeneration",
            &status["observedGeneration"],
            "must be a non-negative integer",
        );
    }
    causes.unchanged("status.qosClass", &status["qosClass"], &old["status"]["qosClass"]);
    validate_extended_claim(new, causes);
    validate_node_allocatable(new, causes);
    validate_addresses(status, "podIPs", causes);
    let hosts = items(status, "hostIPs");
    if hosts.first().is_some_and(|host| text(host, "/ip") != text(status, "/hostIP")) {
        causes.invalid("status.hostIPs[0].ip", &hosts[0]["ip"], "must be equal to `hostIP`");
    }
    validate_addresses(status, "hostIPs", causes);
}

fn validate_nomination(new: &Value, old: &Value, causes: &mut Causes) {
    let [nominated, before] = [new, old].map(|pod| &pod["status"]["nominatedNodeName"]);
    if is_empty(nominated) || nominated == before {
        return;
    }
    let field = "status.nominatedNodeName";
    causes.problems(field, nominated, syntax::dns_subdomain(nominated.as_str().unwrap_or_default()));
    if !is_empty(&old["spec"]["nodeName"]) {
        causes.forbidden(field, "may not be set on pods that are already bound to a node");
    }
}

/// The claim that extended resources of the pod are satisfied with.
fn validate_extended_claim(pod: &Value, causes: &mut Causes) {
    let status = &pod["status"]["extendedResourceClaimStatus"];
    if status.is_null() {
        return;
    }
    let path = "status.extendedResourceClaimStatus";
    let mappings = items(status, "requestMappings");
    if mappings.is_empty() {
        causes.required(&format!("{path}.requestMappings"), "at least one request mapping is required");
    }
    let spec = &pod["spec"];
    let containers = || items(spec, "initContainers").iter().chain(items(spec, "containers"));
    let repeated = repeated(mappings);
    for (i, mapping) in mappings.iter().enumerate() {
        let field = |name: &str| format!("{path}.requestMappings[{i}].{name}");
        let resource = text(mapping, "/resourceName");
        match containers().find(|container| container["name"] == mapping["containerName"]) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                causes.invalid(&field("containerName"), &mapping["containerName"], why);
            }
            Some(container) if container["resources"]["requests"].get(resource).is_none() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                           spec.containers.resources.requests";
                causes.invalid(&field("resourceName"), &mapping["resourceName"], why);
            }
            Some(_) => {}
        }
        let request = text(mapping, "/requestName");
        causes.problems(&format!("{path}.requestName"), &request.into(), syntax::dns_label(request));
        if repeated.contains(&i) {
            for name in ["containerName", "resourceName", "requestName"] {
                causes.duplicate(&field(name), &mapping[name]);
            }
        }
    }
    let claim = &status["resourceClaimName"];
    match text(status, "/resourceClaimName") {
        "" => causes.required(&format!("{path}.resourceClaimName"), ""),
        name => causes.problems(&format!("{path}.resourceClaimName"), claim, syntax::dns_subdomain(name)),
    }
}

/// What devices take of the node: the claims are those of the pod.
fn validate_node_allocatable(pod: &Value, causes: &mut Causes) {
    let status = &pod["status"];
    let of_pod = items(&pod["spec"], "resourceClaims").iter().chain(items(status, "resourceClaimStatuses"));
    let names: HashSet<&str> = of_pod.filter_map(|entry| entry["resourceClaimName"].as_str()).collect();
    for (i, taken) in items(status, NODE_ALLOCATABLE).iter().enumerate() {
        let (path, name) = (format!("status.{NODE_ALLOCATABLE}[{i}]"), &taken["resourceClaimName"]);
        if !name.as_str().is_some_and(|name| names.contains(name)) {
            causes.invalid(&format!("{path}.resourceClaimName"), name, "no mapping found in pod reference");
        }
        for (resource, amount) in taken["resources"].as_object().into_iter().flatten() {
            not_negative(&format!("{path}.resources[{resource}]"), amount, causes);
        }
        for list in ["mapping", "overhead"] {
            for (i, taken) in items(taken, list).iter().enumerate() {
                let path = format!("{path}.{list}[{i}]");
                if !is_node_allocatable(text(taken, "/name")) {
                    let why = "must be a node allocatable resource name";
                    causes.invalid(&format!("{path}.name"), &taken["name"], why);
                }
                if list == "mapping" {
                    not_negative(&format!("{path}.quantity"), &taken["quantity"], causes);
                } else {
                    validate_overhead(&path, taken, causes);
                }
            }
        }
    }
}

/// An amount for the pod, for each container, or both.
pub fn validate_overhead(path: &str, overhead: &Value, causes: &mut Causes) {
    let amounts = ["perPod", "perContainer"];
    if amounts.iter().all(|field| overhead[field].is_null()) {
        causes.invalid(path, &"".into(), "at least one of perPod or perContainer must be set");
    }
    amounts.iter().for_each(|field| not_negative(&format!("{path}.{field}"), &overhead[field], causes));
}

pub fn not_negative(path: &str, amount: &Value, causes: &mut Causes) {
    if quantity(amount).is_some_and(|amount| amount.is_negative()) {
        causes.invalid(path, amount, "must be non-negative");
    }
}

fn validate_addresses(status: &Value, list: &str, causes: &mut Causes) {
    let addresses = items(status, list);
    let parsed: Vec<Option<IpAddr>> =
        addresses.iter().map(|address| text(address, "/ip").parse().ok()).collect();
    for (i, address) in addresses.iter().enumerate().filter(|(i, _)| parsed[*i].is_none()) {
        let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        causes.invalid(&format!("status.{list}[{i}]"), &text(address, "/ip").into(), why);
    }
    let is_pair = matches!(parsed.as_slice(), [Some(a), Some(b)] if a.is_ipv4() != b.is_ipv4());
    if addresses.len() > 1 && !is_pair {
        let shown = addresses.iter().map(|address| json!({"IP": text(address, "/ip")})).collect();
        causes.invalid(
            &format!("status.{list}"),
            &shown,
            "may specify no more than one IP for each IP family",
        );
    }
}
