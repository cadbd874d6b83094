//! Why a workload's pods cannot be made.

use crate::read::{DecodeError, SourceLocation};

/// Why a workload's pods cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// The pod template has a field of the wrong type.
    #[error("{place}: {error}")]
    Decode {
        /// Where the workload was read.
        place: SourceLocation,
        /// The field.
        error: DecodeError,
    },
    /// A field that the API server would reject.
    #[error("{place}: {object}: {path}: {message}")]
    Invalid {
        /// Where the workload was read.
        place: SourceLocation,
        /// Kind, namespace and name.
        object: String,
        /// Path of the field.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// More pods than [`super::MAX_PODS`].
    #[error(
        "{place}: {object}: {n_pods} more pods would make more than {} in all: lower {path}",
        super::MAX_PODS
    )]
    TooManyPods {
        /// Where the workload was read.
        place: SourceLocation,
        /// Kind, namespace and name.
        object: String,
        /// Path of the field that says how many.
        path: &'static str,
        /// How many pods it is short of.
        n_pods: i64,
    },
}
