//! Endpoints and EndpointSlices.

use berth_schema::resource::{ENDPOINT_SLICES, ENDPOINTS};

use crate::kinds::prelude::*;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

pub static STRATEGY: Typed = Typed {
    defaults: &[("EndpointPort", "protocol", r#""TCP""#)],
    enums: &[("EndpointPort", "protocol", PROTOCOLS)],
    ..Typed::new(&ENDPOINTS)
};

pub static SLICE_STRATEGY: Typed = Typed {
    defaults: &[("EndpointPort", "name", r#""""#), ("EndpointPort", "protocol", r#""TCP""#)],
    enums: &[
        ("EndpointPort", "protocol", PROTOCOLS),
        ("EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
    ],
    not_empty: &[("Endpoint", "addresses")],
    immutable: &["/addressType"],
    ..Typed::new(&ENDPOINT_SLICES)
};

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
