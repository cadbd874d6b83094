//! Ingresses and IngressClasses.

use crate::strategy::fields::is_empty;
use crate::strategy::typed::Typed;
use berth_schema::resource::{INGRESS_CLASSES, INGRESSES};
use serde_json::Value;

use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::{NONE, some_of};

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

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Class", "The ingress class."),
        Column::text("Hosts", "Hosts of the rules."),
        Column::text("Address", "Addresses of the load balancer."),
        Column::text("Ports", "Ports it listens on."),
        AGE,
    ],
    |row| {
        let hosts = texts(row.list("/spec/rules"), "host").into_iter().map(str::to_owned);
        let balancers = row.list("/status/loadBalancer/ingress").iter();
        let addresses = balancers.filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()));
        let ports = if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" };
        vec![
            row.name(),
            row.text_or("/spec/ingressClassName", NONE),
            some_of(hosts.collect(), "*"),
            addresses.collect::<Vec<_>>().join(",").into(),
            ports.into(),
            row.age(),
        ]
    },
);

fn texts<'v>(list: &'v [Value], field: &str) -> Vec<&'v str> {
    list.iter().filter_map(|item| item[field].as_str()).filter(|text| !text.is_empty()).collect()
}

pub static CLASS_COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", "The controller that serves it."),
        Column::text("Parameters", "The object with its parameters."),
        AGE,
    ],
    |row| {
        let parameters = row.at("/spec/parameters").map_or(NONE.to_owned(), |parameters| {
            let text = |field: &str| parameters[field].as_str().unwrap_or_default();
            let group =
                if text("apiGroup").is_empty() { String::new() } else { format!(".{}", text("apiGroup")) };
            format!("{}{group}/{}", text("kind"), text("name"))
        });
        vec![row.name(), row.text_or("/spec/controller", ""), parameters.into(), row.age()]
    },
);
