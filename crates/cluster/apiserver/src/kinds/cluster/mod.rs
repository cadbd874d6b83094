//! Nodes, namespaces and the state of the cluster.

mod component_status;
mod event;
mod lease;
mod namespace;
mod node;
mod runtime_class;

use berth_schema::resource::*;

use crate::kinds::kind::{NoRules, kinds};

kinds! {
    COMPONENT_STATUSES: NoRules, component_status::COLUMNS;
    EVENTS: event::Event, event::COLUMNS;
    NEW_EVENTS: NoRules, event::COLUMNS;
    NAMESPACES: namespace::Namespace, namespace::COLUMNS;
    NODES: node::Node, node::COLUMNS;
    LEASES: NoRules, lease::COLUMNS;
    RUNTIME_CLASSES: runtime_class::STRATEGY, runtime_class::COLUMNS;
}
