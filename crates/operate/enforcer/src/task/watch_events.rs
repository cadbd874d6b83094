//! Watch events, and the violations that start and end with them.

use std::sync::Arc;

use berth_api::object::Pod;
use berth_api::object::group::{GroupKey, GroupKind, GroupOwner};
use berth_mirror::{Change, Needs, Source, WatchEvent};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::enforcer::Enforcer;
use crate::pods::Pods;

/// API servers cut creation timestamps to seconds.
const LATEST_IN_A_SECOND: SignedDuration = SignedDuration::from_millis(999);

/// Whether a pending pod is of a group of the pods of its Job.
fn is_pending_of_job(change: &Change, extensions: bool) -> bool {
    let Change::PodApplied { pod, .. } = change else { return false };
    pod.spec.node_name.is_empty()
        && GroupKey::of(pod, extensions).is_some_and(|key| key.kind == GroupKind::Owner(GroupOwner::Job))
}

/// Whether a PodGroup belongs to a CompositePodGroup.
fn has_composite(change: &Change) -> bool {
    matches!(change, Change::PodGroupApplied(_, group) if group.spec.parent_composite_pod_group_name.is_some())
}

impl Enforcer {
    pub(super) fn apply(&mut self, event: WatchEvent) {
        for change in self.mirror.apply(&mut self.cluster, event, |_| false) {
            if let Some(rebalancer) = &mut self.rebalancer {
                rebalancer.apply(&change);
                let settings = self.cluster.settings();
                if is_pending_of_job(&change, settings.extensions) {
                    self.mirror.watch_also(Source::Jobs);
                }
                if settings.config.feature_gates.composite_pod_group && has_composite(&change) {
                    self.mirror.watch_also(Source::CompositePodGroups);
                }
            }
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
                self.timer.set(Instant::now());
            }
            Change::Drift(report) => {
                for (kind, n) in [("node", report.n_nodes), ("pod", report.n_pods)] {
                    if n > 0 {
                        self.metrics.drifted(kind, n as u64);
                        self.reporter.current.n_drifted += n as u64;
                    }
                }
                self.timer.set(Instant::now());
            }
            Change::Readability(_) => self.timer.set(Instant::now()),
            Change::Failed(failure) => self.failure = Some(failure),
            // The enforcer keeps no pending pods; budgets and namespaces concern rebalancing alone.
            _ => {}
        }
    }

    /// Nothing more is to be done with a pod.
    pub(super) fn forget_pod(&mut self, uid: &str) {
        self.evictions.forget(uid);
        self.limits.forget(uid);
        self.held.forget(uid);
        self.events.forget(uid);
    }

    fn pod_applied(&mut self, pod: &Arc<Pod>) {
        let created = pod.metadata.creation_timestamp;
        let created = created.and_then(|at| at.checked_add(LATEST_IN_A_SECOND).ok());
        let now = Timestamp::now();
        // For a pod that existed before this process started, use its creation time, at the end of that second.
        let seen_at = created.filter(|_| !self.is_complete).map_or(now, |created| created.min(now));
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let known = |pods: &Pods| pods.get(namespace, name).map(|pod| (pod.uid.clone(), pod.is_accepted));
        let before = known(&self.pods);
        let changes = self.pods.set(pod, Needs::of(pod, &self.cluster), seen_at);
        if let Some((uid, is_accepted)) = known(&self.pods).filter(|_| self.is_complete) {
            let was_accepted =
                before.filter(|(before, _)| *before == uid).map(|(_, was_accepted)| was_accepted);
            if was_accepted.is_none() {
                self.violations.pod_arrived(namespace, name);
            }
            if is_accepted && was_accepted == Some(false) && self.violations.n_due() > 0 {
                self.timer.set(Instant::now());
            }
        }
        for (annotation, text) in &changes.invalid {
            self.events.invalid_annotation(pod, annotation, text);
        }
        let rule_error = self.cluster.rule_error(namespace, name);
        if self.pods.note_rule_error(namespace, name, rule_error) {
            self.events.invalid_rules(pod, rule_error.unwrap_or_default());
        }
        if changes.grace {
            let given = self.pods.get(namespace, name).and_then(|facts| facts.grace());
            self.violations.set_grace(namespace, name, given);
        }
        if changes.hold {
            self.timer.set(Instant::now());
        }
    }

    /// Violations that began and ended.
    pub(super) fn take_violations(&mut self, now: Instant) {
        if !self.is_complete {
            return;
        }
        let changes = self.cluster.violation_changes();
        let ended = self.violations.end(changes.ended);
        for key in &ended {
            self.events.forget(&key.to_string());
        }
        let has_ended = !ended.is_empty();
        let status = &mut self.reporter.current;
        status.n_ended += ended.len() as u64;
        status.n_began += self.violations.begin(changes.began, &self.pods, now) as u64;
        if has_ended && self.options.dry_run {
            self.evictions.retain_violated(|key| self.violations.contains(key));
        }
        let was_waiting = !status.held.is_empty()
            || self.limits.n_reserved() > 0
            || self.pods.shown_as_held().next().is_some();
        if self.violations.expire_graces(now) > 0 || has_ended && was_waiting {
            self.timer.set(now);
        }
    }
}
