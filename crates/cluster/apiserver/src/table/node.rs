//! Nodes.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{NONE, Row, UNKNOWN};

pub(super) static NODE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether the node is ready and takes pods."),
        Column::text("Roles", "Roles from the node's labels."),
        AGE,
        Column::text("Version", "Version of the kubelet."),
        Column::text("Internal-IP", "Address within the cluster.").wide(),
        Column::text("External-IP", "Address outside of the cluster.").wide(),
        Column::text("OS-Image", "Operating system, as the node reports it.").wide(),
        Column::text("Kernel-Version", "Version of the kernel.").wide(),
        Column::text("Container-Runtime", "The container runtime and its version.").wide(),
    ],
    |row| {
        let info = |field: &str, absent| row.text_or(&format!("/status/nodeInfo/{field}"), absent);
        vec![
            row.name(),
            status(row).into(),
            roles(row).into(),
            row.age(),
            info("kubeletVersion", ""),
            address(row, "InternalIP"),
            address(row, "ExternalIP"),
            info("osImage", UNKNOWN),
            info("kernelVersion", UNKNOWN),
            info("containerRuntimeVersion", UNKNOWN),
        ]
    },
);

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
