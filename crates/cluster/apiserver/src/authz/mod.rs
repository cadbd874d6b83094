//! Authorization: whether a user may do something.

mod authorizer;
mod builtin;
mod node;
mod rbac;
mod rules;

pub use authorizer::Authorizer;
pub use builtin::is_allowed;
pub use rbac::{GROUP as RBAC_GROUP, Grants, PolicyRule, quoted};
