//! In-process admission: a plugin that receives the same reviews as a webhook.
//!
//! The API server calls it after the webhooks of the same phase, in the same format. The same code can serve
//! both.

use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use serde_json::Value;

pub use berth_rules::admission::Operation;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before an object is validated. It may be changed.
    Mutating,
    /// After the last change of the object.
    Validating,
}

/// Decides about requests, in the process of the server.
pub trait Admission: Send + Sync {
    /// Whether the plugin reviews requests of this kind. The API server calls this for every write, so it must be
    /// cheap. It builds no review for other requests.
    ///
    /// A change of status is reviewed only if it changes labels or annotations.
    ///
    /// By default: pods and nodes themselves, the status, bindings and evictions of pods.
    fn concerns(&self, phase: Phase, operation: Operation, resource: &str, subresource: &str) -> bool {
        let _ = (phase, operation);
        let is_subresource = resource == "pods" && matches!(subresource, "status" | "binding" | "eviction");
        is_subresource || subresource.is_empty() && matches!(resource, "pods" | "nodes" | "bindings")
    }

    fn register_metrics(&self, registry: &mut Registry) {
        let _ = registry;
    }

    /// Answers an `AdmissionRequest` of `admission.k8s.io/v1` with an `AdmissionResponse`: `uid`, `allowed`, `status`,
    /// `warnings`, and in the mutating phase a JSON patch in base64 (`patch`, with `patchType`), which is ignored in the
    /// validating phase.
    ///
    /// A denial becomes `PLURAL "NAME" is forbidden: MESSAGE` (403), as those of kube-apiserver's own plugins; with
    /// another `status.code` its message is passed on as it is. An answer that is malformed refuses the request.
    fn review(&self, phase: Phase, request: Value) -> BoxFuture<'_, Value>;
}
