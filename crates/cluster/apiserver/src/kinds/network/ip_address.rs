//! IPAddresses and ServiceCIDRs.

use berth_api::syntax;
use berth_schema::resource::IP_ADDRESSES;

use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{Fields as Object, Name};
use crate::strategy::field_rules::*;

pub static STRATEGY: Typed = Typed {
    spec: &[(
        "parentRef",
        &[
            Rule::Present,
            Object(&[
                ("group", &[Name(syntax::dns_subdomain)]),
                ("resource", &[REQUIRED, Name(syntax::path_segment)]),
                ("name", &[REQUIRED, Name(syntax::path_segment)]),
                ("namespace", &[Name(syntax::path_segment)]),
            ]),
        ],
    )],
    immutable: &["/spec/parentRef"],
    name_problems: |name| {
        let mut problems = ip_address(name);
        if let Ok(address) = name.parse::<std::net::IpAddr>()
            && address.to_string() != name
            && problems.is_empty()
        {
            problems.push(format!("must be in canonical form ({:?})", address.to_string()));
        }
        problems
    },
    ..Typed::new(&IP_ADDRESSES)
};

pub struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let (path, ranges) = ("spec.cidrs", items(&value["spec"], "cidrs"));
        match ranges.len() {
            0 => return causes.required(path, "at least one CIDR required"),
            1 | 2 => {}
            _ => return causes.invalid(path, &value["spec"], "may only hold up to 2 values"),
        }
        for (i, range) in ranges.iter().enumerate() {
            let text = text(range, "");
            causes.problems(&format!("{path}[{i}]"), &text.into(), address_range(text));
        }
        let parsed: Vec<_> = ranges.iter().filter_map(|range| AddressRange::parse(text(range, ""))).collect();
        if let [first, second] = &parsed[..]
            && first.address.is_ipv4() == second.address.is_ipv4()
        {
            let why =
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            causes.invalid(path, &value["spec"]["cidrs"], why);
        }
    }

    fn validated_if_new(&self) -> &'static [&'static str] {
        &["spec.cidrs"]
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let (ranges, before) = (items(&new["spec"], "cidrs"), items(&old["spec"], "cidrs"));
        let is_second_added = (before.len(), ranges.len()) == (1, 2);
        if !is_second_added && ranges.len() != before.len() {
            return causes.immutable("spec.cidrs", &new["spec"]["cidrs"]);
        }
        for (i, (range, before)) in ranges.iter().zip(before).enumerate() {
            causes.unchanged(&format!("spec.cidrs[{i}]"), range, before);
        }
        if is_second_added {
            self.validate(context, new, causes);
        }
    }
}

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
