//! Endpoints and EndpointSlices.

use std::net::IpAddr;

use berth_api::syntax;
use berth_schema::resource::{ENDPOINT_SLICES, ENDPOINTS};

use crate::kinds::prelude::*;
use crate::strategy::field_rules::ip_address;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub static STRATEGY: Typed = Typed {
    defaults: &[("EndpointPort", "protocol", r#""TCP""#)],
    fills_empty_texts: true,
    spec: BY_CHECK,
    check: |endpoints, causes| {
        for (i, subset) in items(endpoints, "subsets").iter().enumerate() {
            let path = format!("subsets[{i}]");
            if is_empty(&subset["addresses"]) && is_empty(&subset["notReadyAddresses"]) {
                causes.required(&path, "must specify `addresses` or `notReadyAddresses`");
            }
            for field in ["addresses", "notReadyAddresses"] {
                for (i, address) in items(subset, field).iter().enumerate() {
                    let path = format!("{path}.{field}[{i}]");
                    let ip = &address["ip"];
                    let (path_of_ip, shown) = (format!("{path}.ip"), text(ip, ""));
                    causes.problems(&path_of_ip, &shown.into(), ip_address(shown));
                    validate_names(address, &path, causes);
                    causes.problems(&path_of_ip, &shown.into(), endpoint_address(shown));
                }
            }
            let ports = items(subset, "ports");
            for (i, port) in ports.iter().enumerate() {
                let path = format!("{path}.ports[{i}]");
                if ports.len() > 1 {
                    causes.not_empty(&format!("{path}.name"), &port["name"]);
                }
                let number = port["port"].as_i64().and_then(|port| port.try_into().ok()).unwrap_or(0);
                causes.problems(&format!("{path}.port"), &number.into(), syntax::port_number(number));
                validate_port_names(port, &path, causes);
            }
        }
    },
    ..Typed::new(&ENDPOINTS)
};

pub static SLICE_STRATEGY: Typed = Typed {
    defaults: &[("EndpointPort", "name", r#""""#), ("EndpointPort", "protocol", r#""TCP""#)],
    spec: BY_CHECK,
    immutable: &["/addressType"],
    check: validate_slice,
    ..Typed::new(&ENDPOINT_SLICES)
};

fn validate_slice(slice: &Value, causes: &mut Causes) {
    causes.not_empty("addressType", &slice["addressType"]);
    if !is_empty(&slice["addressType"]) {
        causes.one_of("addressType", &slice["addressType"], &["FQDN", "IPv4", "IPv6"]);
    }
    let ports = limited(&slice["ports"], "ports", 20_000, causes);
    for (i, port) in ports.iter().enumerate() {
        validate_port_names(port, &format!("ports[{i}]"), causes);
    }
    for i in repeated(ports.iter().map(|port| &port["name"])) {
        causes.duplicate(&format!("ports[{i}].name"), &ports[i]["name"]);
    }
    let kind = text(slice, "/addressType");
    for (i, endpoint) in limited(&slice["endpoints"], "endpoints", 1000, causes).iter().enumerate() {
        let path = format!("endpoints[{i}]");
        let addresses = limited(&endpoint["addresses"], &format!("{path}.addresses"), 100, causes);
        if addresses.is_empty() {
            causes.required(&format!("{path}.addresses"), "");
        }
        for (j, address) in addresses.iter().enumerate() {
            let field = format!("{path}.addresses[{j}]");
            let text = text(address, "");
            match text.parse::<IpAddr>() {
                _ if kind == "FQDN" => causes.problems(&field, address, full_name(text)),
                _ if !["IPv4", "IPv6"].contains(&kind) => {}
                Err(_) => causes.problems(&field, address, ip_address(text)),
                Ok(ip) => {
                    if ip.is_ipv4() != (kind == "IPv4") {
                        let why = format!("must be an {kind} address");
                        causes.invalid(&format!("{path}.addresses"), address, &why);
                    }
                    causes.problems(&field, address, endpoint_address(text));
                }
            }
        }
        validate_names(endpoint, &path, causes);
        let hints = [
            ("forZones", syntax::label_value as fn(&str) -> Vec<String>),
            ("forNodes", syntax::dns_subdomain),
        ];
        for (field, problems) in hints {
            let path = format!("{path}.hints.{field}");
            let names = limited(&endpoint["hints"][field], &path, 8, causes);
            for i in repeated(names.iter().map(|hint| &hint["name"])) {
                causes.duplicate(&format!("{path}[{i}].name"), &names[i]["name"]);
            }
            for (i, hint) in names.iter().enumerate() {
                causes.problems(&format!("{path}[{i}].name"), &hint["name"], problems(text(hint, "/name")));
            }
        }
    }
}

/// The names of the host and the node of an endpoint.
fn validate_names(endpoint: &Value, path: &str, causes: &mut Causes) {
    let host = text(endpoint, "/hostname");
    if !host.is_empty() {
        causes.problems(&format!("{path}.hostname"), &host.into(), syntax::dns_label(host));
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        causes.problems(&format!("{path}.nodeName"), &node.into(), syntax::dns_subdomain(node));
    }
}

fn validate_port_names(port: &Value, path: &str, causes: &mut Causes) {
    let name = text(port, "/name");
    if !name.is_empty() {
        causes.problems(&format!("{path}.name"), &name.into(), syntax::dns_label(name));
    }
    causes.one_of(&format!("{path}.protocol"), &port["protocol"], PROTOCOLS);
    if let Some(protocol) = port["appProtocol"].as_str() {
        causes.problems(&format!("{path}.appProtocol"), &protocol.into(), syntax::label_key(protocol));
    }
}

fn endpoint_address(address: &str) -> Vec<String> {
    let why = match address.parse::<IpAddr>() {
        Err(_) => "must be a valid IP address".to_owned(),
        Ok(ip) if ip.is_unspecified() => format!("may not be unspecified ({address})"),
        Ok(ip) if ip.is_loopback() => "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned(),
        Ok(IpAddr::V4(ip)) if ip.is_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        Ok(IpAddr::V6(ip)) if ip.is_unicast_link_local() => {
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
        }
        Ok(_) => return Vec::new(),
    };
    vec![why]
}

fn full_name(name: &str) -> Vec<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut problems = syntax::dns_subdomain(name);
    if problems.is_empty() && !name.contains('.') {
        problems.push("should be a domain with at least two segments separated by dots".to_owned());
    }
    problems
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Endpoints", "Addresses and ports.", |row| {
        let pairs = row.list("/subsets").iter().flat_map(|subset| {
            let ports: Vec<i64> =
                items(subset, "ports").iter().filter_map(|port| port["port"].as_i64()).collect();
            items(subset, "addresses").iter().filter_map(|address| address["ip"].as_str()).flat_map(
                move |ip| {
                    let with = |port: &i64| format!("{ip}:{port}");
                    if ports.is_empty() { vec![ip.to_owned()] } else { ports.iter().map(with).collect() }
                },
            )
        });
        some_of(pairs.collect(), NONE)
    }),
    AGE,
];

pub const SLICE_COLUMNS: &[Column] = &[
    NAME,
    Column::field("AddressType", "Kind of the addresses.", "/addressType"),
    Column::text("Ports", "Ports of the endpoints.", |row| {
        let ports = row.list("/ports").iter().filter_map(|port| port["port"].as_i64());
        some_of(ports.map(|port| port.to_string()).collect(), UNSET)
    }),
    Column::text("Endpoints", "Addresses of the endpoints.", |row| {
        let addresses = row.list("/endpoints").iter().filter_map(|e| e["addresses"][0].as_str());
        some_of(addresses.map(str::to_owned).collect(), UNSET)
    }),
    AGE,
];
