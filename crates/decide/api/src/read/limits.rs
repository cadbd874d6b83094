//! Limits of what is read.

/// Limit of the nesting depth of objects.
pub const MAX_DEPTH: usize = 128;

/// Limit of the text of one object. An API server takes 3 MiB.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Limit of the documents of a YAML text without an object.
pub const MAX_EMPTY_DOCUMENTS: usize = 100_000;

/// Limit of a YAML text, which is held as a whole.
pub const MAX_YAML_BYTES: usize = 256 << 20;
