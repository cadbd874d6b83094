//! The enforcer's own data about pods: their workload, grace period and age.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::placement::HELD_CONDITION;
use berth_api::object::{OwnerReference, Pod, find_condition, node_decides_until};
use berth_api::syntax::annotations::{GRACE_ANNOTATION, WITHOUT_TARGET_ANNOTATION};
use berth_client::events::ObjectReference;
use berth_mirror::Needs;
use berth_rules::{parse_eviction_grace, parse_without_target};
use jiff::Timestamp;

use crate::options::{HoldOptions, HoldPeriod};

type Key = (Box<str>, Box<str>);

/// The controller of a pod, or the pod itself.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Workload {
    /// `namespace/Kind/name`.
    pub(crate) name: Box<str>,
    /// The controller; none for its own pod.
    pub(crate) controller: Option<ObjectReference>,
}

#[derive(Debug)]
pub(crate) struct RunningPod {
    pub(crate) uid: Box<str>,
    pub(crate) workload: Arc<Workload>,
    /// The grace period of its annotation.
    grace: Given<Duration>,
    /// How long it is held without a feasible node, by its annotation.
    without_target: Given<HoldPeriod>,
    /// Why rules of it cannot be read.
    rule_error: Option<Box<str>>,
    /// The condition that says until when it is held.
    pub(crate) held: Option<HeldCondition>,
    /// When it was first seen on its node; for pods older than this process, when the API server created it.
    pub(crate) seen_at: Timestamp,
    /// Whether its node has accepted it (`status.startTime`).
    pub(crate) is_accepted: bool,
    /// What where it fits depends on.
    pub(crate) needs: Needs,
    /// Whether it has a node. Others only count for their workload.
    has_node: bool,
    /// Whether it is being deleted. It does not count for its workload then.
    pub(crate) is_terminating: bool,
}

/// What an annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given<T> {
    Nothing,
    Value(T),
    /// It is ignored.
    Invalid(Box<str>),
}

impl<T: Copy> Given<T> {
    fn read(pod: &Pod, annotation: &str, parse: impl Fn(&str) -> Option<T>) -> Given<T> {
        let Some(text) = pod.metadata.annotations.get(annotation) else { return Given::Nothing };
        parse(text).map_or_else(|| Given::Invalid(text.as_str().into()), Given::Value)
    }

    fn value(&self) -> Option<T> {
        if let Given::Value(value) = self { Some(*value) } else { None }
    }
}

/// That a pod is held, as its status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeldCondition {
    pub(crate) since: Timestamp,
    pub(crate) message: Box<str>,
}

impl HeldCondition {
    fn of(pod: &Pod) -> Option<HeldCondition> {
        let condition = find_condition(&pod.status.conditions, HELD_CONDITION).filter(|c| c.is_true())?;
        let message = condition.message.as_str().into();
        Some(HeldCondition { since: condition.last_transition_time?, message })
    }
}

/// What changed about the annotations of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AnnotationChanges {
    pub(crate) grace: bool,
    /// How long it is held.
    pub(crate) hold: bool,
    /// Annotations that became invalid, with their values.
    pub(crate) invalid: Vec<(&'static str, Box<str>)>,
}

impl AnnotationChanges {
    fn note<T: PartialEq>(
        &mut self,
        annotation: &'static str,
        before: Option<&Given<T>>,
        now: &Given<T>,
    ) -> bool {
        if before == Some(now) {
            return false;
        }
        if let Given::Invalid(text) = now {
            self.invalid.push((annotation, text.clone()));
        }
        before.is_some() || *now != Given::Nothing
    }
}

/// The pods of a workload that are not terminating.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WorkloadSize {
    n_pods: usize,
    /// Those on nodes.
    n_running: usize,
}

/// Pods that have not terminated, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    pods: HashMap<Key, RunningPod>,
    workloads: HashMap<Arc<Workload>, WorkloadSize>,
    /// Those whose status says that they are held.
    held: BTreeSet<Key>,
    n_running: usize,
}

/// How long a pod is held, as its annotation says.
fn without_target(text: &str) -> Option<HoldPeriod> {
    let hold = parse_without_target(text).ok()?;
    Some(hold.map_or(HoldPeriod::Always, HoldPeriod::For))
}

fn key(namespace: &str, name: &str) -> Key {
    (namespace.into(), name.into())
}

impl RunningPod {
    pub(crate) fn grace(&self) -> Option<Duration> {
        self.grace.value()
    }
}

impl Workload {
    pub(crate) fn of(pod: &Pod) -> Workload {
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
    pub(crate) fn set(&mut self, pod: &Pod, needs: Needs, seen_at: Timestamp) -> AnnotationChanges {
        let metadata = &pod.metadata;
        if pod.is_terminal() {
            self.remove(&metadata.namespace, &metadata.name, &metadata.uid);
            return AnnotationChanges::default();
        }
        let has_node = !pod.spec.node_name.is_empty();
        let given = Given::read(pod, GRACE_ANNOTATION, |text| parse_eviction_grace(text).ok());
        let hold = Given::read(pod, WITHOUT_TARGET_ANNOTATION, without_target);
        let workload = Workload::of(pod);
        let key = key(&metadata.namespace, &metadata.name);
        let known =
            self.pods.get(&key).filter(|known| *known.uid == *metadata.uid && known.has_node == has_node);
        let is_terminating = metadata.deletion_timestamp.is_some();
        let is_accepted = pod.status.start_time.is_some();
        let held = HeldCondition::of(pod).filter(|_| has_node && !is_terminating);
        let is_same = |k: &RunningPod| {
            (&*k.workload, k.needs, k.is_accepted, k.is_terminating)
                == (&workload, needs, is_accepted, is_terminating)
                && (&k.grace, &k.without_target, &k.held) == (&given, &hold, &held)
        };
        if known.is_some_and(is_same) {
            return AnnotationChanges::default();
        }
        let mut changes = AnnotationChanges::default();
        if has_node {
            changes.grace = changes.note(GRACE_ANNOTATION, known.map(|known| &known.grace), &given);
            let hold_before = known.map(|known| &known.without_target);
            changes.hold = changes.note(WITHOUT_TARGET_ANNOTATION, hold_before, &hold);
        }
        let seen_at = known.map_or(seen_at, |known| known.seen_at);
        let rule_error = known.and_then(|known| known.rule_error.clone());
        self.discount(&key);
        let workload = match self.workloads.get_key_value(&workload) {
            Some((workload, _)) => workload.clone(),
            None => Arc::new(workload),
        };
        if !is_terminating {
            let size = self.workloads.entry(workload.clone()).or_default();
            size.n_pods += 1;
            size.n_running += usize::from(has_node);
            self.n_running += usize::from(has_node);
        }
        let uid = metadata.uid.as_str().into();
        if held.is_some() {
            self.held.insert(key.clone());
        }
        let facts = RunningPod {
            uid,
            workload,
            grace: given,
            without_target: hold,
            rule_error,
            held,
            seen_at,
            is_accepted,
            needs,
            has_node,
            is_terminating,
        };
        self.pods.insert(key, facts);
        changes
    }

    /// Notes why rules of a pod on a node cannot be read; returns whether this is news.
    pub(crate) fn note_rule_error(&mut self, namespace: &str, name: &str, error: Option<&str>) -> bool {
        let Some(pod) = self.pods.get_mut(&key(namespace, name)).filter(|pod| pod.has_node) else {
            return false;
        };
        let is_known = pod.rule_error.as_deref() == error;
        pod.rule_error = error.map(Into::into);
        !is_known && error.is_some()
    }

    /// A pod was deleted. Another pod that has its name by now stays.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str, uid: &str) {
        let key = key(namespace, name);
        if self.pods.get(&key).is_some_and(|known| *known.uid == *uid) {
            self.discount(&key);
        }
    }

    fn discount(&mut self, key: &Key) {
        self.held.remove(key);
        let Some(known) = self.pods.remove(key).filter(|known| !known.is_terminating) else { return };
        self.n_running -= usize::from(known.has_node);
        if let Some(size) = self.workloads.get_mut(&known.workload) {
            size.n_pods -= 1;
            size.n_running -= usize::from(known.has_node);
            if size.n_pods == 0 {
                self.workloads.remove(&known.workload);
            }
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&RunningPod> {
        self.pods.get(&key(namespace, name)).filter(|pod| pod.has_node)
    }

    /// Until when it is left to its node to accept or reject a pod.
    pub(crate) fn node_decides_until(
        &self,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let pod = self.get(namespace, name).filter(|pod| !pod.is_accepted)?;
        node_decides_until(pod.seen_at, now)
    }

    /// How long a pod is held without a feasible node, in a workload that has or had this number of pods.
    pub(crate) fn hold(
        &self,
        pod: &RunningPod,
        namespace: &str,
        n_replicas: usize,
        holds: &HoldOptions,
    ) -> HoldPeriod {
        pod.without_target.value().unwrap_or_else(|| holds.of(namespace, n_replicas))
    }

    /// Namespace and name of all pods on nodes.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let running = self.pods.iter().filter(|(_, pod)| pod.has_node);
        running.map(|((namespace, name), _)| (&**namespace, &**name))
    }

    /// The pods whose status says that they are held: namespace, name, and what is known about them.
    pub(crate) fn shown_as_held(&self) -> impl Iterator<Item = (&str, &str, &RunningPod)> {
        self.held.iter().filter_map(|key| Some((&*key.0, &*key.1, self.pods.get(key)?)))
    }

    /// Number of pods of a workload on nodes that are not terminating.
    pub(crate) fn n_of(&self, workload: &Workload) -> usize {
        self.workloads.get(workload).map_or(0, |size| size.n_running)
    }

    /// The same of all workloads, by name.
    pub(crate) fn workload_sizes(&self) -> HashMap<&str, usize> {
        self.workloads.iter().map(|(workload, size)| (&*workload.name, size.n_running)).collect()
    }

    /// Number of pods of a workload that are not terminating, also of those without a node: its replicas.
    pub(crate) fn n_replicas(&self, workload: &Workload) -> usize {
        self.workloads.get(workload).map_or(0, |size| size.n_pods)
    }

    /// Number of pods on nodes that are not terminating.
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
        let mut set = |grace| {
            let changes = pods.set(&pod("a", None, grace), Needs::default(), SEEN);
            let invalid: Vec<_> = changes.invalid.iter().map(|(_, text)| text.to_string()).collect();
            (changes.grace, invalid.concat())
        };
        let mut check = |grace, is_changed, invalid: &str| {
            assert_eq!(set(grace), (is_changed, invalid.to_owned()), "{grace:?}");
        };
        check(None, false, "");
        check(Some("90s"), true, "");
        check(Some("90s"), false, "");
        check(Some("1m30s"), false, "");
        check(Some("0"), true, "");
        check(Some("soon"), true, "soon");
        check(Some("soon"), false, "");
        check(Some("-5s"), true, "-5s");
        check(Some("1h"), true, "");
        check(None, true, "");
        assert_eq!(pods.get("default", "a").unwrap().grace(), None);
    }

    #[test]
    fn rules_that_cannot_be_read_are_news_once() {
        let mut pods = Pods::default();
        let mut note = |name: &str, grace, error| {
            pods.set(&pod(name, None, grace), Needs::default(), SEEN);
            pods.note_rule_error("default", name, error)
        };
        assert!(!note("a", None, None));
        assert!(note("a", None, Some("unknown field")));
        assert!(!note("a", Some("5s"), Some("unknown field")), "another annotation has changed");
        assert!(note("a", None, Some("duplicate field")));
        assert!(!note("a", None, None));
        assert!(!pods.note_rule_error("default", "b", Some("unknown field")), "there is no such pod");
    }

    #[test]
    fn a_replica_without_a_node_counts_for_its_workload() {
        let mut pods = Pods::default();
        pods.set(&pod("a", Some("web"), None), Needs::default(), SEEN);
        let mut pending = pod("b", Some("web"), Some("soon"));
        pending.spec.node_name.clear();
        assert_eq!(pods.set(&pending, Needs::default(), SEEN), AnnotationChanges::default());
        let workload = pods.get("default", "a").unwrap().workload.clone();
        let sizes = |pods: &Pods| (pods.n_replicas(&workload), pods.n_of(&workload), pods.n_running());
        assert_eq!((sizes(&pods), pods.get("default", "b").is_none()), ((2, 1, 1), true));
        let later = Timestamp::from_second(100).unwrap();
        assert_eq!(pods.set(&pod("b", Some("web"), Some("soon")), Needs::default(), later).invalid.len(), 1);
        assert_eq!((sizes(&pods), pods.get("default", "b").unwrap().seen_at), ((2, 2, 2), later));
        pods.remove("default", "b", "uid-b");
        assert_eq!(sizes(&pods), (1, 1, 1));
    }

    #[test]
    fn workloads_with_one_replica_are_held_six_times_as_long_unless_the_pod_says_how_long() {
        let holds = HoldOptions {
            namespaces: [("db".to_owned(), HoldPeriod::Always)].into(),
            ..HoldOptions::default()
        };
        let mut pods = Pods::default();
        for name in ["a", "b"] {
            pods.set(&pod(name, Some("web"), None), Needs::default(), SEEN);
        }
        let mut alone = pod("alone", None, None);
        pods.set(&alone, Needs::default(), SEEN);
        let hold = |pods: &Pods, name| {
            let pod = pods.get("default", name).unwrap();
            pods.hold(pod, "default", pods.n_replicas(&pod.workload), &holds)
        };
        let minutes = |n: u64| HoldPeriod::For(Duration::from_secs(60 * n));
        assert_eq!((hold(&pods, "a"), hold(&pods, "alone")), (minutes(10), minutes(60)));
        assert_eq!((holds.of("db", 3), holds.of("db", 1)), (HoldPeriod::Always, HoldPeriod::Always));
        for (text, expected) in [("5m", minutes(5)), ("evict", minutes(0)), ("hold", HoldPeriod::Always)] {
            alone.metadata.annotations.insert(WITHOUT_TARGET_ANNOTATION.to_owned(), text.to_owned());
            assert!(pods.set(&alone, Needs::default(), SEEN).hold);
            assert_eq!(hold(&pods, "alone"), expected);
        }
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
