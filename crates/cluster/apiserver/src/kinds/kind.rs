//! A row of the table of kinds.

use berth_schema::resource::Resource;

use crate::strategy::Strategy;
use crate::table::columns::{Column, Conditions};

pub struct Kind {
    /// Group, version, names, verbs and type.
    pub resource: &'static Resource,
    /// What creating, changing and deleting an object means.
    pub strategy: &'static dyn Strategy,
    pub columns: &'static [Column],
    /// The `conditions` of the rows of its tables.
    pub conditions: Conditions,
    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    pub has_generation: bool,
    /// Whether a new object comes with its status.
    pub is_created_with_status: bool,
    /// Whether dependents stay when a deletion names no propagation policy.
    pub orphans_dependents: bool,
    /// Whether an update must name the version that it changes.
    pub needs_version: bool,
}

impl Kind {
    /// A kind that is an exception to no rule.
    pub const fn new(
        resource: &'static Resource,
        strategy: &'static dyn Strategy,
        columns: &'static [Column],
    ) -> Kind {
        Kind {
            resource,
            strategy,
            columns,
            conditions: |_| None,
            has_generation: false,
            is_created_with_status: false,
            orphans_dependents: false,
            needs_version: false,
        }
    }
}

/// A kind without specific rules.
pub struct NoRules;

impl Strategy for NoRules {}

/// The rows of a folder. `RESOURCE: STRATEGY, COLUMNS;`, where fields of [`Kind`] may follow.
macro_rules! kinds {
    ($($resource:ident: $strategy:expr, $columns:expr $(, $field:ident: $value:expr)*;)*) => {
        /// The kinds of this folder.
        pub static KINDS: &[$crate::kinds::kind::Kind] = &[$($crate::kinds::kind::Kind {
            $($field: $value,)*
            ..$crate::kinds::kind::Kind::new(&$resource, &$strategy, $columns)
        }),*];
    };
}
pub(crate) use kinds;
