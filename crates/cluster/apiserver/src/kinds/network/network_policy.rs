//! NetworkPolicies.

use berth_schema::resource::NETWORK_POLICIES;

use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed {
    defaults: &[("NetworkPolicyPort", "protocol", r#""TCP""#)],
    enums: &[
        ("NetworkPolicyPort", "protocol", &["SCTP", "TCP", "UDP"]),
        ("NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    ],
    complete: |value| {
        if is_empty(&value["spec"]["policyTypes"]) && value["spec"].is_object() {
            let has_egress = !is_empty(&value["spec"]["egress"]);
            let types = ["Ingress", "Egress"].into_iter().take(1 + usize::from(has_egress));
            value["spec"]["policyTypes"] = types.collect();
        }
    },
    ..Typed::new(&NETWORK_POLICIES)
};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Pod-Selector", "The pods it is about.", |row| row.selector("/spec/podSelector")),
    AGE,
];
