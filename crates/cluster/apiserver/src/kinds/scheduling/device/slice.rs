//! ResourceSlices.

use std::sync::Arc;

use berth_api::object::NodeSelector;
use berth_api::read::from_value;
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;
use berth_rules::{Dialect, NodeSelectorRule};
use berth_schema::resource::{NODES, RESOURCE_SLICES};

use super::names::{
    limited, limited_set, validate_binding_conditions, validate_driver, validate_fully_qualified_name,
    validate_name, validate_pool, validate_qualified_name,
};
use crate::kinds::pod::status::{is_node_allocatable, validate_overhead};
use crate::kinds::prelude::*;
use crate::store::Object;

const MAX_DEVICES: usize = 128;
/// With taints or counters, which make devices larger.
const MAX_DEVICES_WITH_FEATURES: usize = 64;
const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
const MAX_ATTRIBUTE: usize = 64;
const MAX_TAINTS: usize = 16;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const MAX_CONSUMED_SETS: usize = 2;
const MAX_COMPATIBILITY_GROUPS: usize = 2;
const MAX_VALID_VALUES: usize = 10;

const NODE_MAPPINGS: &str = "nodeAllocatableResourceMappings";

pub struct Slice;

impl Strategy for Slice {
    fn default(&self, slice: &mut Value) {
        TYPED.default(slice);
    }

    fn validate(&self, context: &Context<'_>, slice: &Value, causes: &mut Causes) {
        TYPED.validate(context, slice, causes);
        validate_spec(&slice["spec"], context.feature_gates.dra_fractional_capacity_range, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        TYPED.validate_update(context, new, old, causes);
    }

    fn warnings(&self, slice: &Value) -> Vec<String> {
        let driver = text(slice, "/spec/driver");
        let is_upper = driver.chars().any(char::is_uppercase);
        let warning = || {
            format!("spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters")
        };
        is_upper.then(warning).into_iter().collect()
    }

    /// Devices that take resources of their node need a kubelet that knows them: the admission plugin NodeDeclaredFeatures.
    fn authorize(&self, context: &Context<'_>, slice: &Value) -> ApiResult {
        let spec = &slice["spec"];
        let taking =
            items(spec, "devices").iter().filter(|device| !is_empty(&device["nodeAllocatableResources"]));
        for device in taking.filter(|_| context.feature_gates.dra_node_allocatable_resources) {
            let of_nodes = if spec["perDeviceNodeSelection"] == true { device } else { spec };
            let forbidden = |why: &str| Status::forbidden(&RESOURCE_SLICES, name(slice), why);
            let nodes = match (text(of_nodes, "/nodeName"), &of_nodes["nodeSelector"], &of_nodes["allNodes"])
            {
                ("", Value::Null, Value::Bool(true)) => context.lookup.list(&NODES, None),
                ("", Value::Null, _) => {
                    return Err(forbidden(&format!(
                        "device {} in ResourceSlice has NodeAllocatableResources but does not map to any nodes",
                        device["name"]
                    )));
                }
                ("", selector, _) => selected_nodes(context, selector),
                (node, ..) => match context.lookup.get(&NODES, "", node) {
                    Some(node) => vec![node],
                    None => {
                        return Err(forbidden(&format!(
                            "node {node:?} not found for device {}",
                            device["name"]
                        )));
                    }
                },
            };
            for node in nodes.iter().map(|node| node.parsed()) {
                if !items(&node["status"], "declaredFeatures").iter().any(|feature| feature == FEATURE) {
                    let why = format!("node {} does not support {FEATURE} feature", node["metadata"]["name"]);
                    return Err(forbidden(&why));
                }
            }
        }
        Ok(())
    }
}

const FEATURE: &str = "DRANodeAllocatableResources";

fn selected_nodes(context: &Context<'_>, selector: &Value) -> Vec<Arc<Object>> {
    let Ok(selector) = from_value::<NodeSelector>(selector) else { return Vec::new() };
    let rule = NodeSelectorRule::parse(&selector, String::new(), Dialect::V1, false);
    let mut nodes = context.lookup.list(&NODES, None);
    nodes.retain(|node| {
        let labels = from_value(&node.parsed()["metadata"]["labels"]).unwrap_or_default();
        rule.matches(node.facts.name(), &labels)
    });
    nodes
}

/// A slice stays with its driver, its pool and its node: a node writes only its own.
static TYPED: Typed = Typed {
    enums: &[("DeviceTaint", "effect", super::EFFECTS)],
    not_required: &[("Device", "name"), ("DeviceTaint", "key"), ("CapacityRequestPolicyRange", "min")],
    immutable: &["/spec/driver", "/spec/pool/name", "/spec/nodeName"],
    complete: set_taint_times,
    ..Typed::new(&RESOURCE_SLICES)
};

fn set_taint_times(slice: &mut Value) {
    for device in slice.get_mut("spec").map_or(&mut [][..], |spec| items_mut(spec, "devices")) {
        for taint in items_mut(device, "taints").iter_mut().filter_map(Value::as_object_mut) {
            default(taint, "timeAdded", now());
        }
    }
}

fn validate_spec(spec: &Value, is_fractional: bool, causes: &mut Causes) {
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
    let has_lists = |device: &Value| {
        let attributes = device["attributes"].as_object().into_iter().flatten();
        attributes.into_iter().any(|(_, attribute)| {
            ["bools", "ints", "strings", "versions"].iter().any(|list| !is_empty(&attribute[list]))
        })
    };
    let has_features = |device: &Value| {
        !is_empty(&device["taints"]) || !is_empty(&device["consumesCounters"]) || has_lists(device)
    };
    let max = match items(spec, "devices").iter().any(has_features) {
        true => MAX_DEVICES_WITH_FEATURES,
        false => MAX_DEVICES,
    };
    let devices = limited_set(&spec["devices"], "spec.devices", max, |device| &device["name"], causes);
    for (i, device) in devices.iter().enumerate() {
        validate_device(
            device,
            spec["perDeviceNodeSelection"] == true,
            is_fractional,
            &format!("spec.devices[{i}]"),
            causes,
        );
    }
    let path = "spec.sharedCounters";
    let sets = limited_set(&spec["sharedCounters"], path, MAX_COUNTER_SETS, |set| &set["name"], causes);
    for (i, set) in sets.iter().enumerate() {
        let path = format!("{path}[{i}]");
        validate_name(&format!("{path}.name"), &set["name"], syntax::short_name, causes);
        validate_counters(&set["counters"], &format!("{path}.counters"), causes);
    }
    validate_partition_type(spec, causes);
    validate_skipped(&spec["skipNodeOperations"], causes);
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

fn validate_device(
    device: &Value,
    selects_nodes: bool,
    is_fractional: bool,
    path: &str,
    causes: &mut Causes,
) {
    let name = text(device, "/name");
    causes.problems(&format!("{path}.name"), &name.into(), syntax::dns_label(name));
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
            let capacity = quantity(&capacity["value"]).unwrap_or_default();
            validate_policy(policy, capacity, is_fractional, &field, causes);
        } else {
            causes.forbidden(&field, "allowMultipleAllocations must be true");
        }
    }
    let field = format!("{path}.taints");
    for (i, taint) in limited(&device["taints"], &field, MAX_TAINTS, causes).iter().enumerate() {
        let field = format!("{field}[{i}]");
        let key = text(taint, "/key");
        causes.problems(&format!("{field}.key"), &key.into(), syntax::label_key(key));
        validate_name(&format!("{field}.value"), &taint["value"], syntax::label_value, causes);
    }
    let field = format!("{path}.consumesCounters");
    let consumed =
        limited_set(&device["consumesCounters"], &field, MAX_CONSUMED_SETS, |set| &set["counterSet"], causes);
    for (i, set) in consumed.iter().enumerate() {
        let field = format!("{field}[{i}]");
        validate_name(&format!("{field}.counterSet"), &set["counterSet"], syntax::dns_label, causes);
        validate_counters(&set["counters"], &format!("{field}.counters"), causes);
        let (groups, field) = (&set["compatibilityGroups"], format!("{field}.compatibilityGroups"));
        for (i, group) in
            limited_set(groups, &field, MAX_COMPATIBILITY_GROUPS, |group| group, causes).iter().enumerate()
        {
            let problems = syntax::dns_label(group.as_str().unwrap_or_default());
            causes.problems(&format!("{field}[{i}]"), group, problems);
        }
    }
    let field = format!("{path}.{NODE_MAPPINGS}");
    for (name, mapping) in device[NODE_MAPPINGS].as_object().into_iter().flatten() {
        validate_old_mapping(name, mapping, &field, causes);
    }
    let field = format!("{path}.nodeAllocatableResources");
    for (name, taken) in device["nodeAllocatableResources"].as_object().into_iter().flatten() {
        validate_taken(name, taken, &device["capacity"], &field, causes);
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

/// What a device takes of a resource of the node, as until 1.36.
fn validate_old_mapping(resource: &str, mapping: &Value, path: &str, causes: &mut Causes) {
    if !is_node_allocatable(resource) && resource != "ephemeral-storage" {
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

/// What a device takes of a resource of the node: for its capacity or each device, and besides that.
fn validate_taken(resource: &str, taken: &Value, capacity: &Value, path: &str, causes: &mut Causes) {
    let path = format!("{path}[{resource}]");
    if !is_node_allocatable(resource) {
        causes.invalid(&path, &resource.into(), "must be a node allocatable resource name");
    }
    let (mapping, overhead) = (&taken["mapping"], &taken["overhead"]);
    if mapping.is_null() && overhead.is_null() {
        causes.required(&path, "at least one of mapping or overhead must be set");
    }
    if !mapping.is_null() {
        let path = format!("{path}.mapping");
        let (key, of_capacity) = (&mapping["capacityKey"], &mapping["capacityMultiplier"]);
        let field = |name: &str| format!("{path}.{name}");
        match key.as_str() {
            None if !of_capacity.is_null() => {
                causes.required(
                    &field("capacityKey"),
                    "capacityKey is required when capacityMultiplier is set",
                );
            }
            None => {}
            Some("") => causes.invalid(&field("capacityKey"), key, "capacityKey must not be an empty string"),
            Some(name) if capacity.get(name).is_none() => {
                causes.push(
                    CauseType::FieldValueNotFound,
                    &field("capacityKey"),
                    format!("Not found: {key}"),
                );
            }
            Some(_) => {}
        }
        if !key.is_null() && of_capacity.is_null() {
            let why = "capacityMultiplier is required when capacityKey is set";
            causes.required(&field("capacityMultiplier"), why);
        }
        for name in ["capacityMultiplier", "deviceMultiplier"] {
            if quantity(&mapping[name]).is_some_and(|amount| amount <= Quantity::ZERO) {
                causes.invalid(&field(name), &mapping[name], "must be positive");
            }
        }
        causes.one_member(&path, mapping, &["capacityKey", "deviceMultiplier"]);
    }
    if !overhead.is_null() {
        validate_overhead(&format!("{path}.overhead"), overhead, causes);
    }
}

/// The devices that use up counters have the attribute that names the type of a partition.
fn validate_partition_type(spec: &Value, causes: &mut Causes) {
    let (name, path) = (&spec["partitionTypeAttribute"], "spec.partitionTypeAttribute");
    let Some(text) = name.as_str() else { return };
    let uses_counters = |device: &&Value| !is_empty(&device["consumesCounters"]);
    if !items(spec, "devices").iter().any(|device| uses_counters(&device)) {
        causes.invalid(path, name, "may only be set on a slice which declares devices that consume counters");
    }
    let mut problems = Causes::default();
    validate_fully_qualified_name(path, name, &mut problems);
    if !problems.0.is_empty() {
        return causes.append(problems);
    }
    let own = spec["driver"].as_str().and_then(|driver| text.strip_prefix(driver)?.strip_prefix('/'));
    for (i, device) in items(spec, "devices").iter().enumerate().filter(|(_, device)| uses_counters(device)) {
        let attributes = &device["attributes"];
        let found = attributes.get(text).or_else(|| attributes.get(own?));
        let path = format!("spec.devices[{i}].attributes[{text}]");
        match found {
            None => {
                let why = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set";
                causes.required(&path, why);
            }
            Some(attribute) if attribute["string"].is_null() => {
                let why = "must be a string value because `partitionTypeAttribute` names this attribute";
                causes.invalid(&path, attribute, why);
            }
            Some(_) => {}
        }
    }
}

/// What kubelets need not ask the driver for.
fn validate_skipped(skipped: &Value, causes: &mut Causes) {
    const ALL: [&str; 3] = ["*", PREPARE, UNPREPARE];
    const PREPARE: &str = "NodePrepareResources";
    const UNPREPARE: &str = "NodeUnprepareResources";
    let path = "spec.skipNodeOperations";
    let operations = skipped.as_array().map_or(&[][..], Vec::as_slice);
    let has = |name: &str| operations.iter().any(|operation| operation == name);
    if has(PREPARE) && !has(UNPREPARE) && !has("*") {
        let why = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped";
        causes.invalid(path, skipped, why);
    }
    for i in repeated(operations) {
        causes.duplicate(&format!("{path}[{i}]"), &operations[i]);
    }
    for (i, operation) in operations.iter().enumerate() {
        causes.one_of(&format!("{path}[{i}]"), operation, &ALL);
    }
}

/// An attribute has one value, or one list of values.
fn validate_attribute(attribute: &Value, path: &str, causes: &mut Causes) {
    let values =
        ["string", "version"].into_iter().map(|field| (field, format!("{path}.{field}"), &attribute[field]));
    let lists = ["strings", "versions"].into_iter().flat_map(|list| {
        let items = items(attribute, list).iter().enumerate();
        items.map(move |(i, item)| (list, format!("{path}.{list}[{i}]"), item))
    });
    for list in ["bools", "ints", "strings", "versions"].iter().filter(|list| attribute[**list] == json!([]))
    {
        causes.invalid(&format!("{path}.{list}"), &json!([]), "must not be empty if specified");
    }
    for (field, path, value) in values.chain(lists) {
        let Some(text) = value.as_str() else { continue };
        if field.starts_with("version") && !is_semantic_version(text) {
            causes.invalid(&path, value, "must be a string compatible with semver.org spec 2.0.0");
        }
        if text.len() > MAX_ATTRIBUTE {
            causes.too_long(&path, MAX_ATTRIBUTE);
        }
    }
    let members = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
    causes.one_member(path, attribute, &members);
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
fn validate_policy(policy: &Value, capacity: Quantity, is_fractional: bool, path: &str, causes: &mut Causes) {
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
            let path = format!("{path}.validRange");
            validate_range(range, [default, capacity], is_fractional, &path, causes);
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

fn validate_range(
    range: &Value,
    [default, capacity]: [Quantity; 2],
    is_fractional: bool,
    path: &str,
    causes: &mut Causes,
) {
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
    let all = [Some(default), Some(min), max, Some(step)];
    let in_millis = is_fractional && all.into_iter().flatten().any(|amount| !amount.is_whole());
    if !in_millis {
        let named = [("default", Some(default)), ("min", Some(min)), ("max", max)];
        let negative = named.map(|(field, amount)| (field, amount.filter(|amount| amount.is_negative())));
        for (field, amount) in negative.into_iter().filter_map(|(field, amount)| Some((field, amount?))) {
            check(true, field, amount, "must be greater than or equal to 0".to_owned());
        }
        if negative.iter().any(|(_, amount)| amount.is_some()) {
            return;
        }
    }
    // Else in whole units; a step of less than one counts as one.
    let count = |amount: Quantity| if in_millis { amount.millis() } else { amount.units() };
    for value in [Some(default), max].into_iter().flatten() {
        let is_multiple = (count(value) - count(min)) % count(step) == 0;
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
