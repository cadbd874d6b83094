//! One object of an input, and why it could not be read.

use serde_json::Value;

use berth_api::read::fields::ConfigErrors;
use berth_api::read::{DecodeError, ReadError, SourceLocation};

/// The key of documents without a kind in [`Inventory::skipped`](super::Inventory::skipped).
pub const NOT_AN_OBJECT: &str = "(no kind)";

/// Why an input could not be read into an inventory.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The text is not Kubernetes objects.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A field has the wrong type.
    #[error("{place}: {error}")]
    Decode {
        /// Where the object was read.
        place: SourceLocation,
        error: Box<DecodeError>,
    },
    #[error("{}", .errors.0.iter().map(|e| format!("{place}: {object}: {e}")).collect::<Vec<_>>().join("\n"))]
    Policy {
        /// Where the object was read.
        place: SourceLocation,
        object: String,
        errors: ConfigErrors,
    },
    #[error("{place}: {kind}: metadata.name is missing: add it")]
    Unnamed {
        /// Where the object was read.
        place: SourceLocation,
        kind: &'static str,
    },
    #[error("{second}: {object} is also in {first}: remove or rename one of them")]
    Duplicate {
        object: String,
        /// Where it was read first.
        first: Box<SourceLocation>,
        /// Where it was read again.
        second: SourceLocation,
    },
}

/// An object with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<T> {
    /// The typed object; the namespace of namespaced objects is defaulted.
    pub object: T,
    /// The whole object, with [`Inventory::keep_raw`](super::Inventory::keep_raw).
    pub raw: Option<Value>,
    /// Where it was read.
    pub source: SourceLocation,
    /// Index in the input, over all kinds.
    pub order: usize,
}
