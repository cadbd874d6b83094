//! Nodes.

use berth_api::syntax;

use crate::kinds::prelude::*;

pub struct Node;

/// The resources that are counted in whole units, as extended resources.
const COUNTED: [&str; 1] = ["pods"];

impl Strategy for Node {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_taints(items(&value["spec"], "taints"), causes);
        validate_status(&value["status"], causes);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        validate_status(&new["status"], causes);
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
    let addresses = items(status, "addresses");
    for i in repeated(addresses) {
        causes.duplicate(&format!("status.addresses[{i}]"), &addresses[i]);
    }
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
        causes.duplicate_because(&format!("metadata.taints[{i}]"), &taints[i], message);
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
