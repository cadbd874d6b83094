//! Ingresses and IngressClasses.

use berth_api::syntax;
use berth_schema::resource::{INGRESS_CLASSES, INGRESSES};

use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{Check, Each, Enum, Fields as Object, Given, Name, Text};
use crate::strategy::field_rules::*;

const SPEC: Fields = &[
    ("defaultBackend", &[Check(validate_backend)]),
    (
        "rules",
        &[Each(&[Object(&[
            ("host", &[Name(host)]),
            ("http", &[Object(&[("paths", &[REQUIRED, Each(&[Check(validate_path)])])])]),
        ])])],
    ),
    (
        "tls",
        &[Each(&[Object(&[
            ("hosts", &[Each(&[Text(host_name)])]),
            ("secretName", &[Name(syntax::dns_subdomain)]),
        ])])],
    ),
    ("ingressClassName", &[Given(syntax::dns_subdomain)]),
];

pub static STRATEGY: Typed = Typed {
    spec: SPEC,
    check: |value, causes| {
        let spec = &value["spec"];
        if is_empty(&spec["rules"]) && spec["defaultBackend"].is_null() {
            causes.invalid("spec", &spec["rules"], "either `defaultBackend` or `rules` must be specified");
        }
    },
    status: |status, causes| {
        for (i, ingress) in items(&status["loadBalancer"], "ingress").iter().enumerate() {
            let path = format!("status.loadBalancer.ingress[{i}]");
            apply(ingress, &path, &[("ip", &[Name(ip_address)]), ("hostname", &[Name(dns_name)])], causes);
        }
    },
    ..Typed::new(&INGRESSES)
};

const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
     lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for \
     validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// The name of a host, or `*.` and one.
fn host_name(host: &str) -> Vec<String> {
    if !host.contains('*') {
        return syntax::dns_subdomain(host);
    }
    let mut problems = syntax::dns_subdomain(host);
    let is_valid = host.strip_prefix("*.").is_some_and(|name| syntax::dns_subdomain(name).is_empty());
    problems.pop();
    if !is_valid {
        problems.push(WILDCARD.to_owned());
    }
    problems
}

fn host(host: &str) -> Vec<String> {
    let mut problems = host_name(host);
    if host.parse::<std::net::IpAddr>().is_ok() {
        problems.insert(0, NO_ADDRESS.to_owned());
    }
    problems
}

const NO_ADDRESS: &str = "must be a DNS name, not an IP address";

fn dns_name(name: &str) -> Vec<String> {
    let mut problems = syntax::dns_subdomain(name);
    if name.parse::<std::net::IpAddr>().is_ok() {
        problems.push(NO_ADDRESS.to_owned());
    }
    problems
}

fn validate_path(value: &Value, path: &str, causes: &mut Causes) {
    let kind = &value["pathType"];
    if kind.is_null() {
        return causes.required(&format!("{path}.pathType"), "pathType must be specified");
    }
    let (field, http_path) = (format!("{path}.path"), text(value, "/path"));
    let is_absolute = http_path.starts_with('/');
    match text(kind, "") {
        "Exact" | "Prefix" => {
            let shown = http_path.into();
            if !is_absolute {
                causes.invalid(&field, &shown, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if http_path.contains(part) {
                    causes.invalid(&field, &shown, &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if http_path.ends_with(end) {
                    causes.invalid(&field, &shown, &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !http_path.is_empty() && !is_absolute => {
            causes.invalid(&field, &http_path.into(), "must be an absolute path");
        }
        "ImplementationSpecific" => {}
        _ => {
            let all = ["Exact", "ImplementationSpecific", "Prefix"];
            causes.not_supported(&format!("{path}.pathType"), kind, &all);
        }
    }
    validate_backend(&value["backend"], &format!("{path}.backend"), causes);
}

fn validate_backend(backend: &Value, path: &str, causes: &mut Causes) {
    let (resource, service) = (&backend["resource"], &backend["service"]);
    let mut invalid = |why: &str| causes.invalid(path, &"".into(), why);
    match (resource.is_null(), service.is_null()) {
        (false, false) => return invalid("cannot set both resource and service backends"),
        (true, true) => return invalid("resource or service backend is required"),
        (false, true) => return apply(resource, &format!("{path}.resource"), REFERENCE, causes),
        (true, false) => {}
    }
    let (port, service_path) = (&service["port"], format!("{path}.service"));
    apply(service, &service_path, &[("name", &[REQUIRED, Name(syntax::dns_label)])], causes);
    let (name, number) = (text(port, "/name"), port["number"].as_i64().unwrap_or(0));
    match (name.is_empty(), number) {
        (true, 0) => causes.required(path, "port name or number is required"),
        (false, 0) => {
            causes.problems(&format!("{service_path}.port.name"), &name.into(), syntax::port_name(name));
        }
        (true, _) => crate::strategy::field_rules::port(
            &port["number"],
            &format!("{service_path}.port.number"),
            causes,
        ),
        (false, _) => causes.invalid(path, &"".into(), "cannot set both port name & port number"),
    }
}

const REFERENCE: Fields = &[
    ("apiGroup", &[Given(syntax::dns_subdomain)]),
    ("kind", &[REQUIRED, Name(syntax::path_segment)]),
    ("name", &[REQUIRED, Name(syntax::path_segment)]),
];

pub static CLASS_STRATEGY: Typed = Typed {
    defaults: &[("IngressClassParametersReference", "scope", r#""Cluster""#)],
    spec: &[
        ("controller", &[REQUIRED, Check(validate_controller)]),
        (
            "parameters",
            &[
                Object(REFERENCE),
                Object(&[("scope", &[Enum(&["Cluster", "Namespace"])])]),
                Check(validate_scope),
            ],
        ),
    ],
    immutable: &["/spec/controller"],
    is_fixed_first: true,
    ..Typed::new(&INGRESS_CLASSES)
};

const HTTP_PATH: &str = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";

/// A path after a domain, such as `example.com/ingress`.
fn validate_controller(controller: &Value, field: &str, causes: &mut Causes) {
    let name = text(controller, "");
    if name.len() > 250 {
        causes.too_long(field, 250);
    }
    match name.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            causes.problems(field, &domain.into(), syntax::dns_subdomain(domain));
            if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                causes.invalid(field, &path.into(), HTTP_PATH);
            }
        }
        _ if name.is_empty() => {}
        _ => causes.invalid(field, controller, r#"must be a domain-prefixed path (such as "acme.io/foo")"#),
    }
}

fn validate_scope(parameters: &Value, path: &str, causes: &mut Causes) {
    let (path, namespace) = (format!("{path}.namespace"), &parameters["namespace"]);
    match (text(parameters, "/scope"), namespace.as_str()) {
        ("Namespace", None) => causes.required(&path, "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", Some(name)) => causes.problems(&path, namespace, syntax::dns_label(name)),
        ("Cluster", Some(_)) => causes.forbidden(&path, "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}

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
