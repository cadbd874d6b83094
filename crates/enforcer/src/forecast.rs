//! Which evictions an enforcer that has evicted nothing yet would delay: for reports about a cluster.

use core::time::Duration;

use berth_api::object::Pod;
use berth_engine::{Remedy, ViolatedRule};
use jiff::Timestamp;

use crate::limiter::{Candidate, EvictionLimiter, LimitOptions};
use crate::options::{GRACE_ANNOTATION, Graces};
use crate::pods::{Pods, grace};

/// For each of these evictions, in order, the limit that delays it; none if it is not delayed. `pods` are all pods of the
/// cluster.
pub fn delayed_evictions<'a>(
    limits: &LimitOptions,
    pods: impl IntoIterator<Item = &'a Pod>,
    evictions: &[&Remedy],
) -> Vec<Option<String>> {
    // Within one window, the time does not matter; the rate is no reason to report.
    let now = Timestamp::UNIX_EPOCH;
    let limits = LimitOptions { evictions_per_second: f64::from(u32::MAX), ..limits.clone() };
    let mut running = Pods::default();
    for pod in pods {
        running.set(pod, now);
    }
    let mut limiter = EvictionLimiter::new(limits);
    limiter.check_cluster_limit(running.n_running(), evictions.len(), now);
    let mut delay = |remedy: &Remedy| {
        let victim = &remedy.victim;
        let pod = running.get(&victim.namespace, &victim.name)?;
        let name = format!("{}/{}", victim.namespace, victim.name);
        let candidate = Candidate {
            // Objects in files may have no uid.
            uid: &name,
            node: &victim.node,
            namespace: &victim.namespace,
            workload: &pod.workload.name,
            term: remedy.cures.first().map_or("", |key| key.term.as_str()),
            seen_at: pod.seen_at,
            n_workload_pods: running.n_of(&pod.workload),
        };
        let stopped = limiter.stops_all(evictions.len(), now);
        stopped.or_else(|| limiter.reserve(&candidate, now).err()).map(|throttled| throttled.cause())
    };
    evictions.iter().map(|remedy| delay(remedy)).collect()
}

/// How long a rule of a pod may be violated before an eviction.
pub fn grace_period(graces: &Graces, pod: &Pod, rule: ViolatedRule) -> Duration {
    pod.metadata.annotation(GRACE_ANNOTATION).and_then(grace).unwrap_or_else(|| graces.of(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

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
