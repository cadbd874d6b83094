//! Admission inside the embedded API server.

use std::sync::Arc;

use berth_admission::policy::Action;
use berth_admission::{AdmissionController, AdmissionRequest, Answer, Endpoint, Policy, ReviewError};
use berth_api::read::pod_template_pointer;
use berth_api::resource::{PLACEMENT_POLICIES, RESOURCES};
use berth_apiserver::admission::{Operation, Phase};
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

const PLACEMENT_GROUP: &str = PLACEMENT_POLICIES.group;

/// Admission inside the embedded API server. The server itself validates the annotation, merges `matchLabelKeys` and restricts
/// nodes; this type does the rest of the policy.
pub struct InProcess(Arc<AdmissionController>);

impl InProcess {
    /// Admission with a policy, which follows the placement policies and, if need be, the state of the cluster.
    pub fn new(policy: Policy) -> InProcess {
        let policy = Policy {
            validate_annotation: false,
            merge_match_label_keys: false,
            node_restriction: false,
            ..policy
        };
        InProcess(AdmissionController::mirrored(policy))
    }

    pub fn admission(&self) -> Arc<AdmissionController> {
        self.0.clone()
    }
}

impl berth_apiserver::Admission for InProcess {
    fn concerns(&self, phase: Phase, operation: Operation, resource: &str, subresource: &str) -> bool {
        let policy = self.0.policy();
        if phase == Phase::Mutating {
            return (operation, resource, subresource) == (Operation::Create, "pods", "");
        }
        if operation == Operation::Delete {
            return false;
        }
        match (resource, subresource) {
            ("pods" | "bindings" | "placementpolicies" | "clusterplacementpolicies", "") => true,
            ("pods", "status" | "binding") => true,
            ("nodes", "") => policy.rule_limits.action != Action::Allow,
            (_, "") if policy.workload_warnings || policy.trusted_users.is_some() => {
                RESOURCES.iter().any(|r| r.plural == resource && pod_template_pointer(r.kind).is_some())
            }
            _ => false,
        }
    }

    fn register_metrics(&self, registry: &mut Registry) {
        if self.0.policy().placement_quotas {
            self.0.quota_metrics().add_to(registry);
        }
    }

    fn review(&self, phase: Phase, request: Value) -> BoxFuture<'_, Value> {
        async move {
            let uid = request["uid"].as_str().unwrap_or_default().to_owned();
            let failed = |code: u16, reason: &str, message: String| {
                let status = json!({"code": code, "reason": reason, "message": message});
                json!({"uid": uid, "allowed": false, "status": status})
            };
            let request = match AdmissionRequest::from_value(request) {
                Ok(request) => request,
                Err(error) => return failed(500, "InternalError", error.to_string()),
            };
            let endpoints = match (phase, request.resource.group.as_str()) {
                (Phase::Mutating, _) => &[Endpoint::MutatePods][..],
                (_, PLACEMENT_GROUP) => &[Endpoint::ValidatePolicies],
                _ if request.is_binding() => &[Endpoint::ValidatePods, Endpoint::ValidateBindings],
                _ if request.resource.resource == "nodes" => &[Endpoint::ValidateNodes],
                _ => &[Endpoint::ValidatePods],
            };
            let mut warnings = Vec::new();
            let mut answer = Answer::allowed();
            for endpoint in endpoints {
                answer = match self.0.review(*endpoint, &request).await {
                    Ok(answer) => answer,
                    Err(error @ ReviewError::BadRequest(_)) => {
                        return failed(400, "BadRequest", error.to_string());
                    }
                    Err(error) => return failed(503, "ServiceUnavailable", error.to_string()),
                };
                warnings.append(&mut answer.warnings);
                if !answer.is_allowed() {
                    break;
                }
            }
            Answer { warnings, ..answer }.plugin_response(&uid)
        }
        .boxed()
    }
}
