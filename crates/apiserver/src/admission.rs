//! Admission inside the process: what a webhook would be asked, without a webhook.
//!
//! It is asked after the webhooks of the same phase, in the same form, so that the same decisions can be put behind
//! either.

use futures::future::BoxFuture;
use serde_json::Value;

pub use crate::webhook::Operation;

/// When admission is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before an object is validated. It may be changed.
    Mutating,
    /// When nothing changes the object any more.
    Validating,
}

/// Decides about requests, in the process of the server.
pub trait Admission: Send + Sync {
    /// Whether requests of this kind are to be reviewed at all. It is asked for every write and must cost next to
    /// nothing; a request that no plugin wants is not even described.
    ///
    /// By default: pods and nodes themselves, and bindings and evictions of pods.
    fn concerns(&self, phase: Phase, operation: Operation, resource: &str, subresource: &str) -> bool {
        let _ = (phase, operation);
        matches!((resource, subresource), ("pods" | "nodes", "") | ("pods", "binding" | "eviction"))
    }

    /// Answers an `AdmissionRequest` of `admission.k8s.io/v1` with an `AdmissionResponse`: `uid`, `allowed`, `status`,
    /// `warnings`, and in the mutating phase a JSON patch in base64 (`patch`, with `patchType`), which is ignored in the
    /// validating phase.
    ///
    /// A denial becomes `PLURAL "NAME" is forbidden: MESSAGE` (403), as those of kube-apiserver's own plugins; with
    /// another `status.code` its message is passed on as it is. An answer that is malformed refuses the request.
    fn review(&self, phase: Phase, request: Value) -> BoxFuture<'_, Value>;
}
