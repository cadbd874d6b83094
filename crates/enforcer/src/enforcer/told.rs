//! What the server tells, and which rules break and hold by it.

use berth_api::object::Pod;
use berth_engine::ViolationKey;
use berth_mirror::feed::PodChange;
use berth_mirror::sources::{PodEvent, Told};
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Enforcer;
use crate::pods::PodNews;

/// Servers tell the second only in which an object was created.
const LATEST_IN_A_SECOND: SignedDuration = SignedDuration::from_millis(999);

impl Enforcer {
    pub(super) fn take(&mut self, told: Told) {
        let completes = told.completes();
        match told {
            Told::Nodes(event) => _ = self.feed.nodes(&mut self.cluster, event),
            Told::Pods(number, _) if number != self.sources.pods_number() => return,
            Told::Pods(_, event) => self.take_pods(event),
            Told::Namespaces(event) => _ = self.feed.namespaces(&mut self.cluster, event),
            Told::Services(event) => _ = self.feed.services(&mut self.cluster, event),
            Told::Owners(kind, event) => _ = self.feed.owners(&mut self.cluster, kind, event),
            Told::ReplicationControllers(event) => {
                self.feed.replication_controllers(&mut self.cluster, event);
            }
            // Not followed.
            Told::Budgets(_) => {}
            Told::Fresh(fresh) => self.compare(&fresh),
        }
        if let Some(source) = completes
            && self.waits_for.remove(&source)
            && self.waits_for.is_empty()
        {
            self.completed();
        }
    }

    fn completed(&mut self) {
        let now = Instant::now();
        tracing::info!(
            nodes = self.feed.n_nodes(),
            pods = self.feed.n_pods(),
            "the state of the cluster is complete"
        );
        self.is_complete = true;
        self.next_resync = now + self.options.resync_interval;
        self.judge_soon(now);
    }

    fn take_pods(&mut self, event: PodEvent) {
        match event {
            PodEvent::Applied(pod) => self.pod_applied(&pod),
            PodEvent::Deleted(pod) => {
                let metadata = &pod.metadata;
                self.pod_gone(&metadata.namespace, &metadata.name, &metadata.uid);
            }
            PodEvent::Restarted(pods) => {
                // What is gone goes first: another pod may have its name by now.
                for (namespace, name, uid) in self.feed.pods_not_in(&pods) {
                    self.pod_gone(&namespace, &name, &uid);
                }
                pods.iter().for_each(|pod| self.pod_applied(pod));
            }
        }
    }

    pub(super) fn pod_gone(&mut self, namespace: &str, name: &str, uid: &str) {
        self.feed.remove_pod(&mut self.cluster, namespace, name, uid);
        self.pods.remove(namespace, name, uid);
        self.forget_pod(uid);
    }

    /// Whatever was to be done with a pod is done.
    fn forget_pod(&mut self, uid: &str) {
        self.going.remove(uid);
        self.retries.remove(uid);
        self.said.remove(uid);
        self.uncertain.remove(uid);
    }

    pub(super) fn pod_applied(&mut self, pod: &Pod) {
        let metadata = &pod.metadata;
        let before = self.pods.get(&metadata.namespace, &metadata.name).map(|facts| facts.uid.clone());
        let change = self.feed.set_pod(&mut self.cluster, pod);
        if let Some(before) = before.as_deref().filter(|_| change == PodChange::Removed) {
            self.pods.remove(&metadata.namespace, &metadata.name, before);
        }
        // A pod that was there before this process looked is as old as it says, at the end of that second.
        let created = metadata.creation_timestamp;
        let created = created.and_then(|at| at.checked_add(LATEST_IN_A_SECOND).ok());
        let now = Timestamp::now();
        let seen_at = created.filter(|_| !self.is_complete).map_or(now, |created| created.min(now));
        let news = self.pods.set(pod, seen_at);
        if let Some(before) = before
            && self.pods.get(&metadata.namespace, &metadata.name).is_none_or(|facts| facts.uid != before)
        {
            self.forget_pod(&before);
        }
        if news != PodNews::Nothing {
            self.change_grace(pod, &news);
        }
    }

    fn change_grace(&mut self, pod: &Pod, news: &PodNews) {
        let metadata = &pod.metadata;
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        if let PodNews::BadGrace(text) = news {
            self.say_bad_grace(pod, text);
        }
        let given = self.pods.get(namespace, name).and_then(|facts| facts.grace);
        let first = ViolationKey { namespace: namespace.clone(), name: name.clone(), term: String::new() };
        let broken = self.patience.range(first..);
        let keys: Vec<ViolationKey> =
            broken.take_while(|k| k.namespace == *namespace && k.name == *name).cloned().collect();
        for key in keys {
            let Some(rule) = self.rules.get(&key) else { continue };
            let grace = given.unwrap_or_else(|| self.options.graces.of(*rule));
            self.patience.set_grace(&key, grace);
        }
    }

    /// Which rules broke, and which hold again.
    pub(super) fn take_violations(&mut self, now: Instant) {
        if !self.is_complete {
            return;
        }
        let changes = self.cluster.violation_changes();
        let mut is_new = false;
        for key in changes.ended {
            let Some(rule) = self.rules.remove(&key) else { continue };
            tracing::debug!(rule = %key, "holds again, or its pod went");
            self.patience.end(&key);
            self.said.remove(&key.to_string());
            self.metrics.ended(rule);
            self.shown.n_ended += 1;
            is_new = true;
        }
        for violation in changes.began {
            if self.exempt_namespaces.contains(&violation.namespace) {
                continue;
            }
            let key = violation.key();
            let given = self.pods.get(&key.namespace, &key.name).and_then(|facts| facts.grace);
            let grace = given.unwrap_or_else(|| self.options.graces.of(violation.rule));
            tracing::debug!(rule = %key, node = violation.node, ?grace, "broken");
            self.metrics.began(violation.rule);
            self.shown.n_began += 1;
            self.patience.begin(key.clone(), grace, now);
            self.rules.insert(key, violation.rule);
        }
        if is_new && self.options.dry_run {
            let rules = &self.rules;
            self.going.retain(|_, going| going.cures.iter().any(|key| rules.contains_key(key)));
        }
        if self.patience.ripen(now) > 0
            || (is_new && !(self.shown.held.is_empty() && self.reserved.is_empty()))
        {
            self.judge_soon(now);
        }
    }
}
