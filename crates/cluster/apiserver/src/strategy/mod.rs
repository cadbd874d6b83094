//! What kinds of objects have to define, and the rules that they share.
//!
//! [`Strategy`] is implemented by each kind (in `kinds`), [`Lookup`] is all that rules see of other objects and of
//! permissions.

pub mod conditions;
pub mod expression;
#[cfg(test)]
pub mod fake_cluster;
pub mod field_rules;
pub mod fields;
pub mod gated_fields;
mod interface;
pub mod metadata;
pub mod proposal_fields;
pub mod template;
mod topology_labels;
pub mod typed;
pub mod volume_claim;
pub mod webhook_check;

pub use interface::{Context, Lookup, Strategy};
pub use metadata::{add_labels, generate_name, now};
pub use topology_labels::add_topology_labels;
