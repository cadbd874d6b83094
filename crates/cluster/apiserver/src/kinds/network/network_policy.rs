//! NetworkPolicies.

use berth_api::syntax;
use berth_schema::resource::NETWORK_POLICIES;

use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{Check, Each, Fields as Object};
use crate::strategy::field_rules::*;

const PORTS: &[Rule] = &[Each(&[Object(&[
    ("protocol", &[Rule::OneOf(&["TCP", "UDP", "SCTP"])]),
    ("", &[Check(validate_port)]),
])])];
const PEERS: &[Rule] = &[Each(&[Object(&[
    ("podSelector", &[LABEL_SELECTOR]),
    ("namespaceSelector", &[LABEL_SELECTOR]),
    ("ipBlock", &[Check(validate_block)]),
    ("", &[Check(validate_peer)]),
])])];

pub static STRATEGY: Typed = Typed {
    defaults: &[("NetworkPolicyPort", "protocol", r#""TCP""#)],
    spec: &[
        ("podSelector", &[LABEL_SELECTOR]),
        ("ingress", &[Each(&[Object(&[("ports", PORTS), ("from", PEERS)])])]),
        ("egress", &[Each(&[Object(&[("ports", PORTS), ("to", PEERS)])])]),
        ("policyTypes", &[Check(validate_types)]),
    ],
    complete: |value| {
        let has_egress = !is_empty(&value["spec"]["egress"]);
        if is_empty(&value["spec"]["policyTypes"])
            && let Some(spec) = object(value, "spec")
        {
            let types = ["Ingress", "Egress"].into_iter().take(1 + usize::from(has_egress));
            spec.insert("policyTypes".to_owned(), types.collect());
        }
    },
    ..Typed::new(&NETWORK_POLICIES)
};

fn validate_types(types: &Value, path: &str, causes: &mut Causes) {
    let list = types.as_array().map_or(&[][..], Vec::as_slice);
    if list.len() > 2 {
        return causes.invalid(path, types, "may not specify more than two policyTypes");
    }
    for (i, ty) in list.iter().enumerate() {
        causes.one_of(&format!("{path}[{i}]"), ty, &["Ingress", "Egress"]);
    }
}

fn validate_port(value: &Value, path: &str, causes: &mut Causes) {
    let (port, end) = (&value["port"], &value["endPort"]);
    let end_path = format!("{path}.endPort");
    match (port, end.as_i64()) {
        (Value::Null, Some(_)) => {
            causes.invalid(&end_path, end, "may not be specified when `port` is not specified")
        }
        (Value::String(_), Some(_)) => {
            causes.invalid(&end_path, end, "may not be specified when `port` is non-numeric")
        }
        _ => {}
    }
    if !port.is_null() {
        crate::strategy::field_rules::port(port, &format!("{path}.port"), causes);
    }
    if let (Some(first), Some(last)) = (port.as_i64(), end.as_i64()) {
        if last < first {
            causes.invalid(&end_path, end, "must be greater than or equal to `port`");
        }
        causes.problems(&end_path, end, syntax::port_number(last.try_into().unwrap_or(0)));
    }
}

fn validate_block(block: &Value, path: &str, causes: &mut Causes) {
    let (cidr, cidr_path) = (text(block, "/cidr"), format!("{path}.cidr"));
    if cidr.is_empty() {
        return causes.required(&cidr_path, "");
    }
    causes.problems(&cidr_path, &cidr.into(), address_range(cidr));
    let Some(range) = AddressRange::parse(cidr) else { return };
    for (i, except) in items(block, "except").iter().enumerate() {
        let (path, text) = (format!("{path}.except[{i}]"), text(except, ""));
        causes.problems(&path, &text.into(), address_range(text));
        if AddressRange::parse(text).is_some_and(|except| !except.is_within(range)) {
            causes.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

fn validate_peer(peer: &Value, path: &str, causes: &mut Causes) {
    let n_set =
        ["podSelector", "namespaceSelector", "ipBlock"].iter().filter(|field| !peer[field].is_null()).count();
    if n_set == 0 {
        causes.required(path, "must specify a peer");
    } else if n_set > 1 && !peer["ipBlock"].is_null() {
        causes.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Pod-Selector", "The pods it is about.", |row| row.selector("/spec/podSelector")),
    AGE,
];
