//! Endpoints and EndpointSlices.

use crate::strategy::typed::Typed;
use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::{NONE, some_of};
use berth_schema::resource::{ENDPOINT_SLICES, ENDPOINTS};

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

pub static COLUMNS: Printer =
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

pub static SLICE_COLUMNS: Printer = Printer::new(
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
