//! Authorization: whether a user may do something.

mod authorizer;
mod builtin;
mod grants;
mod held;
mod node;
mod policy_rule;
mod role;
mod rule_set;
mod rules;
#[cfg(test)]
mod tests;

pub use authorizer::Authorizer;
pub use grants::{GROUP as RBAC_GROUP, role_of};
pub use held::HeldPermissions;
pub use policy_rule::{PolicyRule, quoted};
