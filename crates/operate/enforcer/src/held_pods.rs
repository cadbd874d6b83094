//! Pods that are to be evicted and have no feasible node: since when they are held, and the condition that says so.
//!
//! The condition also keeps the time: a new leader continues from its `lastTransitionTime`. It is written by comparison with what the
//! API server shows, each time victims are selected: what is lost is written again. It ends when no violated rule, due or not, requires
//! the eviction of the pod.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::object::Condition;
use berth_api::object::placement::HELD_CONDITION;
use berth_api::resource::PODS;
use berth_client::call;
use berth_client::lease::Leadership;
use berth_engine::{Remedy, Target};
use http::Method;
use jiff::Timestamp;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::blocked::leave_out_blocked;
use crate::options::{HoldOptions, HoldPeriod};
use crate::pods::{HeldCondition, Pods, RunningPod};
use crate::time::Time;

const WRITES_AT_ONCE: usize = 8;
/// After a write, until the API server shows it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Until when a pod is held, as the beginning of a sentence.
pub(crate) fn held_until(until: Option<Timestamp>, now: Timestamp) -> String {
    match until {
        // Its time is over, but it cannot go now for another reason.
        Some(until) if until <= now => "Not evicted: ".to_owned(),
        Some(until) => format!("Held until {until:.0}, then evicted: "),
        None => "Held until a node is feasible: ".to_owned(),
    }
}

/// A pod that is to be evicted and has no feasible node.
struct HeldPod {
    namespace: String,
    name: String,
    since: Timestamp,
    why: String,
    /// Whether it stays for now. If not, it is evicted when limits and budgets allow it, and keeps its condition until then.
    is_held: bool,
    /// The most replicas that its workload has had meanwhile: an eviction does not make the hold of the others longer.
    n_replicas: usize,
    /// Why it is not evicted after its hold.
    delay: Option<String>,
}

/// A pod whose status says that it is held, and that is not any more.
pub(crate) struct EndedHold {
    namespace: String,
    name: String,
    uid: Box<str>,
    why: String,
}

/// A condition that was sent.
struct Sent {
    message: String,
    at: Instant,
}

pub(crate) struct HeldPods {
    client: kube::Client,
    leadership: Leadership,
    timeout: Duration,
    holds: HoldOptions,
    /// By uid.
    held: HashMap<String, HeldPod>,
    sent: HashMap<String, Sent>,
    tasks: JoinSet<()>,
}

impl HeldPods {
    pub(crate) fn new(
        client: kube::Client,
        leadership: Leadership,
        timeout: Duration,
        holds: HoldOptions,
    ) -> HeldPods {
        HeldPods {
            client,
            leadership,
            timeout,
            holds,
            held: HashMap::new(),
            sent: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Since when a pod is held: by this process, or by the condition of another one.
    fn since(&self, pod: &RunningPod, now: Timestamp) -> Timestamp {
        let known = self.held.get(&*pod.uid).map(|held| held.since);
        // A condition of the future comes from another clock.
        known.or(pod.held.as_ref().map(|held| held.since)).unwrap_or(now).min(now)
    }

    /// The most replicas that the workload of a pod has had since the pod is held.
    fn n_replicas(&self, pods: &Pods, pod: &RunningPod) -> usize {
        let before = self.held.get(&*pod.uid).map_or(0, |held| held.n_replicas);
        before.max(pods.n_replicas(&pod.workload))
    }

    /// Until when a pod is held; none: until a node is feasible.
    pub(crate) fn until(
        &self,
        pods: &Pods,
        pod: &RunningPod,
        namespace: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        pods.hold(pod, namespace, self.n_replicas(pods, pod), &self.holds).until(self.since(pod, now))
    }

    /// Of these pods and of those that are held, the ones that are held no longer: their time is over.
    pub(crate) fn released(
        &self,
        pods: &Pods,
        names: HashSet<(String, String)>,
        now: Timestamp,
    ) -> Vec<(String, String)> {
        let held = self.held.values().map(|held| (held.namespace.clone(), held.name.clone()));
        let mut released: Vec<_> = names.into_iter().chain(held).collect();
        released.retain(|(namespace, name)| {
            let pod = pods.get(namespace, name);
            pod.is_some_and(|pod| self.until(pods, pod, namespace, now).is_some_and(|until| until <= now))
        });
        released.sort_unstable();
        released.dedup();
        released
    }

    /// Leaves out the pods whose eviction would fix no rule while others are held until a node is feasible.
    pub(crate) fn leave_out_blocked(&self, pods: &Pods, remedies: &mut Vec<Remedy>) {
        leave_out_blocked(remedies, |victim| {
            let pod = pods.get(&victim.namespace, &victim.name);
            pod.is_some_and(|pod| {
                let n_replicas = self.n_replicas(pods, pod);
                pods.hold(pod, &victim.namespace, n_replicas, &self.holds) == HoldPeriod::Always
            })
        });
    }

    /// What was selected: those without a feasible node are held from now on, or longer already.
    pub(crate) fn selected(&mut self, remedies: &[Remedy], pods: &Pods, now: Timestamp) {
        let held = |remedy: &Remedy| {
            let Remedy { victim, target: Target::Nowhere(why), is_held, .. } = remedy else { return None };
            let pod = pods.get(&victim.namespace, &victim.name)?;
            let (namespace, name) = (victim.namespace.clone(), victim.name.clone());
            let (since, why) = (self.since(pod, now), why.clone());
            let (is_held, n_replicas) = (*is_held, self.n_replicas(pods, pod));
            let held = HeldPod { namespace, name, since, why, is_held, n_replicas, delay: None };
            Some((victim.uid.clone(), held))
        };
        self.held = remedies.iter().filter_map(held).collect();
    }

    /// Whether the status of a pod says that it is held, and it was not selected to be held.
    pub(crate) fn may_have_ended(&self, pods: &Pods) -> bool {
        pods.shown_as_held().any(|(_, _, pod)| !self.held.contains_key(&*pod.uid))
    }

    /// The holds that have ended, after a selection. `later` are the remedies of all violated rules, also of those in their grace
    /// period: a pod that they hold keeps its time.
    pub(crate) fn ended(&self, pods: &Pods, remedies: &[Remedy], later: &[Remedy]) -> Vec<EndedHold> {
        let node = |uid: &str| {
            let mut targets = remedies.iter().filter(|r| r.victim.uid == uid).map(|r| &r.target);
            targets.find_map(|target| if let Target::Node(node) = target { Some(node) } else { None })
        };
        let is_held = |r: &&Remedy| matches!(r.target, Target::Nowhere(_));
        let kept: HashSet<&str> = later.iter().filter(is_held).map(|r| r.victim.uid.as_str()).collect();
        let is_kept = |uid: &str| self.held.contains_key(uid) || kept.contains(uid) && node(uid).is_none();
        let shown = pods.shown_as_held().filter(|(_, _, pod)| !is_kept(&pod.uid));
        let ended = shown.map(|(namespace, name, pod)| EndedHold {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: pod.uid.clone(),
            why: match node(&pod.uid) {
                Some(node) => format!("The pod fits on {node}"),
                None => "No violated rule requires the eviction of the pod".to_owned(),
            },
        });
        ended.collect()
    }

    /// Why a pod is not evicted now.
    pub(crate) fn delay(&mut self, uid: &str, why: impl FnOnce() -> String) {
        if let Some(held) = self.held.get_mut(uid) {
            held.delay = Some(why());
        }
    }

    /// Why no pod is evicted now.
    pub(crate) fn delay_all(&mut self, why: &str) {
        self.held.values_mut().for_each(|held| held.delay = Some(why.to_owned()));
    }

    /// What the status of a pod is to say: the message, the part of it that does not vary, and its reason in a word.
    fn wanted(
        &self,
        pods: &Pods,
        pod: &RunningPod,
        held: &HeldPod,
        now: Timestamp,
    ) -> Option<(String, String, &'static str)> {
        let until = self.until(pods, pod, &held.namespace, now);
        match (&held.delay, until.filter(|until| *until <= now)) {
            (Some(delay), Some(until)) => pod.held.is_some().then(|| {
                let message = format!("Held until {until:.0}. Not evicted yet: {delay}");
                (message.clone(), message, "EvictionDelayed")
            }),
            _ if held.is_held => {
                let until = held_until(until, now);
                Some((format!("{until}no node is feasible: {}", held.why), until, "NoFeasibleNode"))
            }
            _ => None,
        }
    }

    /// Writes the conditions that differ from what the API server shows. Returns when to look again, if some do.
    pub(crate) fn write_conditions(
        &mut self,
        pods: &Pods,
        ended: &[EndedHold],
        now: Time,
    ) -> Option<Instant> {
        let mut wanted: Vec<(&str, &str, &str, Condition)> = Vec::new();
        for (uid, held) in &self.held {
            let HeldPod { namespace, name, since, .. } = held;
            let Some(pod) = pods.get(namespace, name).filter(|pod| *pod.uid == **uid) else { continue };
            let Some((message, start, reason)) = self.wanted(pods, pod, held, now.timestamp) else {
                continue;
            };
            let is_shown = |shown: &HeldCondition| {
                shown.message.starts_with(&start) && shown.since.as_second() == since.as_second()
            };
            if !pod.held.as_ref().is_some_and(is_shown) {
                let condition = Condition::new(HELD_CONDITION, "True", reason, message, *since);
                wanted.push((namespace, name, uid, condition));
            }
        }
        for EndedHold { namespace, name, uid, why } in ended {
            let condition = Condition::new(HELD_CONDITION, "False", "NotHeld", why, now.timestamp);
            wanted.push((namespace, name, uid, condition));
        }
        self.sent.retain(|_, sent| now.instant < sent.at + self.timeout);
        while self.tasks.try_join_next().is_some() {}
        wanted.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        for (namespace, name, uid, condition) in &wanted {
            let is_sent = self.sent.get(*uid).is_some_and(|sent| sent.message == condition.message);
            if is_sent || self.tasks.len() >= WRITES_AT_ONCE || !self.leadership.leads() {
                continue;
            }
            self.sent.insert((*uid).to_owned(), Sent { message: condition.message.clone(), at: now.instant });
            let path = format!("{}/status", PODS.object_path(namespace, name));
            let body = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
            let content_type = "application/strategic-merge-patch+json";
            let request = call::with_body(Method::PATCH, &path, content_type, body.to_string().into_bytes());
            let (client, timeout) = (self.client.clone(), self.timeout);
            self.tasks.spawn(async move {
                if let Err(error) = call::send(&client, request, timeout, call::MAX_OBJECT_BYTES).await {
                    tracing::debug!(path, "the condition of a held pod is not written: {error}");
                }
            });
        }
        (!wanted.is_empty()).then(|| now.instant + LOOK_AGAIN)
    }

    pub(crate) fn forget(&mut self, uid: &str) {
        self.held.remove(uid);
        self.sent.remove(uid);
    }
}
