//! The enforcer's own data about running pods: their workload, grace period and age.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::support::SuspectFields;
use berth_api::object::{OwnerReference, Pod};
use berth_client::events::ObjectReference;
use berth_mirror::Needs;
use jiff::{SignedDuration, Timestamp};

use crate::options::GRACE_ANNOTATION;

/// Namespace and name.
type Key = (Box<str>, Box<str>);

/// The controller of a pod, or the pod itself.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Workload {
    /// `namespace/Kind/name`.
    pub(crate) name: Box<str>,
    /// The controller; none for its own pod.
    pub(crate) controller: Option<ObjectReference>,
}

/// A running pod.
#[derive(Debug)]
pub(crate) struct RunningPod {
    pub(crate) uid: Box<str>,
    pub(crate) workload: Arc<Workload>,
    /// The grace period of its annotation.
    pub(crate) grace: Option<Duration>,
    /// When it was first seen; for pods older than this process, when the API server created it.
    pub(crate) seen_at: Timestamp,
    /// Fields that decide about placement and that Berth may not support: where the pod fits is not known then.
    pub(crate) suspect: SuspectFields,
    /// What where it fits depends on.
    pub(crate) needs: Needs,
    /// Whether it is being deleted. It does not count for its workload then.
    is_terminating: bool,
}

/// Whether the grace period of a pod changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GraceChange {
    Unchanged,
    Changed,
    /// It changed to an invalid value, which is ignored.
    Invalid(String),
}

/// Pods on nodes that have not terminated, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pods: HashMap<Key, RunningPod>,
    /// The workloads of these pods, with their number of pods that are not terminating.
    workloads: HashMap<Arc<Workload>, usize>,
    n_running: usize,
}

/// `90s`, `5m`, `1h30m` or a bare `0`; never negative.
pub(crate) fn grace(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    text.parse::<SignedDuration>().ok()?.try_into().ok()
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.into(), name.into())
}

impl Workload {
    fn of(pod: &Pod) -> Workload {
        let metadata = &pod.metadata;
        let Some(owner) = metadata.controller() else {
            let name = format!("{}/Pod/{}", metadata.namespace, metadata.name);
            return Workload { name: name.into(), controller: None };
        };
        let OwnerReference { api_version, kind, name, uid, .. } = owner;
        Workload {
            name: format!("{}/{kind}/{name}", metadata.namespace).into(),
            controller: Some(ObjectReference {
                api_version: api_version.clone().into(),
                kind: kind.clone().into(),
                namespace: metadata.namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            }),
        }
    }
}

impl Pods {
    /// A pod was added or changed. `seen_at` is for a new one.
    pub(crate) fn set(&mut self, pod: &Pod, needs: Needs, seen_at: Timestamp) -> GraceChange {
        let metadata = &pod.metadata;
        if pod.spec.node_name.is_empty() || pod.is_terminal() {
            self.remove(&metadata.namespace, &metadata.name, &metadata.uid);
            return GraceChange::Unchanged;
        }
        let text = metadata.annotations.get(GRACE_ANNOTATION);
        let read = text.and_then(|text| grace(text));
        let workload = Workload::of(pod);
        let suspect = SuspectFields::of(&pod.spec);
        let key = key(&metadata.namespace, &metadata.name);
        let known = self.pods.get(&key).filter(|known| *known.uid == *metadata.uid);
        let grace_before = known.and_then(|known| known.grace);
        let is_terminating = metadata.deletion_timestamp.is_some();
        let is_same = |k: &RunningPod| {
            (&*k.workload, &k.suspect, k.needs) == (&workload, &suspect, needs)
                && (k.grace, k.is_terminating) == (read, is_terminating)
        };
        if known.is_some_and(is_same) {
            return GraceChange::Unchanged;
        }
        let is_new = known.is_none();
        let seen_at = known.map_or(seen_at, |known| known.seen_at);
        self.discount(&key);
        let workload = match self.workloads.get_key_value(&workload) {
            Some((workload, _)) => workload.clone(),
            None => Arc::new(workload),
        };
        if !is_terminating {
            *self.workloads.entry(workload.clone()).or_default() += 1;
            self.n_running += 1;
        }
        let uid = metadata.uid.as_str().into();
        let facts = RunningPod { uid, workload, grace: read, seen_at, suspect, needs, is_terminating };
        self.pods.insert(key, facts);
        match text {
            Some(text) if read.is_none() && (is_new || grace_before.is_some()) => {
                GraceChange::Invalid(text.clone())
            }
            _ if grace_before != read => GraceChange::Changed,
            _ => GraceChange::Unchanged,
        }
    }

    /// A pod was deleted. Another pod that has its name by now stays.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str, uid: &str) {
        let key = key(namespace, name);
        if self.pods.get(&key).is_some_and(|known| *known.uid == *uid) {
            self.discount(&key);
        }
    }

    fn discount(&mut self, key: &Key) {
        let Some(known) = self.pods.remove(key).filter(|known| !known.is_terminating) else { return };
        self.n_running -= 1;
        if let Some(n) = self.workloads.get_mut(&known.workload) {
            *n -= 1;
            if *n == 0 {
                self.workloads.remove(&known.workload);
            }
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&RunningPod> {
        self.pods.get(&key(namespace, name))
    }

    /// Number of pods of a workload that are not terminating.
    pub(crate) fn n_of(&self, workload: &Workload) -> usize {
        self.workloads.get(workload).copied().unwrap_or(0)
    }

    /// The same of all workloads, by name.
    pub(crate) fn workload_sizes(&self) -> HashMap<&str, usize> {
        self.workloads.iter().map(|(workload, n)| (&*workload.name, *n)).collect()
    }

    /// Number of pods that are not terminating.
    pub(crate) fn n_running(&self) -> usize {
        self.n_running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, owner: Option<&str>, grace: Option<&str>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.namespace = "default".to_owned();
        pod.metadata.name = name.to_owned();
        pod.metadata.uid = format!("uid-{name}");
        pod.spec.node_name = "n1".to_owned();
        pod.metadata.owner_references = owner
            .map(|name| OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: name.to_owned(),
                uid: "u".to_owned(),
                controller: Some(true),
                ..OwnerReference::default()
            })
            .into_iter()
            .collect();
        if let Some(grace) = grace {
            pod.metadata.annotations.insert(GRACE_ANNOTATION.to_owned(), grace.to_owned());
        }
        pod
    }

    const SEEN: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn pods_count_for_their_workload_until_they_terminate() {
        let mut pods = Pods::default();
        for name in ["a", "b"] {
            pods.set(&pod(name, Some("web"), None), Needs::default(), SEEN);
        }
        pods.set(&pod("alone", None, None), Needs::default(), SEEN);
        let workload = pods.get("default", "a").unwrap().workload.clone();
        assert_eq!(
            (&*workload.name, pods.n_of(&workload), pods.n_running()),
            ("default/ReplicaSet/web", 2, 3)
        );
        assert_eq!(&*pods.get("default", "alone").unwrap().workload.name, "default/Pod/alone");
        pods.set(&pod("a", Some("web"), None), Needs::default(), SEEN);
        pods.remove("default", "b", "another");
        assert_eq!(pods.n_of(&workload), 2);
        let mut ending = pod("b", Some("web"), None);
        ending.metadata.deletion_timestamp = "2027-01-15T08:10:00Z".parse().ok();
        pods.set(&ending, Needs::default(), SEEN);
        assert_eq!((pods.n_of(&workload), pods.n_running()), (1, 2));
        assert_eq!(&*pods.get("default", "b").unwrap().uid, "uid-b");
        pods.remove("default", "b", "uid-b");
        let mut ended = pod("a", Some("web"), None);
        ended.status.phase = "Succeeded".to_owned();
        pods.set(&ended, Needs::default(), SEEN);
        assert_eq!((pods.n_of(&workload), pods.n_running(), pods.workloads.len()), (0, 1, 1));
    }

    #[test]
    fn graces_are_read_and_invalid_ones_are_reported_once() {
        let mut pods = Pods::default();
        let mut set = |grace| pods.set(&pod("a", None, grace), Needs::default(), SEEN);
        assert_eq!(set(Some("90s")), GraceChange::Changed);
        assert_eq!(set(Some("90s")), GraceChange::Unchanged);
        assert_eq!(set(Some("1m30s")), GraceChange::Unchanged);
        assert_eq!(set(Some("0")), GraceChange::Changed);
        assert_eq!(set(Some("soon")), GraceChange::Invalid("soon".to_owned()));
        assert_eq!(set(Some("soon")), GraceChange::Unchanged);
        assert_eq!(set(Some("-5s")), GraceChange::Unchanged);
        assert_eq!(set(Some("1h")), GraceChange::Changed);
        assert_eq!(set(None), GraceChange::Changed);
        assert_eq!(pods.get("default", "a").unwrap().grace, None);
    }

    #[test]
    fn another_pod_of_the_same_name_is_as_old_as_its_first_event() {
        let mut pods = Pods::default();
        pods.set(&pod("a", None, None), Needs::default(), SEEN);
        let mut again = pod("a", None, None);
        again.metadata.uid = "another".to_owned();
        let later = Timestamp::from_second(100).unwrap();
        pods.set(&again, Needs::default(), later);
        pods.set(&again, Needs::default(), Timestamp::from_second(200).unwrap());
        assert_eq!(pods.get("default", "a").unwrap().seen_at, later);
    }
}
