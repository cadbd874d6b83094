//! Creating, changing and deleting objects: the rules for all kinds, and those of the kind at their place between them.
//!
//! [`prepare`] sets what the server decides, [`admit`] refuses the object or completes what admission decides. An object without an old one
//! is created.

use berth_schema::resource::Resource;
use serde_json::Value;

use crate::request::ApiResult;
use crate::strategy::Context;

mod create;
mod delete;
mod limit_range;
mod node_restriction;
#[cfg(test)]
mod tests;
mod update;

pub use create::{complete_written, default_object, dependents, refuse_claimed};
pub use delete::{admit_delete, begin_deletion, is_finished};
pub use node_restriction::admit as restrict_node;

/// Sets system fields and defaults in a new object, restores fixed fields in a changed one, and completes it. Once more after a webhook
/// has changed it.
pub fn prepare(
    context: &Context<'_>,
    resource: &Resource,
    new: &mut Value,
    old: Option<&Value>,
) -> ApiResult {
    match old {
        None => create::prepare(context, resource, new),
        Some(old) => update::prepare(context, resource, new, old),
    }
}

/// Refuses a new object or a change, or warns about it. A new object is completed by what admission decides.
pub fn admit(
    context: &Context<'_>,
    resource: &Resource,
    new: &mut Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
) -> ApiResult {
    match old {
        None => create::admit(context, resource, new, warnings),
        Some(old) => update::admit(context, resource, new, old, warnings),
    }
}
