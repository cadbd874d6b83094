//! Errors of the expansion.

use berth_api::read::{DecodeError, SourceLocation};

#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// A field of the wrong type, or with a value that the API server would reject.
    #[error("{place}: {error}")]
    Field {
        /// Where the workload was read.
        place: SourceLocation,
        error: Box<DecodeError>,
    },
    #[error(
        "{place}: {object}: {n_pods} more pods with a template of {template_kib} KiB exceed the limit of {max_pods} pods in \
         all (large templates count several times): lower {path}, or raise --max-pods"
    )]
    TooManyPods {
        /// Where the workload was read.
        place: SourceLocation,
        object: String,
        path: &'static str,
        n_pods: i64,
        template_kib: usize,
        max_pods: i64,
    },
}
