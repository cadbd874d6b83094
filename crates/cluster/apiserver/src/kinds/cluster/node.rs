//! Nodes.

use std::cmp::Ordering;
use std::collections::HashSet;

use berth_api::syntax;

use crate::kinds::prelude::*;
use crate::strategy::field_rules::AddressRange;

pub struct Node;

/// The resources that are counted in whole units, as extended resources.
const COUNTED: [&str; 1] = ["pods"];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const MAX_FEATURE_NAME: usize = 253;

/// Further pods cannot be preempted for resizes of more classes.
const MAX_RESIZE_CLASSES: usize = 20;

impl Strategy for Node {
    fn default(&self, value: &mut Value) {
        if let Some(status) = value.get_mut("status").and_then(Value::as_object_mut)
            && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
            && status.get("allocatable").is_none_or(is_empty)
        {
            status.insert("allocatable".to_owned(), capacity);
        }
        if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
            agree_with_first(spec, ["podCIDR", "podCIDRs"], |range| range, |range| range);
        }
    }

    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        let is_marked = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
        if context.taints_new_nodes
            && let Some(taints) = object(value, "spec").and_then(|spec| list(spec, "taints"))
            && !taints.iter().any(is_marked)
        {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if matches!(context.subresource, "" | "status") {
            self.default(new);
        }
        // Kubelets took their configuration from there.
        for part in ["status", "spec"] {
            let field = if part == "status" { "config" } else { "configSource" };
            if old[part][field].is_null() {
                new[part].as_object_mut().map(|fields| fields.remove(field));
            }
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        validate_taints(items(spec, "taints"), causes);
        validate_status(&value["status"], causes);
        validate_ranges(items(spec, "podCIDRs"), causes);
        let path = "spec.podPreemptionPolicy.disableResizePreemption";
        let classes = &spec["podPreemptionPolicy"]["disableResizePreemption"];
        for (i, class) in
            limited_set(classes, path, MAX_RESIZE_CLASSES, |class| class, causes).iter().enumerate()
        {
            let problems = syntax::label_key(class.as_str().unwrap_or_default());
            causes.problems(&format!("{path}[{i}]"), class, problems);
        }
    }

    /// The provider and the ranges of addresses of a node are set once.
    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let (new, old) = (&new["spec"], &old["spec"]);
        let (before, ranges) = (items(old, "podCIDRs"), items(new, "podCIDRs"));
        let n_changed = match before.len() == ranges.len() {
            true => before.iter().zip(ranges).filter(|(before, now)| before != now).count(),
            false => before.len().min(1),
        };
        for _ in 0..n_changed {
            causes
                .forbidden("spec.podCIDRs", r#"node updates may not change podCIDR except from "" to valid"#);
        }
        causes.set_once("spec.providerID", &new["providerID"], &old["providerID"]);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        validate_status(&new["status"], causes);
        let addresses = items(&new["status"], "addresses");
        for i in repeated(addresses) {
            causes.duplicate(&format!("status.addresses[{i}]"), &addresses[i]);
        }
    }
}

fn validate_ranges(ranges: &[Value], causes: &mut Causes) {
    let mut families = HashSet::new();
    for (i, range) in ranges.iter().enumerate() {
        match AddressRange::parse(range.as_str().unwrap_or_default()) {
            Some(range) => drop(families.insert(range.address.is_ipv4())),
            None => causes.invalid(
                &format!("spec.podCIDRs[{i}]"),
                range,
                "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ),
        }
    }
    if ranges.len() > 2 || ranges.len() == 2 && families.len() < 2 {
        causes.invalid(
            "spec.podCIDRs",
            &ranges.into(),
            "may specify no more than one CIDR for each IP family",
        );
    }
}

/// Features that a node declares: sorted and different, such as `MyFeature/mySubFeature`.
fn validate_features(features: &[Value], causes: &mut Causes) {
    let path = "status.declaredFeatures";
    let name = |feature: &Value| feature.as_str().unwrap_or_default().to_owned();
    for (i, feature) in features.iter().enumerate() {
        let text = name(feature);
        let is_valid = text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.split('/').all(|part| {
                part.starts_with(|c: char| c.is_ascii_alphabetic())
                    && part.bytes().all(|b| b.is_ascii_alphanumeric())
            });
        if text.len() > MAX_FEATURE_NAME {
            let why =
                format!("invalid feature name {text:?}: must be no more than {MAX_FEATURE_NAME} characters");
            causes.invalid(&format!("{path}[{i}]"), feature, &why);
        } else if !is_valid {
            let why = format!(
                "invalid feature name {text:?}: must start with an UpperCamelCase segment, with subsequent segments separated \
                 by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            causes.invalid(&format!("{path}[{i}]"), feature, &why);
        }
        let Some(next) = features.get(i + 1) else { continue };
        let field = format!("{path}[{}]", i + 1);
        match text.cmp(&name(next)) {
            Ordering::Less => {}
            Ordering::Equal => causes.duplicate(&field, next),
            Ordering::Greater => causes.invalid(&field, next, "list must be sorted alphabetically"),
        }
    }
}

fn validate_status(status: &Value, causes: &mut Causes) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in status[list].as_object().into_iter().flatten() {
            let Some(quantity) = quantity(amount) else { continue };
            let field = || format!("status.{list}.{name}");
            if quantity.is_negative() {
                causes.invalid(&field(), amount, "must be greater than or equal to 0");
            }
            let is_counted =
                COUNTED.contains(&name.as_str()) || name.contains('/') && !name.contains("kubernetes.io/");
            if is_counted && !quantity.is_whole() {
                causes.invalid(&field(), amount, "must be an integer");
            }
        }
    }
    validate_features(items(status, "declaredFeatures"), causes);
}

fn validate_taints(taints: &[Value], causes: &mut Causes) {
    for (i, taint) in taints.iter().enumerate() {
        let field = |name: &str| format!("metadata.taints[{i}].{name}");
        causes.problems(&field("key"), &taint["key"], syntax::label_key(text(taint, "/key")));
        let problems = syntax::label_value(text(taint, "/value"));
        if !problems.is_empty() {
            causes.invalid(&field("value"), &taint["value"], &problems.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match text(taint, "/effect") {
            "" => causes.required(&field("effect"), ""),
            effect if effects.contains(&effect) => {}
            _ => causes.not_supported(&field("effect"), &taint["effect"], &effects),
        }
    }
    for i in repeated(taints.iter().map(|taint| (text(taint, "/key"), text(taint, "/effect")))) {
        let message = "taints must be unique by key and effect pair";
        let [key, value, effect, time] =
            ["key", "value", "effect", "timeAdded"].map(|field| taints[i][field].clone());
        let value = if value.is_null() { json!("") } else { value };
        let shown = json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": time});
        causes.duplicate_because(&format!("metadata.taints[{i}]"), &shown, message);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "Whether the node is ready and takes pods.", |row| status(row).into()),
    Column::text("Roles", "Roles from the node's labels.", |row| roles(row).into()),
    AGE,
    Column::field("Version", "Version of the kubelet.", "/status/nodeInfo/kubeletVersion"),
    Column::text("Internal-IP", "Address within the cluster.", |row| address(row, "InternalIP")).wide(),
    Column::text("External-IP", "Address outside of the cluster.", |row| address(row, "ExternalIP")).wide(),
    Column::field("OS-Image", "Operating system, as the node reports it.", "/status/nodeInfo/osImage")
        .or(UNKNOWN)
        .wide(),
    Column::field("Kernel-Version", "Version of the kernel.", "/status/nodeInfo/kernelVersion")
        .or(UNKNOWN)
        .wide(),
    Column::field(
        "Container-Runtime",
        "The container runtime and its version.",
        "/status/nodeInfo/containerRuntimeVersion",
    )
    .or(UNKNOWN)
    .wide(),
];

fn status(row: &Row<'_>) -> String {
    let ready = match row.condition("Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = row.at("/spec/unschedulable") == Some(&Value::Bool(true));
    if unschedulable { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(row: &Row<'_>) -> String {
    let labels = row.at("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { NONE.to_owned() } else { roles.join(",") }
}

fn address(row: &Row<'_>, kind: &str) -> Value {
    let found = row.list("/status/addresses").iter().find(|address| address["type"] == kind);
    found.and_then(|address| address["address"].as_str()).unwrap_or(NONE).into()
}
