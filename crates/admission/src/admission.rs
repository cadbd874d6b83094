//! Decisions together with the state of the cluster, for many requests at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::rules::PodRules;
use berth_engine::Settings;
use tokio::sync::watch;

use crate::answer::{Answer, Denial, ReviewError};
use crate::policy::{BindingGuard, Policy};
use crate::quota::{self, Ledgers, QuotaMetrics, may_be_charged};
use crate::request::AdmissionRequest;
use crate::review::{Endpoint, Rule, pod_with_new_rules, review};
use crate::shared_holds::SharedHolds;
use crate::state::{Nothing, State, StateAccess};

/// Decides by one policy and, if it has one, the state of one cluster.
///
/// Most requests need no state and take no lock. The others hold it for as long as one decision takes.
pub struct Admission {
    policy: Policy,
    shared: Option<Shared>,
    ledgers: Ledgers,
    shared_holds: SharedHolds,
}

struct Shared {
    state: Mutex<State>,
    /// Sources whose list is not complete.
    pending: watch::Sender<Vec<&'static str>>,
    /// Number of updates of the state.
    updates: watch::Sender<u64>,
}

impl StateAccess for Shared {
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        let missing = self.pending.borrow().join(", ");
        if !missing.is_empty() {
            return Err(ReviewError::NotReady(missing));
        }
        self.state.ask(what, question)
    }
}

impl Admission {
    /// Decides by a policy alone. Rules that need the state of a cluster do not answer.
    pub fn stateless(policy: Policy) -> Arc<Admission> {
        Arc::new(Admission {
            policy,
            shared: None,
            ledgers: Ledgers::default(),
            shared_holds: SharedHolds::default(),
        })
    }

    /// Decides by a policy and the state of a cluster, which is empty at first, and complete when all of `pending` are
    /// listed.
    pub fn stateful(policy: Policy, settings: Settings, pending: Vec<&'static str>) -> Arc<Admission> {
        let shared = Shared {
            state: Mutex::new(State::new(&policy, settings)),
            pending: watch::Sender::new(pending),
            updates: watch::Sender::new(0),
        };
        Arc::new(Admission {
            policy,
            shared: Some(shared),
            ledgers: Ledgers::default(),
            shared_holds: SharedHolds::default(),
        })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Updates the state. Nothing happens without one.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        if let Some(shared) = &self.shared {
            change(&mut shared.state.lock().unwrap_or_else(PoisonError::into_inner));
            shared.updates.send_modify(|n| *n = n.wrapping_add(1));
        }
    }

    /// A source is listed.
    pub fn listed(&self, source: &str) {
        if let Some(shared) = &self.shared {
            shared.pending.send_if_modified(|pending| {
                let before = pending.len();
                pending.retain(|name| *name != source);
                pending.len() != before
            });
        }
    }

    /// Sources whose list is not complete. Rules that need the state of the cluster do not answer until all are.
    pub fn pending_sources(&self) -> Vec<&'static str> {
        self.shared.as_ref().map(|shared| shared.pending.borrow().clone()).unwrap_or_default()
    }

    /// Waits until all sources are listed.
    pub async fn complete(&self) {
        if let Some(shared) = &self.shared {
            // The sender lives as long as this does.
            let _ = shared.pending.subscribe().wait_for(Vec::is_empty).await;
        }
    }

    /// Number of pods that count on the node they were allowed to be bound to, and were not seen there yet.
    pub fn n_held(&self) -> usize {
        let shared = self.shared.as_ref();
        shared.map_or(0, |s| s.state.lock().unwrap_or_else(PoisonError::into_inner).n_held())
    }

    /// Decides one request. If the state does not have the pod of a binding yet, it waits up to the limit in the
    /// policy.
    ///
    /// # Errors
    /// The request is invalid, or a rule needs state that is not available.
    pub async fn review(
        &self,
        endpoint: Endpoint,
        request: &AdmissionRequest,
    ) -> Result<Answer, ReviewError> {
        let Some(shared) = &self.shared else {
            return review(endpoint, request, &self.policy, &Nothing, Instant::now());
        };
        let patience = self.policy.binding_guard.as_ref().map_or(Duration::ZERO, |guard| guard.wait_for);
        let deadline = tokio::time::Instant::now() + patience;
        // An update during the first decision must not be missed.
        let mut updates = None;
        loop {
            let answer = match self.shared_guard().filter(|_| endpoint == Endpoint::ValidateBindings) {
                Some(guard) => self.shared_holds.review(request, &self.policy, guard, shared).await,
                None => review(endpoint, request, &self.policy, shared, Instant::now()),
            };
            match answer {
                Err(ReviewError::Unseen(_)) => {}
                Ok(answer) if endpoint == Endpoint::ValidatePods && answer.is_allowed() => {
                    return self.charge(request, shared, answer).await;
                }
                answer => return answer,
            }
            let Some(updates) = &mut updates else {
                updates = Some(shared.updates.subscribe());
                continue;
            };
            match tokio::time::timeout_at(deadline, updates.changed()).await {
                Ok(Ok(())) => {}
                _ => return answer,
            }
        }
    }

    /// Charges the pod of an allowed request to the placement quotas of its namespace.
    async fn charge(
        &self,
        request: &AdmissionRequest,
        shared: &Shared,
        mut answer: Answer,
    ) -> Result<Answer, ReviewError> {
        let pod = if self.policy.placement_quotas { pod_with_new_rules(request)? } else { None };
        let Some(pod) = pod.filter(|pod| may_be_charged(pod, &PodRules::parse(pod, true))) else {
            return Ok(answer);
        };
        // An API server that sends objects without uid: the request's own replaces it until the pod is seen.
        let uid = Some(pod.metadata.uid.as_str()).filter(|uid| !uid.is_empty()).unwrap_or(&request.uid);
        let cost = shared.ask("the placement quota", |state| quota::cost(state.cluster(), &pod, uid))?;
        if let Some(cost) = cost {
            let refused = self.ledgers.charge(&pod.metadata.namespace, &cost, request.dry_run).await?;
            let denial = |why| Denial::forbidden(Rule::PlacementQuota, request, why);
            answer.denied = refused.map(denial);
        }
        Ok(answer)
    }

    /// The guard of bindings, if it has several replicas.
    fn shared_guard(&self) -> Option<&BindingGuard> {
        self.policy.binding_guard.as_ref().filter(|guard| guard.ledger_namespace.is_some())
    }

    /// Starts to use the ledgers of a cluster.
    pub(crate) fn use_ledgers(&self, client: &kube::Client) {
        self.ledgers.start(client.clone());
        if let Some(namespace) = self.shared_guard().and_then(|guard| guard.ledger_namespace.as_deref()) {
            self.shared_holds.start(client.clone(), namespace);
        }
    }

    /// Keeps the placement quotas equal to the living pods, for as long as the runtime lives.
    pub(crate) async fn sync_quotas(&self, client: kube::Client) {
        if let Some(shared) = self.shared.as_ref().filter(|_| self.policy.placement_quotas) {
            quota::sync(client, &self.ledgers, shared, shared.updates.subscribe()).await;
        }
    }

    /// The usage of placement quotas.
    pub fn quota_metrics(&self) -> &QuotaMetrics {
        &self.ledgers.metrics
    }
}
