//! Errors of the expansion.

use crate::read::{DecodeError, SourceLocation};

/// Why a workload cannot be expanded.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// A field of the wrong type, or with a value that the API server would reject.
    #[error("{place}: {error}")]
    Field {
        /// Where the workload was read.
        place: SourceLocation,
        /// The field.
        error: Box<DecodeError>,
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
        /// Path of the field with the number.
        path: &'static str,
        /// The number of missing pods.
        n_pods: i64,
    },
}
