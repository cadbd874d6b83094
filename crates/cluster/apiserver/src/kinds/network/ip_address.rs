//! IPAddresses and ServiceCIDRs.

use berth_schema::resource::{IP_ADDRESSES, SERVICE_CIDRS};

use crate::kinds::prelude::*;

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

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("ParentRef", "What the address belongs to.", |row| {
        let of = |part: &str| row.text(&format!("/spec/parentRef/{part}"));
        let resource = match (of("resource"), of("group")) {
            (resource, Some(group)) => Some(format!("{}.{group}", resource.unwrap_or_default())),
            (resource, None) => resource.map(str::to_owned),
        };
        let rest = [of("namespace"), of("name")].map(|part| part.map(str::to_owned));
        [resource].into_iter().chain(rest).flatten().collect::<Vec<_>>().join("/").into()
    }),
];

pub const CIDR_COLUMNS: &[Column] = &[
    NAME,
    Column::text("CIDRs", "Ranges of addresses.", |row| row.texts("/spec/cidrs").join(",").into()),
    AGE,
];
