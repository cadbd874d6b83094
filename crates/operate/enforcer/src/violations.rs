//! The rules that are violated now: their grace periods, and the bindings that broke them.

use std::collections::{BTreeMap, HashSet};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{ViolatedRule, Violation, ViolationKey};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::grace_timers::GraceTimers;
use crate::metrics::Metrics;
use crate::options::Graces;
use crate::pods::Pods;

/// Members of a group are bound one after the other: for this time, a pod may lack the pods that it requires.
const GROUP_GRACE: Duration = Duration::from_secs(2);

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

pub(crate) struct Violations {
    graces: Graces,
    /// Pods in these namespaces are never evicted.
    exempt_namespaces: HashSet<String>,
    timers: GraceTimers<ViolationKey>,
    rules: BTreeMap<ViolationKey, ViolatedRule>,
    /// The pods that were bound against a rule, by the rule.
    intruders: BTreeMap<ViolationKey, Vec<(String, String)>>,
    /// Pods that were bound since violations were taken last.
    arrived: HashSet<(String, String)>,
    metrics: Arc<Metrics>,
}

impl Violations {
    pub(crate) fn new(
        graces: Graces,
        exempt_namespaces: HashSet<String>,
        metrics: Arc<Metrics>,
    ) -> Violations {
        Violations {
            graces,
            exempt_namespaces,
            timers: GraceTimers::default(),
            rules: BTreeMap::new(),
            intruders: BTreeMap::new(),
            arrived: HashSet::new(),
            metrics,
        }
    }

    /// Number of violations, due or not.
    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    /// Number of violations whose grace period is over.
    pub(crate) fn n_due(&self) -> usize {
        self.timers.n_due()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.next_due()
    }

    /// The violations whose grace period is over. Those about pods that their nodes have still to accept or reject are left out; the
    /// time is when the first of these has to be looked at again.
    pub(crate) fn due(&self, pods: &Pods, now: Timestamp) -> (Vec<ViolationKey>, Option<Timestamp>) {
        let mut again_at: Option<Timestamp> = None;
        let is_decided = |key: &&ViolationKey| {
            let intruders = self.intruders.get(*key).into_iter().flatten();
            let intruders = intruders.map(|(namespace, name)| (namespace, name));
            let concerned = iter::once((&key.namespace, &key.name)).chain(intruders);
            let until = concerned.filter_map(|(ns, name)| pods.node_decides_until(ns, name, now)).max();
            again_at = again_at.into_iter().chain(until).min();
            until.is_none()
        };
        let due = self.timers.due().filter(is_decided).cloned().collect();
        (due, again_at)
    }

    /// All violations, due or not.
    pub(crate) fn all(&self) -> Vec<ViolationKey> {
        self.rules.keys().cloned().collect()
    }

    pub(crate) fn contains(&self, key: &ViolationKey) -> bool {
        self.rules.contains_key(key)
    }

    pub(crate) fn is_exempt(&self, namespace: &str) -> bool {
        self.exempt_namespaces.contains(namespace)
    }

    /// The pods that were bound against these rules.
    pub(crate) fn intruders(&self, keys: &[ViolationKey]) -> Vec<(String, String)> {
        keys.iter().filter_map(|key| self.intruders.get(key)).flatten().cloned().collect()
    }

    /// A pod was bound.
    pub(crate) fn pod_arrived(&mut self, namespace: &str, name: &str) {
        self.arrived.insert((namespace.to_owned(), name.to_owned()));
    }

    /// The grace period of a pod's annotation changed.
    pub(crate) fn set_grace(&mut self, namespace: &str, name: &str, given: Option<Duration>) {
        let first =
            ViolationKey { namespace: namespace.to_owned(), name: name.to_owned(), term: String::new() };
        let violated = self.timers.range(first..);
        let keys: Vec<ViolationKey> =
            violated.take_while(|k| k.namespace == *namespace && k.name == *name).cloned().collect();
        for key in keys {
            let Some(rule) = self.rules.get(&key).filter(|_| !self.intruders.contains_key(&key)) else {
                continue;
            };
            let grace = given.unwrap_or_else(|| self.graces.of(*rule));
            self.timers.set_grace(&key, grace);
        }
    }

    /// Violations that ended. Returns those that had begun.
    pub(crate) fn end(&mut self, ended: Vec<ViolationKey>) -> Vec<ViolationKey> {
        let mut begun = Vec::new();
        for key in ended {
            let Some(rule) = self.rules.remove(&key) else { continue };
            tracing::debug!(rule = %key, "the violation ended");
            self.timers.end(&key);
            self.intruders.remove(&key);
            self.metrics.ended(rule);
            begun.push(key);
        }
        begun
    }

    /// Violations that began. Returns how many count.
    pub(crate) fn begin(&mut self, began: Vec<Violation>, pods: &Pods, now: Instant) -> usize {
        let arrived = std::mem::take(&mut self.arrived);
        let mut n = 0;
        for violation in began {
            if self.is_exempt(&violation.namespace) {
                continue;
            }
            let key = violation.key();
            let given = pods.get(&key.namespace, &key.name).and_then(|facts| facts.grace());
            let mut grace = given.unwrap_or_else(|| self.graces.of(violation.rule));
            let intruders = intruders(&violation, &arrived);
            if !intruders.is_empty() {
                let is_affinity = violation.rule == ViolatedRule::PodAffinity;
                grace = grace.min(if is_affinity { GROUP_GRACE } else { Duration::ZERO });
                self.intruders.insert(key.clone(), intruders);
            }
            tracing::debug!(rule = %key, node = violation.node, ?grace, "the violation began");
            self.metrics.began(violation.rule);
            self.timers.begin(key.clone(), grace, now);
            self.rules.insert(key, violation.rule);
            n += 1;
        }
        n
    }

    /// Violations whose grace period is over become due. Returns how many.
    pub(crate) fn expire_graces(&mut self, now: Instant) -> usize {
        self.timers.expire_graces(now)
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::Pod;
    use berth_engine::{Cluster, Settings};
    use berth_mirror::Needs;
    use jiff::SignedDuration;
    use prometheus_client::registry::Registry;
    use serde_json::{Value, json};

    use super::*;

    /// A pod whose rule its node violates.
    fn pod(namespace: &str, name: &str) -> Value {
        let expression = json!({"key": "disk", "operator": "In", "values": ["ssd"]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
        json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name},
            "spec": {"nodeName": "node", "containers": [{"name": "c"}],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": terms}}},
        })
    }

    #[test]
    fn a_binding_against_a_rule_leaves_it_no_grace_and_other_violations_keep_theirs() {
        let mut cluster = Cluster::new(Settings::default());
        cluster.watch_violations();
        cluster.set_node(&serde_json::from_value(json!({"metadata": {"name": "node"}})).unwrap());
        for pod in [pod("n", "bound"), pod("n", "older"), pod("kube-system", "system")] {
            cluster.set_pod(&serde_json::from_value(pod).unwrap());
        }
        let metrics = Arc::new(Metrics::new(&mut Registry::default()));
        let exempt = HashSet::from(["kube-system".to_owned()]);
        let graces = Graces { node_affinity: Duration::from_secs(30), ..Graces::default() };
        let mut violations = Violations::new(graces, exempt, metrics);
        let now = Instant::now();
        violations.pod_arrived("n", "bound");
        let began = cluster.violation_changes().began;
        assert_eq!(violations.begin(began, &Pods::default(), now), 2);
        assert_eq!((violations.expire_graces(now), violations.len()), (1, 2));
        let (due, _) = violations.due(&Pods::default(), Timestamp::now());
        assert_eq!(due[0].name, "bound");
        assert_eq!(violations.intruders(&due), [("n".to_owned(), "bound".to_owned())]);
        violations.set_grace("n", "older", Some(Duration::ZERO));
        assert_eq!(violations.expire_graces(now), 1);
        assert_eq!(violations.end(due.clone()), due);
        assert!(violations.end(due).is_empty(), "it ended already");
    }

    #[test]
    fn a_pod_that_its_node_may_still_reject_is_left_to_the_node_and_does_not_count() {
        let mut cluster = Cluster::new(Settings::default());
        cluster.watch_violations();
        cluster.set_node(&serde_json::from_value(json!({"metadata": {"name": "node"}})).unwrap());
        let mut pods = Pods::default();
        let bound_at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |seconds| bound_at + SignedDuration::from_secs(seconds);
        let mut set = |name: &str, status: Value| {
            let mut pod = pod("n", name);
            pod["status"] = status;
            let pod: Pod = serde_json::from_value(pod).unwrap();
            cluster.set_pod(&pod);
            pods.set(&pod, Needs::default(), bound_at);
            cluster.violation_changes().began
        };
        let metrics = Arc::new(Metrics::new(&mut Registry::default()));
        let mut violations = Violations::new(Graces::default(), HashSet::new(), metrics);
        violations.pod_arrived("n", "undecided");
        let mut began = set("undecided", json!({}));
        began.extend(set("accepted", json!({"startTime": "2026-01-01T00:00:00Z"})));
        let now = Instant::now();
        assert_eq!(violations.begin(began, &Pods::default(), now), 2);
        violations.expire_graces(now);
        let due = |pods: &Pods, at| {
            let (due, again_at) = violations.due(pods, at);
            (due.into_iter().map(|key| key.name).collect::<Vec<_>>(), again_at)
        };
        assert_eq!(due(&pods, at(1)), (vec!["accepted".to_owned()], Some(at(5))));
        assert_eq!(due(&pods, at(5)).0, ["accepted", "undecided"], "the node does not answer");
        let mut accepted: Pod = serde_json::from_value(pod("n", "undecided")).unwrap();
        accepted.status.start_time = Some(at(1));
        pods.set(&accepted, Needs::default(), at(1));
        assert_eq!(due(&pods, at(1)).0, ["accepted", "undecided"], "the node has accepted it");
    }
}
