//! IPAddresses and ServiceCIDRs.

use crate::strategy::typed::Typed;
use berth_schema::resource::{IP_ADDRESSES, SERVICE_CIDRS};
use serde_json::Value;

use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::Row;

pub static STRATEGY: Typed = Typed {
    immutable: &["/spec"],
    name_problems: |name| {
        let is_canonical = name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_string() == name);
        let problem = "must be a valid IP address in canonical form";
        if is_canonical { Vec::new() } else { vec![problem.to_owned()] }
    },
    ..Typed::new(&IP_ADDRESSES)
};

pub static CIDR_STRATEGY: Typed =
    Typed { not_empty: &[("ServiceCIDRSpec", "cidrs")], ..Typed::new(&SERVICE_CIDRS) };

pub static COLUMNS: Printer =
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

pub static CIDR_COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("CIDRs", "Ranges of addresses."), AGE], |row| {
        let cidrs: Vec<_> = row.list("/spec/cidrs").iter().filter_map(Value::as_str).collect();
        vec![row.name(), cidrs.join(",").into(), row.age()]
    });
