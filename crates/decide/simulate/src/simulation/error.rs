//! Why a simulation cannot be built.

use berth_api::read::SourceLocation;
use berth_control::expand::ExpandError;

/// Why a simulation cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A workload cannot be expanded to its pods.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// Objects that the API server would reject: all of them, one line for each error.
    #[error("{}", InvalidObject::all(.0))]
    Invalid(Vec<InvalidObject>),
}

/// An object that the API server would reject.
#[derive(Clone, Debug)]
pub struct InvalidObject {
    /// Kind, namespace and name.
    pub object: String,
    /// Where it was read.
    pub source: Option<SourceLocation>,
    /// The validation errors, with the path of the field.
    pub errors: Vec<String>,
}

impl InvalidObject {
    fn all(objects: &[InvalidObject]) -> String {
        let lines = objects.iter().flat_map(|o| {
            let place = o.source.as_ref().map(|s| format!("{s}: ")).unwrap_or_default();
            o.errors.iter().map(move |e| format!("{place}{}: {e}", o.object))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
