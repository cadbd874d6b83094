//! Decisions together with the state of the cluster, for many requests at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::resource::{CLUSTER_PLACEMENT_POLICIES, NAMESPACES, PLACEMENT_POLICIES};
use berth_client::WatchGroup;
use berth_input::policy::PolicySet;
use berth_rules::PodRules;
use tokio::sync::watch;

use crate::answer::{Answer, Denial, ReviewError};
use crate::policy::{BindingGuard, Policy};
use crate::quota::{self, Ledgers, QuotaMetrics};
use crate::request::AdmissionRequest;
use crate::review::{Endpoint, pod_with_new_rules, review};
use crate::rule::Rule;
use crate::shared_holds::SharedHolds;
use crate::state::{State, StateAccess, cost, may_be_charged};

/// Decides by one policy, the placement policies of a cluster and, if the policy needs it, the state of the cluster.
///
/// Most requests need no state and take no lock. The others hold it for as long as one decision takes.
pub struct AdmissionController {
    policy: Policy,
    state: Option<Mutex<State>>,
    placement: watch::Sender<Arc<PolicySet>>,
    ledgers: Ledgers,
    shared_holds: SharedHolds,
    /// Sources whose list is not complete.
    pending: watch::Sender<Vec<&'static str>>,
    /// Number of updates of the state and of the placement policies.
    updates: watch::Sender<u64>,
}

impl StateAccess for AdmissionController {
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        let Some(state) = &self.state else { return Err(ReviewError::NoState(what)) };
        self.check_listed(|_| true)?;
        state.ask(what, question)
    }

    fn placement(&self) -> Result<Arc<PolicySet>, ReviewError> {
        self.check_listed(|source| POLICY_SOURCES.contains(&source))?;
        Ok(self.placement.borrow().clone())
    }
}

/// What placement policies depend on.
pub(crate) const POLICY_SOURCES: [&str; 3] =
    [PLACEMENT_POLICIES.plural, CLUSTER_PLACEMENT_POLICIES.plural, NAMESPACES.plural];
/// How long a new pod waits for the labels of its namespace.
const NAMESPACE_PATIENCE: Duration = Duration::from_millis(500);

impl AdmissionController {
    /// Decides by a policy alone. Rules that need the state of a cluster do not answer, and there are no placement
    /// policies.
    pub fn stateless(policy: Policy) -> Arc<AdmissionController> {
        AdmissionController::new(policy, None, Vec::new())
    }

    /// Decides by a policy and the state of a cluster, which is empty at first, and complete when all of `pending` are
    /// listed.
    pub fn stateful(policy: Policy, pending: Vec<&'static str>) -> Arc<AdmissionController> {
        let state = State::new(&policy);
        AdmissionController::new(policy, Some(state), pending)
    }

    pub(crate) fn new(
        policy: Policy,
        state: Option<State>,
        pending: Vec<&'static str>,
    ) -> Arc<AdmissionController> {
        Arc::new(AdmissionController {
            policy,
            state: state.map(Mutex::new),
            placement: watch::Sender::default(),
            pending: watch::Sender::new(pending),
            updates: watch::Sender::new(0),
            ledgers: Ledgers::default(),
            shared_holds: SharedHolds::default(),
        })
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether it keeps the state of a cluster.
    pub fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// The placement policies; they may change.
    pub fn placement_policies(&self) -> watch::Receiver<Arc<PolicySet>> {
        self.placement.subscribe()
    }

    pub fn set_placement_policies(&self, policies: PolicySet) {
        self.placement.send_replace(Arc::new(policies));
        self.updated();
    }

    fn updated(&self) {
        self.updates.send_modify(|n| *n = n.wrapping_add(1));
    }

    fn check_listed(&self, matters: impl Fn(&str) -> bool) -> Result<(), ReviewError> {
        let missing: Vec<_> = self.pending.borrow().iter().copied().filter(|s| matters(s)).collect();
        if missing.is_empty() { Ok(()) } else { Err(ReviewError::NotReady(missing.join(", "))) }
    }

    /// Updates the state. Nothing happens without one.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = &self.state {
            change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
            self.updated();
        }
    }

    pub fn listed(&self, source: &str) {
        self.pending.send_if_modified(|pending| {
            let position = pending.iter().position(|name| *name == source);
            position.map(|position| pending.remove(position)).is_some()
        });
    }

    /// Sources whose list is not complete. Rules that need them do not answer until they are.
    pub fn pending_sources(&self) -> Vec<&'static str> {
        let mut pending = self.pending.borrow().clone();
        pending.dedup();
        pending
    }

    /// Waits until all sources are listed.
    pub async fn complete(&self) {
        // The sender lives as long as this does.
        let _ = self.pending.subscribe().wait_for(Vec::is_empty).await;
    }

    /// Number of pods that count on the node they were allowed to be bound to, and were not seen there yet.
    pub fn n_held(&self) -> usize {
        let state = self.state.as_ref();
        state.map_or(0, |s| s.lock().unwrap_or_else(PoisonError::into_inner).n_held())
    }

    /// Decides one request. If the state does not have the pod of a binding or the namespace of a pod yet, it waits a
    /// little.
    ///
    /// # Errors
    /// The request is invalid, or a rule needs state that is not available.
    pub async fn review(
        &self,
        endpoint: Endpoint,
        request: &AdmissionRequest,
    ) -> Result<Answer, ReviewError> {
        let patience = match (endpoint, &self.policy.binding_guard) {
            (Endpoint::MutatePods, _) => NAMESPACE_PATIENCE,
            (_, Some(guard)) => guard.wait_for,
            (_, None) => Duration::ZERO,
        };
        let deadline = tokio::time::Instant::now() + patience;
        // An update during the first decision must not be missed.
        let mut updates = None;
        loop {
            let answer = match self.shared_guard().filter(|_| endpoint == Endpoint::ValidateBindings) {
                Some(guard) => self.shared_holds.review(request, &self.policy, guard, self).await,
                None => review(endpoint, request, &self.policy, self, Instant::now()),
            };
            match answer {
                Err(ReviewError::Unseen(_)) => {}
                Ok(answer) if endpoint == Endpoint::ValidatePods && answer.is_allowed() => {
                    return self.charge(request, answer).await;
                }
                answer => return answer,
            }
            let Some(updates) = &mut updates else {
                updates = Some(self.updates.subscribe());
                continue;
            };
            match tokio::time::timeout_at(deadline, updates.changed()).await {
                Ok(Ok(())) => {}
                _ => return answer,
            }
        }
    }

    /// Charges the pod of an allowed request to the placement quotas of its namespace.
    async fn charge(&self, request: &AdmissionRequest, mut answer: Answer) -> Result<Answer, ReviewError> {
        let pod = if self.policy.placement_quotas { pod_with_new_rules(request)? } else { None };
        let Some(pod) =
            pod.filter(|pod| may_be_charged(pod, &PodRules::parse(pod, self.policy.rule_options)))
        else {
            return Ok(answer);
        };
        // An API server that sends objects without uid: the request's own replaces it until the pod is seen.
        let uid = Some(pod.metadata.uid.as_str()).filter(|uid| !uid.is_empty()).unwrap_or(&request.uid);
        let cost = self.ask("the placement quota", |state| cost(state.cluster(), &pod, uid))?;
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
    pub(crate) async fn sync_quotas(&self, client: kube::Client, group: &WatchGroup) {
        if self.has_state() && self.policy.placement_quotas {
            quota::sync(client, &self.ledgers, self, self.updates.subscribe(), group).await;
        }
    }

    /// The usage of placement quotas.
    pub fn quota_metrics(&self) -> &QuotaMetrics {
        &self.ledgers.metrics
    }
}
