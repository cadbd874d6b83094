//! The status of ResourceClaims: allocations, consumers, and what drivers report about devices.

use std::collections::{BTreeSet, HashSet};

use berth_api::object::device::MAX_CONSUMERS;
use berth_api::syntax;
use berth_schema::resource::RESOURCE_CLAIMS;

use super::names::{
    limited, limited_set, validate_binding_conditions, validate_declared_driver, validate_declared_pool,
    validate_driver, validate_name, validate_pool, validate_raw,
};
use super::request::{MAX_CONFIG, RequestNames, validate_config, validate_tolerations};
use crate::kinds::prelude::*;
use crate::request::{ApiResult, Attributes, Status};
use crate::strategy::conditions::validate_conditions;

const MAX_RESULTS: usize = 32;
const MAX_CONDITIONS: usize = 8;
const MAX_DATA: usize = 10 * 1024;
const MAX_ADDRESSES: usize = 16;
const MAX_INTERFACE_NAME: usize = 256;
const MAX_HARDWARE_ADDRESS: usize = 128;
/// Some more statuses than devices: those of shared ones.
const MAX_DEVICES: usize = 1024;

/// The fact about a pod's identity that names its node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Driver, pool, device and share.
type DeviceKey<'v> = [&'v str; 4];

fn device_key(device: &Value) -> DeviceKey<'_> {
    ["/driver", "/pool", "/device", "/shareID"].map(|field| text(device, field))
}

fn results(status: &Value) -> &[Value] {
    items(&status["allocation"]["devices"], "results")
}

/// Removes the statuses of devices that were allocated and are not any longer.
pub fn drop_deallocated(new: &mut Value, old: &Value) {
    let device = |result: &Value| device_key(result)[..3].join("/");
    let kept: HashSet<String> = results(new).iter().map(device).collect();
    let gone: HashSet<String> =
        results(old).iter().map(device).filter(|device| !kept.contains(device)).collect();
    let Some(devices) = new.get_mut("devices").and_then(Value::as_array_mut).filter(|_| !gone.is_empty())
    else {
        return;
    };
    devices.retain(|status| !gone.contains(&device(status)));
    if devices.is_empty()
        && let Some(status) = new.as_object_mut()
    {
        status.shift_remove("devices");
    }
}

pub fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    let (status, old) = (&new["status"], &old["status"]);
    let path = "status.reservedFor";
    let consumers = limited(&status["reservedFor"], path, MAX_CONSUMERS, causes);
    for i in repeated(consumers.iter().map(|consumer| &consumer["uid"])) {
        causes.duplicate(&format!("{path}[{i}]"), &consumers[i]);
    }
    let keys = status["devices"].as_array().into_iter().flatten().map(device_key);
    for i in repeated(keys) {
        causes
            .duplicate(&format!("status.devices[{i}]"), &device_key(&status["devices"][i]).join("/").into());
    }
    let allocated: HashSet<DeviceKey<'_>> = results(status).iter().map(device_key).collect();
    for (i, device) in limited(&status["devices"], "status.devices", MAX_DEVICES, causes).iter().enumerate() {
        validate_device(device, &allocated, &format!("status.devices[{i}]"), causes);
    }
    let allocation = &status["allocation"];
    if !consumers.is_empty() {
        if allocation.is_null() {
            causes.forbidden(path, "may not be specified when `allocated` is not set");
        } else if !new["metadata"]["deletionTimestamp"].is_null()
            && consumers.iter().any(|consumer| !items(old, "reservedFor").contains(consumer))
        {
            let why =
                "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            causes.forbidden(path, why);
        }
    }
    if allocation.is_null() {
        return;
    }
    if old["allocation"].is_null() {
        validate_allocation(allocation, &RequestNames::of(&new["spec"]["devices"]), causes);
    } else {
        causes.set_once("status.allocation", allocation, &old["allocation"]);
    }
}

fn validate_allocation(allocation: &Value, names: &RequestNames<'_>, causes: &mut Causes) {
    let path = "status.allocation.devices.results";
    for (i, result) in
        limited(&allocation["devices"]["results"], path, MAX_RESULTS, causes).iter().enumerate()
    {
        let path = format!("{path}[{i}]");
        names.validate(&format!("{path}.request"), &result["request"], causes);
        let name = text(result, "/device");
        causes.problems(&format!("{path}.device"), &name.into(), syntax::dns_label(name));
        validate_share(result, &path, causes);
        validate_binding_conditions(result, &path, causes);
        validate_tolerations(&result["tolerations"], &format!("{path}.tolerations"), causes);
        validate_declared_driver(&format!("{path}.driver"), &result["driver"], causes);
        validate_declared_pool(&format!("{path}.pool"), &result["pool"], causes);
    }
    let path = "status.allocation.devices.config";
    // That of the class and that of the claim.
    for (i, config) in
        limited(&allocation["devices"]["config"], path, 2 * MAX_CONFIG, causes).iter().enumerate()
    {
        let path = format!("{path}[{i}]");
        names.validate_all(&path, &config["requests"], causes);
        validate_config(config, &path, causes);
    }
    if !allocation["nodeSelector"].is_null() {
        validate_node_selector(&allocation["nodeSelector"], "status.allocation.nodeSelector", causes);
    }
}

fn validate_device_name(device: &Value, path: &str, causes: &mut Causes) {
    validate_driver(&format!("{path}.driver"), &device["driver"], causes);
    validate_pool(&format!("{path}.pool"), &device["pool"], causes);
    validate_name(&format!("{path}.device"), &device["device"], syntax::dns_label, causes);
    validate_share(device, path, causes);
}

fn validate_share(device: &Value, path: &str, causes: &mut Causes) {
    if let Some(id) = device["shareID"].as_str().filter(|id| !is_uuid(id)) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                   hexadecimal characters";
        causes.invalid(&format!("{path}.shareID"), &id.into(), why);
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        })
}

fn validate_device(device: &Value, allocated: &HashSet<DeviceKey<'_>>, path: &str, causes: &mut Causes) {
    validate_device_name(device, path, causes);
    let key = device_key(device);
    if !allocated.contains(&key) {
        let [driver, pool, device, share] = key;
        let id = json!({"Driver": driver, "Pool": pool, "Device": device, "ShareID": share});
        causes.invalid(path, &id, "must be an allocated device in the claim");
    }
    let field = format!("{path}.conditions");
    limited(&device["conditions"], &field, MAX_CONDITIONS, causes);
    validate_conditions(&field, &device["conditions"], causes);
    if !device["data"].is_null() {
        validate_raw(&format!("{path}.data"), &device["data"], MAX_DATA, causes);
    }
    let (network, path) = (&device["networkData"], format!("{path}.networkData"));
    for (field, max) in [("interfaceName", MAX_INTERFACE_NAME), ("hardwareAddress", MAX_HARDWARE_ADDRESS)] {
        if network[field].as_str().is_some_and(|text| text.len() > max) {
            causes.too_long(&format!("{path}.{field}"), max);
        }
    }
    let path = format!("{path}.ips");
    for (i, address) in limited_set(&network["ips"], &path, MAX_ADDRESSES, |ip| ip, causes).iter().enumerate()
    {
        if !is_interface_address(address.as_str().unwrap_or_default()) {
            let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
            causes.invalid(&format!("{path}[{i}]"), address, why);
        }
    }
}

fn is_interface_address(text: &str) -> bool {
    let Some((address, prefix)) = text.split_once('/') else { return false };
    let (Ok(address), Ok(prefix)) = (address.parse::<std::net::IpAddr>(), prefix.parse::<u8>()) else {
        return false;
    };
    prefix <= if address.is_ipv4() { 32 } else { 128 }
}

/// Checks the permissions that parts of the status need besides the one for `resourceclaims/status`: allocations and consumers
/// need `resourceclaims/binding`; statuses of devices need `resourceclaims/driver` with the name of the driver, and a verb
/// that says whether the user is on the node of the allocation.
pub fn authorize(context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
    const VERBS: [&str; 2] = ["update", "patch"];
    let namespace = text(new, "/metadata/namespace");
    let may = |verbs: &[&str], subresource: &str, name: &str| {
        let group = RESOURCE_CLAIMS.group;
        let resource = RESOURCE_CLAIMS.plural;
        let what = Attributes { group, resource, subresource, namespace, name, ..Attributes::default() };
        verbs.iter().any(|verb| context.lookup.allows(context.user, &Attributes { verb, ..what }))
    };
    let forbidden = |why: String| Err(Status::forbidden(&RESOURCE_CLAIMS, name(new), &why));
    let (status, old) = (&new["status"], &old["status"]);
    let is_changed =
        |field: &str| !(is_empty(&status[field]) && is_empty(&old[field])) && status[field] != old[field];
    if (is_changed("allocation") || is_changed("reservedFor")) && !may(&VERBS, "binding", name(new)) {
        return forbidden(format!(
            "changing status.allocation or status.reservedFor requires permission to {} resourceclaims/binding",
            VERBS.join(" or ")
        ));
    }
    let of_driver = |status: &Value, driver: &str| -> Vec<Value> {
        items(status, "devices").iter().filter(|device| device["driver"] == driver).cloned().collect()
    };
    let both = items(status, "devices").iter().chain(items(old, "devices"));
    let drivers: BTreeSet<&str> = both.map(|device| text(device, "/driver")).collect();
    let on_node = context.user.extra.get(NODE_NAME).and_then(|nodes| nodes.first());
    for driver in drivers.into_iter().filter(|driver| of_driver(status, driver) != of_driver(old, driver)) {
        let is_on_node = on_node.is_some_and(|node| is_allocated_for(status, node));
        let is_allowed = may(&["arbitrary-node:update", "arbitrary-node:patch"], "driver", driver)
            || is_on_node && may(&["associated-node:update", "associated-node:patch"], "driver", driver);
        if !is_allowed {
            return forbidden(format!(
                "changing status.devices of driver {driver:?} requires permission to arbitrary-node:update or \
                 associated-node:update resourceclaims/driver"
            ));
        }
    }
    Ok(())
}

/// Whether the allocation can be used on this node alone.
fn is_allocated_for(status: &Value, node: &str) -> bool {
    let terms = items(&status["allocation"]["nodeSelector"], "nodeSelectorTerms");
    let is_node = |field: &Value| {
        field["key"] == "metadata.name" && field["operator"] == "In" && field["values"] == json!([node])
    };
    !terms.is_empty() && terms.iter().all(|term| items(term, "matchFields").iter().any(is_node))
}
