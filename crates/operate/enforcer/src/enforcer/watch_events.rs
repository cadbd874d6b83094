//! Watch events, and the violations that start and end with them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
use berth_engine::{ViolatedRule, Violation, ViolationKey};
use berth_mirror::{Change, WatchEvent};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{Enforcer, GROUP_GRACE};
use crate::pods::{GraceChange, Pods};

/// API servers cut creation timestamps to seconds.
const LATEST_IN_A_SECOND: SignedDuration = SignedDuration::from_millis(999);

/// The pods whose binding broke a rule: the owner of the rule, or all that conflict with its anti-affinity. None if the rule
/// may be broken for another reason, such as a changed label.
fn intruders(violation: &Violation, arrived: &HashSet<(String, String)>) -> Vec<(String, String)> {
    let owner = (violation.namespace.clone(), violation.name.clone());
    if arrived.contains(&owner) {
        return vec![owner];
    }
    let verdict = &violation.verdict;
    let others = verdict.witnesses.iter().map(|other| (other.namespace.clone(), other.name.clone()));
    let others: Vec<_> = others.filter(|other| arrived.contains(other)).collect();
    let is_all = others.len() == verdict.witnesses.len() && verdict.more_witnesses == 0;
    if violation.rule == ViolatedRule::PodAntiAffinity && is_all { others } else { Vec::new() }
}

impl Enforcer {
    pub(super) fn apply(&mut self, event: WatchEvent) {
        for change in self.mirror.apply(&mut self.cluster, event, |_| false) {
            self.changed(change);
        }
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::PodApplied { pod, .. } => self.pod_applied(&pod),
            Change::PodDeleted { pod, uid } => {
                self.pods.remove(pod.namespace(), pod.name(), &uid);
                self.forget_pod(&uid);
            }
            Change::Complete => {
                tracing::info!(
                    nodes = self.mirror.n_nodes(),
                    pods = self.mirror.n_pods(),
                    "the state of the cluster is complete"
                );
                self.is_complete = true;
                self.evaluate_by(Instant::now());
            }
            Change::Drift(report) => {
                for (kind, n) in [("node", report.n_nodes), ("pod", report.n_pods)] {
                    if n > 0 {
                        self.metrics.drifted(kind, n as u64);
                        self.current.n_drifted += n as u64;
                    }
                }
                self.evaluate_by(Instant::now());
            }
            Change::DeviceClassApplied(class) if self.devices.set(&class) => self.evaluate_by(Instant::now()),
            Change::DeviceClassDeleted(name) if self.devices.remove(&name) => {
                self.evaluate_by(Instant::now())
            }
            Change::DeviceClassApplied(_) | Change::DeviceClassDeleted(_) => {}
            // The enforcer keeps no pending pods, and watches no budgets and groups.
            Change::PodBoundElsewhere(_)
            | Change::BudgetApplied(..)
            | Change::BudgetDeleted(_)
            | Change::PodGroupApplied(..)
            | Change::PodGroupDeleted(_)
            | Change::ClaimApplied(..)
            | Change::ClaimDeleted(_)
            | Change::VolumeApplied(..)
            | Change::VolumeDeleted(_) => {}
            Change::NodeApplied(_) | Change::NodeDeleted(_) | Change::Listed(_) => {}
        }
    }

    /// Nothing more is to be done with a pod.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.evicting.remove(uid);
        self.retries.remove(uid);
        self.reported.remove(uid);
        self.uncertain.remove(uid);
    }

    fn pod_applied(&mut self, pod: &Arc<Pod>) {
        let created = pod.metadata.creation_timestamp;
        let created = created.and_then(|at| at.checked_add(LATEST_IN_A_SECOND).ok());
        let now = Timestamp::now();
        // For a pod that existed before this process started, use its creation time, at the end of that second.
        let seen_at = created.filter(|_| !self.is_complete).map_or(now, |created| created.min(now));
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let known = |pods: &Pods| pods.get(namespace, name).map(|known| known.uid.clone());
        let before = known(&self.pods);
        let grace = self.pods.set(pod, seen_at);
        if self.is_complete && known(&self.pods).is_some_and(|uid| before.as_ref() != Some(&uid)) {
            self.arrived.insert((namespace.clone(), name.clone()));
        }
        if grace != GraceChange::Unchanged {
            self.change_grace(pod, &grace);
        }
    }

    fn change_grace(&mut self, pod: &Pod, change: &GraceChange) {
        let metadata = &pod.metadata;
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        if let GraceChange::Invalid(text) = change {
            self.report_invalid_grace(pod, text);
        }
        let given = self.pods.get(namespace, name).and_then(|facts| facts.grace);
        let first = ViolationKey { namespace: namespace.clone(), name: name.clone(), term: String::new() };
        let violated = self.graces.range(first..);
        let keys: Vec<ViolationKey> =
            violated.take_while(|k| k.namespace == *namespace && k.name == *name).cloned().collect();
        for key in keys {
            let Some(rule) = self.rules.get(&key).filter(|_| !self.intruders.contains_key(&key)) else {
                continue;
            };
            let grace = given.unwrap_or_else(|| self.options.graces.of(*rule));
            self.graces.set_grace(&key, grace);
        }
    }

    /// Violations that began and ended.
    pub(super) fn take_violations(&mut self, now: Instant) {
        if !self.is_complete {
            return;
        }
        let changes = self.cluster.violation_changes();
        let mut is_new = false;
        for key in changes.ended {
            let Some(rule) = self.rules.remove(&key) else { continue };
            tracing::debug!(rule = %key, "the violation ended");
            self.graces.end(&key);
            self.intruders.remove(&key);
            self.reported.remove(&key.to_string());
            self.metrics.ended(rule);
            self.current.n_ended += 1;
            is_new = true;
        }
        let arrived = std::mem::take(&mut self.arrived);
        for violation in changes.began {
            if self.exempt_namespaces.contains(&violation.namespace) {
                continue;
            }
            let key = violation.key();
            let given = self.pods.get(&key.namespace, &key.name).and_then(|facts| facts.grace);
            let mut grace = given.unwrap_or_else(|| self.options.graces.of(violation.rule));
            let intruders = intruders(&violation, &arrived);
            if !intruders.is_empty() {
                let is_affinity = violation.rule == ViolatedRule::PodAffinity;
                grace = grace.min(if is_affinity { GROUP_GRACE } else { Duration::ZERO });
                self.intruders.insert(key.clone(), intruders);
            }
            tracing::debug!(rule = %key, node = violation.node, ?grace, "the violation began");
            self.metrics.began(violation.rule);
            self.current.n_began += 1;
            self.graces.begin(key.clone(), grace, now);
            self.rules.insert(key, violation.rule);
        }
        if is_new && self.options.dry_run {
            let rules = &self.rules;
            self.evicting.retain(|_, evicting| evicting.cures.iter().any(|key| rules.contains_key(key)));
        }
        if self.graces.expire_graces(now) > 0
            || (is_new && !(self.current.held.is_empty() && self.reserved.is_empty()))
        {
            self.evaluate_by(now);
        }
    }
}
