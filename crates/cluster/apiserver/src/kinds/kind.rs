//! A row of the table of kinds.

use berth_schema::resource::Resource;

use crate::strategy::Strategy;
use crate::table::columns::Printer;

/// A kind of the API.
pub struct Kind {
    /// Group, version, names, verbs and type.
    pub resource: &'static Resource,
    /// What creating, changing and deleting an object means.
    pub strategy: &'static dyn Strategy,
    /// The columns of its tables.
    pub columns: &'static Printer,
    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    pub has_generation: bool,
}

impl Kind {
    /// A kind without generation.
    pub const fn new(
        resource: &'static Resource,
        strategy: &'static dyn Strategy,
        columns: &'static Printer,
    ) -> Kind {
        Kind { resource, strategy, columns, has_generation: false }
    }

    /// The kind with generation.
    pub const fn with_generation(self) -> Kind {
        Kind { has_generation: true, ..self }
    }
}

/// A kind without specific rules.
pub struct NoRules;

impl Strategy for NoRules {}

/// The rows of a folder. `RESOURCE: STRATEGY, COLUMNS;`, where `with_generation` may follow.
macro_rules! kinds {
    ($($resource:ident: $strategy:expr, $columns:expr $(, $rule:ident)*;)*) => {
        /// The kinds of this folder.
        pub static KINDS: &[$crate::kinds::kind::Kind] =
            &[$($crate::kinds::kind::Kind::new(&$resource, &$strategy, &$columns)$(.$rule())*),*];
    };
}
pub(crate) use kinds;
