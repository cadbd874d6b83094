//! ResourceSlices.

use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;
use berth_schema::resource::RESOURCE_SLICES;

use super::names::{
    limited, limited_set, validate_binding_conditions, validate_driver, validate_name,
    validate_node_selector, validate_pool, validate_qualified_name,
};
use crate::kinds::prelude::*;

const MAX_DEVICES: usize = 128;
/// With taints or counters, which make devices larger.
const MAX_DEVICES_WITH_FEATURES: usize = 64;
const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MAX_ATTRIBUTE: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const MAX_CONSUMED_SETS: usize = 2;
const MAX_VALID_VALUES: usize = 10;

const NODE_MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// A slice stays with its driver, its pool and its node: a node writes only its own.
pub static SLICE: Typed = Typed {
    enums: &[("DeviceTaint", "effect", super::EFFECTS)],
    immutable: &["/spec/driver", "/spec/pool/name", "/spec/nodeName"],
    complete: set_taint_times,
    check: |slice, causes| validate_spec(&slice["spec"], causes),
    ..Typed::new(&RESOURCE_SLICES)
};

fn set_taint_times(slice: &mut Value) {
    for device in slice.get_mut("spec").map_or(&mut [][..], |spec| items_mut(spec, "devices")) {
        for taint in items_mut(device, "taints").iter_mut().filter_map(Value::as_object_mut) {
            default(taint, "timeAdded", now());
        }
    }
}

fn validate_spec(spec: &Value, causes: &mut Causes) {
    validate_driver("spec.driver", &spec["driver"], causes);
    let pool = &spec["pool"];
    validate_pool("spec.pool.name", &pool["name"], causes);
    if pool["resourceSliceCount"].as_i64().is_some_and(|count| count <= 0) {
        causes.invalid(
            "spec.pool.resourceSliceCount",
            &pool["resourceSliceCount"],
            "must be greater than zero",
        );
    }
    if pool["generation"].as_i64().is_some_and(|generation| generation < 0) {
        causes.invalid("spec.pool.generation", &pool["generation"], "must be greater than or equal to zero");
    }
    const ONE_OF: &str =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let fields = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];
    validate_nodes(
        spec,
        "spec",
        &fields,
        "must be either unset or set to a non-empty string",
        ONE_OF,
        causes,
    );
    let terms = &spec["nodeSelector"]["nodeSelectorTerms"];
    if terms.as_array().is_some_and(|terms| terms.len() != 1) {
        let why = "must have exactly one node selector term";
        causes.invalid("spec.nodeSelector.nodeSelectorTerms", terms, why);
    }
    if !spec["sharedCounters"].is_null() && !spec["devices"].is_null() {
        causes.invalid("spec", &"".into(), "only one of `sharedCounters` or `devices` is allowed");
    }
    let has_features =
        |device: &Value| !is_empty(&device["taints"]) || !is_empty(&device["consumesCounters"]);
    let max = match items(spec, "devices").iter().any(has_features) {
        true => MAX_DEVICES_WITH_FEATURES,
        false => MAX_DEVICES,
    };
    let devices = limited_set(&spec["devices"], "spec.devices", max, |device| &device["name"], causes);
    for (i, device) in devices.iter().enumerate() {
        validate_device(
            device,
            spec["perDeviceNodeSelection"] == true,
            &format!("spec.devices[{i}]"),
            causes,
        );
    }
    let path = "spec.sharedCounters";
    let sets = limited_set(&spec["sharedCounters"], path, MAX_COUNTER_SETS, |set| &set["name"], causes);
    for (i, set) in sets.iter().enumerate() {
        let path = format!("{path}[{i}]");
        validate_name(&format!("{path}.name"), &set["name"], syntax::dns_label, causes);
        validate_counters(&set["counters"], &format!("{path}.counters"), causes);
    }
}

/// The fields that say which nodes can use the devices, of which exactly one must be set.
fn validate_nodes(
    value: &Value,
    path: &str,
    fields: &[&str],
    no_name: &str,
    one_of: &str,
    causes: &mut Causes,
) {
    let mut set = Vec::new();
    for field in fields {
        let (given, path) = (&value[field], format!("{path}.{field}"));
        match (*field, given) {
            (_, Value::Null) => continue,
            ("nodeName", name) if is_empty(name) => {
                causes.invalid(&path, given, no_name);
                continue;
            }
            ("nodeName", name) => validate_name(&path, name, syntax::dns_subdomain, causes),
            ("nodeSelector", selector) => validate_node_selector(selector, &path, causes),
            (_, Value::Bool(true)) => {}
            _ => {
                causes.invalid(&path, given, "must be either unset or set to true");
                continue;
            }
        }
        set.push(format!("`{field}`"));
    }
    match set.len() {
        0 => causes.required(path, one_of),
        1 => {}
        _ => {
            let why = format!("{one_of}, but multiple fields are set");
            causes.invalid(path, &format!("{{{}}}", set.join(", ")).into(), &why);
        }
    }
}

fn validate_device(device: &Value, selects_nodes: bool, path: &str, causes: &mut Causes) {
    validate_name(&format!("{path}.name"), &device["name"], syntax::dns_label, causes);
    let [attributes, capacities] = ["attributes", "capacity"].map(|field| device[field].as_object());
    let n = [attributes, capacities].into_iter().flatten().map(Map::len).sum::<usize>();
    if n > MAX_ATTRIBUTES_AND_CAPACITIES {
        let why = format!(
            "the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        );
        causes.invalid(path, &n.into(), &why);
        return;
    }
    let field = format!("{path}.attributes");
    for (name, attribute) in attributes.into_iter().flatten() {
        validate_qualified_name(&field, name, causes);
        validate_attribute(attribute, &format!("{field}[{name}]"), causes);
    }
    let field = format!("{path}.capacity");
    for (name, capacity) in capacities.into_iter().flatten() {
        validate_qualified_name(&field, name, causes);
        let field = format!("{field}[{name}].requestPolicy");
        let policy = &capacity["requestPolicy"];
        if policy.is_null() {
            continue;
        }
        if device["allowMultipleAllocations"] == true {
            validate_policy(policy, quantity(&capacity["value"]).unwrap_or_default(), &field, causes);
        } else {
            causes.forbidden(&field, "allowMultipleAllocations must be true");
        }
    }
    let field = format!("{path}.taints");
    for (i, taint) in limited(&device["taints"], &field, MAX_TAINTS, causes).iter().enumerate() {
        let field = format!("{field}[{i}]");
        validate_name(&format!("{field}.key"), &taint["key"], syntax::label_key, causes);
        validate_name(&format!("{field}.value"), &taint["value"], syntax::label_value, causes);
    }
    let field = format!("{path}.consumesCounters");
    let consumed =
        limited_set(&device["consumesCounters"], &field, MAX_CONSUMED_SETS, |set| &set["counterSet"], causes);
    for (i, set) in consumed.iter().enumerate() {
        let field = format!("{field}[{i}]");
        validate_name(&format!("{field}.counterSet"), &set["counterSet"], syntax::dns_label, causes);
        validate_counters(&set["counters"], &format!("{field}.counters"), causes);
    }
    let field = format!("{path}.{NODE_MAPPINGS}");
    for (name, mapping) in device[NODE_MAPPINGS].as_object().into_iter().flatten() {
        validate_mapping(name, mapping, &field, causes);
    }
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    if selects_nodes {
        const ONE_OF: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                              `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        validate_nodes(device, path, &fields, "must not be empty", ONE_OF, causes);
    } else if fields.iter().any(|field| !device[field].is_null()) {
        let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true \
                   in the ResourceSlice spec";
        causes.invalid(path, &Value::Null, why);
    }
    validate_binding_conditions(device, path, causes);
}

/// What a device takes of a resource of the node.
fn validate_mapping(resource: &str, mapping: &Value, path: &str, causes: &mut Causes) {
    let is_of_node = matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || resource.strip_prefix("hugepages-").is_some_and(|size| Quantity::parse(size).is_ok());
    if !is_of_node {
        let why = "must be a node allocatable resource: cpu, memory, ephemeral-storage, or huge pages";
        causes.invalid(path, &resource.into(), why);
    }
    let (path, multiplier) = (format!("{path}[{resource}]"), &mapping["allocationMultiplier"]);
    if let Some(key) = mapping["capacityKey"].as_str() {
        validate_qualified_name(&format!("{path}.capacityKey"), key, causes);
    }
    if quantity(multiplier).is_some_and(Quantity::is_negative) {
        let why = "must be greater than or equal to 0";
        causes.invalid(&format!("{path}.allocationMultiplier"), multiplier, why);
    }
}

fn validate_attribute(attribute: &Value, path: &str, causes: &mut Causes) {
    let given = ["bool", "int", "string", "version"].map(|field| !attribute[field].is_null());
    match given.into_iter().filter(|given| *given).count() {
        0 => causes.invalid(path, &"".into(), "exactly one value must be specified"),
        1 => {}
        _ => causes.invalid(path, attribute, "exactly one value must be specified"),
    }
    for field in ["string", "version"] {
        if attribute[field].as_str().is_some_and(|text| text.len() > MAX_ATTRIBUTE) {
            causes.too_long(&format!("{path}.{field}"), MAX_ATTRIBUTE);
        }
    }
    if let Some(version) = attribute["version"].as_str().filter(|version| !is_semantic_version(version)) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        causes.invalid(&format!("{path}.version"), &version.into(), why);
    }
}

/// Whether a text is `MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]` as in semver.org 2.0.0.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_identifier =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_pre =
        |part: &str| is_identifier(part) && (is_number(part) || part.bytes().any(|b| !b.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre.is_none_or(|pre| pre.split('.').all(is_pre))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

fn validate_counters(counters: &Value, path: &str, causes: &mut Causes) {
    let names = counters.as_object().into_iter().flatten().map(|(name, _)| name);
    match names.clone().count() {
        0 => causes.required(path, ""),
        n if n > MAX_COUNTERS => causes.too_many(path, n, MAX_COUNTERS),
        _ => names.for_each(|name| causes.problems(path, &name.as_str().into(), syntax::dns_label(name))),
    }
}

/// The amounts of a capacity that requests can take.
fn validate_policy(policy: &Value, capacity: Quantity, path: &str, causes: &mut Causes) {
    let (values, range) = (&policy["validValues"], &policy["validRange"]);
    let default = quantity(&policy["default"]);
    let field = format!("{path}.default");
    match (is_empty(values), range.is_null(), default) {
        (false, false, _) => {
            let why = r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#;
            causes.forbidden(path, why);
        }
        (true, true, _) => {}
        (false, true, None) => causes.required(&field, "required when validValues is defined"),
        (true, false, None) => causes.required(&field, "required when validRange is defined"),
        (false, true, Some(default)) => {
            validate_values(values, default, capacity, &format!("{path}.validValues"), causes);
        }
        (true, false, Some(default)) => {
            validate_range(range, default, capacity, &format!("{path}.validRange"), causes);
        }
    }
}

fn validate_values(values: &Value, default: Quantity, capacity: Quantity, path: &str, causes: &mut Causes) {
    let given = limited(values, path, MAX_VALID_VALUES, causes);
    let amounts: Vec<Quantity> = given.iter().map(|value| quantity(value).unwrap_or_default()).collect();
    for (i, pair) in amounts.windows(2).enumerate() {
        let field = format!("{path}[{}]", i + 1);
        if pair[0] > pair[1] {
            causes.invalid(&field, &given[i + 1], "values must be sorted in ascending order");
        } else if pair[0] == pair[1] {
            causes.duplicate(&field, &given[i + 1]);
        }
    }
    for (i, _) in amounts.iter().enumerate().filter(|(_, amount)| **amount > capacity) {
        let why = format!("option is larger than capacity value: {capacity}");
        causes.invalid(&format!("{path}[{i}]"), &given[i], &why);
    }
    if !amounts.contains(&default) {
        let why = "default value is not valid according to the requestPolicy";
        causes.invalid(path, &default.to_string().into(), why);
    }
}

fn validate_range(range: &Value, default: Quantity, capacity: Quantity, path: &str, causes: &mut Causes) {
    let [min, max, step] = ["min", "max", "step"].map(|field| quantity(&range[field]));
    let Some(min) = min else {
        causes.required(&format!("{path}.min"), "required when validRange is defined");
        return;
    };
    let mut check = |is_wrong: bool, field: &str, value: Quantity, why: String| {
        if is_wrong {
            causes.invalid(&format!("{path}.{field}"), &value.to_string().into(), &why);
        }
    };
    check(min > capacity, "min", min, format!("min is larger than capacity value: {capacity}"));
    check(default < min, "default", default, format!("default is less than min: {min}"));
    if let Some(max) = max {
        check(min > max, "max", min, format!("min is larger than max: {max}"));
        check(max > capacity, "max", max, format!("max is larger than capacity value: {capacity}"));
        check(default > max, "default", default, format!("default is more than max: {max}"));
    }
    let Some(step) = step else { return };
    if step <= Quantity::ZERO {
        check(true, "step", step, "must be greater than zero".to_owned());
        return;
    }
    let first = min + step;
    check(
        first > capacity,
        "step",
        step,
        format!("one step {first} is larger than capacity value: {capacity}"),
    );
    for value in [Some(default), max].into_iter().flatten() {
        // In whole units, as kube-apiserver counts; a step of less than one counts as one.
        let is_multiple = (value.units() - min.units()) % step.units() == 0;
        let why = format!("value is not a multiple of a given step ({step}) from ({min})");
        check(!is_multiple, "step", value, why);
    }
}

pub const SLICE_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Node", "The node of the devices.", "/spec/nodeName").or(UNSET),
    Column::field("Driver", "The driver of the devices.", "/spec/driver"),
    Column::field("Pool", "The pool of the devices.", "/spec/pool/name"),
    AGE,
];
