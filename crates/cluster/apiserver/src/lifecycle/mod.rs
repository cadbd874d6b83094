//! Creating, changing and deleting objects: the rules for all kinds, and those of the kind at their place between them.
//!
//! Creation: [`prepare_create`] sets system fields and defaults, [`admit_create`] refuses the object or completes what
//! admission decides. An update: [`prepare_update`] restores immutable fields, [`admit_update`] refuses.

mod create;
mod delete;
mod limit_range;
mod node_restriction;
#[cfg(test)]
mod tests;
mod update;

pub use create::{
    admit_create, complete_written, default_object, dependents, prepare_create, refuse_claimed,
};
pub use delete::{admit_delete, begin_deletion, is_finished};
pub use node_restriction::admit as restrict_node;
pub use update::{admit_update, prepare_update};
