//! Ingresses and IngressClasses.

use berth_schema::resource::{INGRESS_CLASSES, INGRESSES};

use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed {
    enums: &[("HTTPIngressPath", "pathType", &["Exact", "ImplementationSpecific", "Prefix"])],
    not_empty: &[("HTTPIngressRuleValue", "paths")],
    check: |value, causes| {
        let spec = &value["spec"];
        if is_empty(&spec["rules"]) && is_empty(&spec["defaultBackend"]) {
            causes.invalid("spec", spec, "either `defaultBackend` or `rules` must be specified");
        }
    },
    ..Typed::new(&INGRESSES)
};

pub static CLASS_STRATEGY: Typed = Typed {
    defaults: &[("IngressClassParametersReference", "scope", r#""Cluster""#)],
    enums: &[("IngressClassParametersReference", "scope", &["Cluster", "Namespace"])],
    immutable: &["/spec/controller"],
    ..Typed::new(&INGRESS_CLASSES)
};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::field("Class", "The ingress class.", "/spec/ingressClassName").or(NONE),
    Column::text("Hosts", "Hosts of the rules.", |row| {
        let hosts = row.list("/spec/rules").iter().filter_map(|rule| rule["host"].as_str());
        some_of(hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect(), "*")
    }),
    Column::text("Address", "Addresses of the load balancer.", |row| row.balancers().join(",").into()),
    Column::text("Ports", "Ports it listens on.", |row| {
        if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" }.into()
    }),
    AGE,
];

pub const CLASS_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Controller", "The controller that serves it.", "/spec/controller"),
    Column::text("Parameters", "The object with its parameters.", |row| {
        let Some(parameters) = row.at("/spec/parameters") else { return NONE.into() };
        let text = |field: &str| parameters[field].as_str().unwrap_or_default();
        let dot = if text("apiGroup").is_empty() { "" } else { "." };
        format!("{}{dot}{}/{}", text("kind"), text("apiGroup"), text("name")).into()
    }),
    AGE,
];
