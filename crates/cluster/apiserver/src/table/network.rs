//! Services' endpoints, ingresses and network policies.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{NONE, Row};

/// At most three items of a list, and how many more there are.
pub(super) fn some_of(mut items: Vec<String>, absent: &str) -> Value {
    let rest = items.len().saturating_sub(3);
    items.truncate(3);
    match rest {
        0 if items.is_empty() => absent.into(),
        0 => items.join(",").into(),
        _ => format!("{} + {rest} more...", items.join(",")).into(),
    }
}

fn texts<'v>(list: &'v [Value], field: &str) -> Vec<&'v str> {
    list.iter().filter_map(|item| item[field].as_str()).filter(|text| !text.is_empty()).collect()
}

pub(super) static ENDPOINTS: Printer =
    Printer::new(&[NAME, Column::text("Endpoints", "Addresses and ports."), AGE], |row| {
        let subsets = row.list("/subsets").iter();
        let pairs = subsets.flat_map(|subset| {
            let ports = subset["ports"].as_array().into_iter().flatten();
            let addresses = subset["addresses"].as_array().into_iter().flatten();
            let ports: Vec<i64> = ports.filter_map(|port| port["port"].as_i64()).collect();
            addresses.filter_map(|address| address["ip"].as_str()).flat_map(move |ip| {
                let with = |port: &i64| format!("{ip}:{port}");
                if ports.is_empty() { vec![ip.to_owned()] } else { ports.iter().map(with).collect() }
            })
        });
        vec![row.name(), some_of(pairs.collect(), NONE), row.age()]
    });

pub(super) static ENDPOINT_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("AddressType", "Kind of the addresses."),
        Column::text("Ports", "Ports of the endpoints."),
        Column::text("Endpoints", "Addresses of the endpoints."),
        AGE,
    ],
    |row| {
        let ports = row.list("/ports").iter().filter_map(|port| port["port"].as_i64());
        let endpoints = row.list("/endpoints").iter();
        let addresses = endpoints.filter_map(|e| e["addresses"][0].as_str()).map(str::to_owned);
        vec![
            row.name(),
            row.text_or("/addressType", ""),
            some_of(ports.map(|port| port.to_string()).collect(), "<unset>"),
            some_of(addresses.collect(), "<unset>"),
            row.age(),
        ]
    },
);

pub(super) static INGRESS: Printer = Printer::new(
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

pub(super) static INGRESS_CLASS: Printer = Printer::new(
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

pub(super) static NETWORK_POLICY: Printer =
    Printer::new(&[NAME, Column::text("Pod-Selector", "The pods it is about."), AGE], |row| {
        vec![row.name(), row.selector("/spec/podSelector"), row.age()]
    });

pub(super) static SERVICE_CIDR: Printer =
    Printer::new(&[NAME, Column::text("CIDRs", "Ranges of addresses."), AGE], |row| {
        let cidrs: Vec<_> = row.list("/spec/cidrs").iter().filter_map(Value::as_str).collect();
        vec![row.name(), cidrs.join(",").into(), row.age()]
    });

pub(super) static IP_ADDRESS: Printer =
    Printer::new(&[NAME, Column::text("ParentRef", "What the address belongs to.")], |row: &Row<'_>| {
        let parts =
            ["resource", "namespace", "name"].map(|part| row.text(&format!("/spec/parentRef/{part}")));
        let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
        if let Some(group) = row.text("/spec/parentRef/group") {
            text =
                format!("{}.{group}{}", parts[0].unwrap_or_default(), &text[parts[0].map_or(0, str::len)..]);
        }
        vec![row.name(), text.into()]
    });
