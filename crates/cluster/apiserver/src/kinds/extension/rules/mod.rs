//! `x-kubernetes-validations`: rules in the schemas of custom resources, with the messages of kube-apiserver.
//!
//! [`Rules`] are compiled once for a schema, and evaluated for each object and the one before it.

mod check;
mod declared;
mod rule;
mod validate;

pub use check::Rules;
pub use validate::validate_rules;
