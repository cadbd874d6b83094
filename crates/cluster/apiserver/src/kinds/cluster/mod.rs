//! Nodes, namespaces and the state of the cluster.

mod component_status;
mod event;
mod namespace;
mod node;
mod runtime_class;

use berth_schema::resource::*;

use crate::kinds::kind::{NoRules, kinds};
use crate::kinds::prelude::*;

/// Leases: which component leads.
static LEASE: Typed = Typed {
    check: |lease, causes| {
        let seconds = &lease["spec"]["leaseDurationSeconds"];
        if seconds.as_i64().is_some_and(|seconds| seconds <= 0) {
            causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
        }
        causes.not_negative("spec.leaseTransitions", &lease["spec"]["leaseTransitions"]);
    },
    ..Typed::new(&LEASES)
};

kinds! {
    COMPONENT_STATUSES: NoRules, component_status::COLUMNS;
    EVENTS: event::Event, event::COLUMNS;
    NEW_EVENTS: NoRules, event::COLUMNS;
    NAMESPACES: namespace::Namespace, namespace::COLUMNS;
    NODES: node::Node, node::COLUMNS, is_created_with_status: true;
    LEASES: LEASE, &[NAME, Column::field("Holder", "Who holds the lease.", "/spec/holderIdentity"), AGE], needs_version: true;
    RUNTIME_CLASSES: runtime_class::RUNTIME_CLASS, runtime_class::COLUMNS, needs_version: true;
}
