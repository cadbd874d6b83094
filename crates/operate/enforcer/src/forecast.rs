//! For reports about a cluster: which evictions an enforcer that has evicted nothing yet would delay, and what a ledger counts.

use core::fmt;
use core::time::Duration;

use berth_api::object::Pod;
use berth_api::syntax::annotations::GRACE_ANNOTATION;
use berth_engine::{Remedy, ViolatedRule};
use berth_mirror::Needs;
use berth_rules::parse_eviction_grace;
use jiff::{SignedDuration, Timestamp};

use crate::blocked::leave_out_blocked;
use crate::limiter::{Candidate, EvictionLimiter, LimitInUse, LimitOptions};
use crate::options::{Graces, HoldOptions, HoldPeriod};
use crate::pods::Pods;

fn running<'a>(pods: impl IntoIterator<Item = &'a Pod>, now: Timestamp) -> Pods {
    let mut running = Pods::default();
    for pod in pods {
        running.set(pod, Needs::default(), now);
    }
    running
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsInUse {
    /// Until when the cluster limit stops all evictions.
    pub stopped_until: Option<Timestamp>,
    /// The limits with evictions in their window: of the cluster, of nodes, of namespaces and of workloads.
    pub limits: Vec<LimitInUse>,
}

/// What a ledger counts at a time. `pods` are all pods of the cluster, `ledger` is the content of its ConfigMap.
pub fn limits_in_use<'a>(
    limits: &LimitOptions,
    pods: impl IntoIterator<Item = &'a Pod>,
    ledger: &str,
    now: Timestamp,
) -> Result<LimitsInUse, serde_json::Error> {
    let running = running(pods, now);
    let mut limiter = EvictionLimiter::new(limits.clone());
    limiter.import(serde_json::from_str(ledger)?, now);
    let stopped_until = limiter.stopped_until().filter(|until| now < *until);
    limiter.check_cluster_limit(running.n_running(), 0, now);
    let n_pods = running.workload_sizes();
    let limits = limiter.in_use(|workload| n_pods.get(workload).copied().unwrap_or(0));
    Ok(LimitsInUse { stopped_until, limits })
}

/// How a pod without a feasible node is held.
#[derive(Clone, Copy, Debug)]
pub struct PodHold {
    pub period: HoldPeriod,
    /// Since when, if its condition says so.
    pub since: Option<Timestamp>,
}

/// What comes after "held until".
impl fmt::Display for PodHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.period, self.since.and_then(|since| self.period.until(since))) {
            (_, Some(until)) => write!(f, "{until:.0}"),
            (HoldPeriod::Always, None) => f.write_str("a node is feasible"),
            (HoldPeriod::For(duration), None) => {
                let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
                write!(f, "{duration:#} after its grace period")
            }
        }
    }
}

/// How long pods without a feasible node are held, and which evictions limits delay, as far as objects say.
pub struct HoldForecast<'a> {
    holds: &'a HoldOptions,
    running: Pods,
}

impl<'a> HoldForecast<'a> {
    /// `pods` are all pods of the cluster.
    pub fn new<'p>(holds: &'a HoldOptions, pods: impl IntoIterator<Item = &'p Pod>) -> HoldForecast<'a> {
        HoldForecast { holds, running: running(pods, Timestamp::UNIX_EPOCH) }
    }

    /// How a pod of the cluster is held.
    pub fn of(&self, namespace: &str, name: &str) -> Option<PodHold> {
        let pod = self.running.get(namespace, name)?;
        let period = self.running.hold(pod, namespace, self.running.n_replicas(&pod.workload), self.holds);
        Some(PodHold { period, since: pod.held.as_ref().map(|held| held.since) })
    }

    /// For each of these evictions, in order, the limit that delays it; none if it is not delayed.
    pub fn delays(&self, limits: &LimitOptions, evictions: &[&Remedy]) -> Vec<Option<String>> {
        // Within one window, the time does not matter; the rate is no reason to report.
        let now = Timestamp::UNIX_EPOCH;
        let limits = LimitOptions { evictions_per_second: f64::from(u32::MAX), ..limits.clone() };
        let mut limiter = EvictionLimiter::new(limits);
        limiter.check_cluster_limit(self.running.n_running(), evictions.len(), now);
        let mut delay = |remedy: &Remedy| {
            let victim = &remedy.victim;
            let pod = self.running.get(&victim.namespace, &victim.name)?;
            let name = format!("{}/{}", victim.namespace, victim.name);
            let candidate = Candidate {
                // Objects in files may have no uid.
                uid: &name,
                node: &victim.node,
                namespace: &victim.namespace,
                workload: &pod.workload.name,
                term: remedy.cures.first().map_or("", |key| key.term.as_str()),
                seen_at: pod.seen_at,
                n_workload_pods: self.running.n_of(&pod.workload),
            };
            let stopped = limiter.stops_all(evictions.len(), now);
            stopped.or_else(|| limiter.reserve(&candidate, now).err()).map(|throttled| throttled.cause())
        };
        evictions.iter().map(|remedy| delay(remedy)).collect()
    }

    /// Leaves out the held pods whose eviction would fix no rule: another pod that would have to be evicted with them is held until a
    /// node is feasible.
    pub fn leave_out_blocked(&self, remedies: &mut Vec<Remedy>) {
        leave_out_blocked(remedies, |victim| {
            let held = self.of(&victim.namespace, &victim.name);
            held.is_some_and(|held| held.period == HoldPeriod::Always)
        });
    }

    /// Namespace and name of the pods that are evicted at some time, although no node is feasible for them.
    pub fn not_for_ever(&self) -> Vec<(String, String)> {
        self.names_of(|held| held.period != HoldPeriod::Always)
    }

    fn names_of(&self, is_so: impl Fn(PodHold) -> bool) -> Vec<(String, String)> {
        let names = self.running.names().filter(|(ns, name)| self.of(ns, name).is_some_and(&is_so));
        names.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())).collect()
    }

    /// Namespace and name of the pods that are not held any more at a time: the hold of their condition is over, or they are not held
    /// at all.
    pub fn released(&self, now: Timestamp) -> Vec<(String, String)> {
        self.names_of(|held| held.period.until(held.since.unwrap_or(now)).is_some_and(|until| until <= now))
    }
}

/// How long a rule of a pod may be violated before an eviction.
pub fn grace_period(graces: &Graces, pod: &Pod, rule: ViolatedRule) -> Duration {
    let given = pod.metadata.annotation(GRACE_ANNOTATION).and_then(|text| parse_eviction_grace(text).ok());
    given.unwrap_or_else(|| graces.of(rule))
}

#[cfg(test)]
mod tests {
    use berth_engine::{Cluster, RemedyOptions, Settings, Violation};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ledger_counts_the_evictions_within_the_window() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let ledger = r#"{"evictions": [
            {"at": 1000, "uid": "a", "node": "n", "namespace": "d", "workload": "d/ReplicaSet/w", "term": "t"},
            {"at": 300000, "uid": "b", "node": "n", "namespace": "d", "workload": "d/ReplicaSet/w", "term": "t"},
            {"at": 400000, "uid": "c", "node": "m", "namespace": "d", "workload": "d/ReplicaSet/w", "term": "t"}],
            "stopped_at": 500000}"#;
        let in_use = |now: i64| limits_in_use(&LimitOptions::default(), [], ledger, at(now)).unwrap();
        let LimitsInUse { stopped_until, limits } = in_use(700);
        let of = |limited: &str, n_evictions, most, next: i64| LimitInUse {
            limited: limited.to_owned(),
            n_evictions,
            most: Some(most),
            next: at(next),
        };
        assert_eq!(stopped_until, Some(at(1100)));
        assert_eq!(
            limits,
            [
                of("cluster", 2, 5, 900),
                of("node m", 1, 10, 1000),
                of("node n", 1, 10, 900),
                of("namespace d", 2, 100, 900),
                of("workload d/ReplicaSet/w", 2, 1, 900),
            ]
        );
        assert_eq!(in_use(2000), LimitsInUse::default());
        assert_eq!(limits_in_use(&LimitOptions::default(), [], "{}", at(1)).unwrap(), LimitsInUse::default());
        assert!(limits_in_use(&LimitOptions::default(), [], "[", at(1)).is_err());
    }

    #[test]
    fn no_eviction_is_announced_that_fixes_no_rule_while_another_victim_stays() {
        let mut cluster = Cluster::new(Settings::default());
        let node = json!({"metadata": {"name": "node", "labels": {"kubernetes.io/hostname": "node"}}});
        cluster.set_node(&serde_json::from_value(node).unwrap());
        let term =
            json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}});
        let affinity =
            json!({"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term]}});
        let pod = |name: &str, app: &str, hold: Option<&str>, priority: i32| -> Pod {
            let annotations = json!({"scheduling.berth.dev/without-target": hold});
            let mut spec = json!({"nodeName": "node", "priority": priority, "containers": [{"name": "c"}]});
            if app == "owner" {
                spec["affinity"] = affinity.clone();
            }
            let metadata = json!({"namespace": "d", "name": name, "labels": {"app": app}});
            let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            if hold.is_some() {
                pod.metadata.annotations = serde_json::from_value(annotations).unwrap();
            }
            pod
        };
        let mut announced = |hold_of_first: Option<&str>| {
            let pods = [
                pod("owner", "owner", None, 9),
                pod("first", "x", hold_of_first, 1),
                pod("other", "x", None, 1),
            ];
            pods.iter().for_each(|pod| _ = cluster.set_pod(pod));
            let holds = HoldOptions::default();
            let forecast = HoldForecast::new(&holds, &pods);
            let keys: Vec<_> = cluster.violations().iter().map(Violation::key).collect();
            let mut remedies = cluster.remedy(&keys, &RemedyOptions::default()).remedies;
            forecast.leave_out_blocked(&mut remedies);
            remedies.into_iter().map(|remedy| remedy.victim.name).collect::<Vec<_>>()
        };
        assert_eq!(announced(Some("hold")), ["first"]);
        assert_eq!(announced(None), ["first", "other"]);
    }

    #[test]
    fn the_annotation_of_a_pod_replaces_the_grace_period_of_the_rule() {
        let (mut pod, graces) = (Pod::default(), Graces::default());
        let seconds = |pod: &Pod| {
            [ViolatedRule::NodeAffinity, ViolatedRule::PodAffinity, ViolatedRule::PodAntiAffinity]
                .map(|rule| grace_period(&graces, pod, rule).as_secs())
        };
        assert_eq!(seconds(&pod), [0, 300, 30]);
        pod.metadata.annotations.insert(GRACE_ANNOTATION.to_owned(), "2m".to_owned());
        assert_eq!(seconds(&pod), [120; 3]);
        pod.metadata.annotations.insert(GRACE_ANNOTATION.to_owned(), "soon".to_owned());
        assert_eq!(seconds(&pod), [0, 300, 30], "the enforcer reports it, and goes by the rule");
    }
}
