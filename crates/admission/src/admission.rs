//! The decisions together with what is known of the cluster, for many requests at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_engine::Settings;
use tokio::sync::watch;

use crate::answer::{Answer, Unanswered};
use crate::policy::Policy;
use crate::request::AdmissionRequest;
use crate::review::{Endpoint, review};
use crate::state::{Known, Nothing, State};

/// Decides by one policy and, if somebody feeds it, the state of one cluster.
///
/// Most requests need no state and take no lock. The others hold it for as long as one decision takes.
pub struct Admission {
    policy: Policy,
    shared: Option<Shared>,
}

struct Shared {
    settings: Settings,
    state: Mutex<State>,
    /// What has not been listed yet.
    waits_for: watch::Sender<Vec<&'static str>>,
    /// Grows with everything the state is told.
    told: watch::Sender<u64>,
}

impl Known for Shared {
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, Unanswered> {
        let missing = self.waits_for.borrow().join(", ");
        if !missing.is_empty() {
            return Err(Unanswered::NotReady(missing));
        }
        self.state.ask(what, question)
    }
}

impl Admission {
    /// Decides by a policy alone. Rules that need to know the cluster do not answer.
    pub fn stateless(policy: Policy) -> Arc<Admission> {
        Arc::new(Admission { policy, shared: None })
    }

    /// Decides by a policy and the state of a cluster, which is empty, and not complete before `waits_for` has been
    /// told.
    pub fn stateful(policy: Policy, settings: Settings, waits_for: Vec<&'static str>) -> Arc<Admission> {
        let shared = Shared {
            state: Mutex::new(State::new(&policy, settings.clone())),
            settings,
            waits_for: watch::Sender::new(waits_for),
            told: watch::Sender::new(0),
        };
        Arc::new(Admission { policy, shared: Some(shared) })
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Tells the state something. Nothing happens without a state.
    pub fn tell(&self, change: impl FnOnce(&mut State)) {
        if let Some(shared) = &self.shared {
            change(&mut shared.state.lock().unwrap_or_else(PoisonError::into_inner));
            shared.told.send_modify(|n_told| *n_told = n_told.wrapping_add(1));
        }
    }

    /// An empty state, to be fed like this one's and to take its place.
    pub fn new_state(&self) -> Option<State> {
        self.shared.as_ref().map(|shared| State::new(&self.policy, shared.settings.clone()))
    }

    /// Puts another state of the same cluster in the place of the one there is. What was allowed goes on counting.
    pub fn replace_state(&self, mut state: State) {
        self.tell(|current| {
            std::mem::swap(current, &mut state);
            current.take_over(state);
        });
    }

    /// Number of different sets of rules that the state was asked about so far.
    pub fn n_rule_sets(&self) -> usize {
        let shared = self.shared.as_ref();
        shared.map_or(0, |s| s.state.lock().unwrap_or_else(PoisonError::into_inner).n_rule_sets())
    }

    /// Something has been listed.
    pub fn has_listed(&self, what: &str) {
        if let Some(shared) = &self.shared {
            shared.waits_for.send_if_modified(|waits_for| {
                let before = waits_for.len();
                waits_for.retain(|missing| *missing != what);
                waits_for.len() != before
            });
        }
    }

    /// What has not been listed yet; rules that need to know the cluster do not answer before all of it is.
    pub fn waits_for(&self) -> Vec<&'static str> {
        self.shared.as_ref().map(|shared| shared.waits_for.borrow().clone()).unwrap_or_default()
    }

    /// Waits until everything has been listed.
    pub async fn complete(&self) {
        if let Some(shared) = &self.shared {
            // The sender lives as long as this does.
            let _ = shared.waits_for.subscribe().wait_for(Vec::is_empty).await;
        }
    }

    /// Pods that count where they were allowed to go and have not been seen there.
    pub fn n_held(&self) -> usize {
        let shared = self.shared.as_ref();
        shared.map_or(0, |s| s.state.lock().unwrap_or_else(PoisonError::into_inner).n_held())
    }

    /// Decides about one request. What a binding needs and has not been seen yet is waited for as long as the policy
    /// says.
    ///
    /// # Errors
    /// The request makes no sense, or a rule needs to know of the cluster what is not known.
    pub async fn review(&self, endpoint: Endpoint, request: &AdmissionRequest) -> Result<Answer, Unanswered> {
        let Some(shared) = &self.shared else {
            return review(endpoint, request, &self.policy, &Nothing, Instant::now());
        };
        let patience = self.policy.binding_guard.as_ref().map_or(Duration::ZERO, |guard| guard.wait_for);
        let deadline = tokio::time::Instant::now() + patience;
        // What is told while the first decision is made is not to be missed.
        let mut told = None;
        loop {
            let answer = review(endpoint, request, &self.policy, shared, Instant::now());
            if !matches!(answer, Err(Unanswered::Unseen(_))) {
                return answer;
            }
            let Some(told) = &mut told else {
                told = Some(shared.told.subscribe());
                continue;
            };
            match tokio::time::timeout_at(deadline, told.changed()).await {
                Ok(Ok(())) => {}
                _ => return answer,
            }
        }
    }
}
