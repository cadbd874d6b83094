//! The status of placement policies: how many pods they select, whether they are valid, and which rules another policy
//! keeps out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::{
    Condition, NamespacedName, ObjectMeta, PartialObjectMetadata, Pod, Shared, StringMap, set_condition,
};
use berth_api::read::from_value;
use berth_api::resource::{CLUSTER_PLACEMENT_POLICIES, PLACEMENT_POLICIES};
use berth_api::work::WorkBudget;
use berth_client::KubeObject as _;
use berth_client::call::{self, CallError};
use berth_client::watch::Event;
use berth_input::policy::{APPLY_STEPS, PolicySet};
use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Observed, Stored};

const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest message of a condition, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// Namespace and labels: policies select all pods with equal values alike.
type Group = (String, Shared<StringMap>);

/// The pods of the cluster, counted by what policies select.
#[derive(Default)]
pub(super) struct MatchedPods {
    groups: HashMap<Group, usize>,
    /// Kept small: the pods of one workload share their labels.
    by_name: HashMap<NamespacedName, Group>,
}

impl MatchedPods {
    pub(super) fn apply(&mut self, event: Event<PartialObjectMetadata>) {
        match event {
            Event::Restarted(pods) => {
                *self = MatchedPods::default();
                pods.into_iter().for_each(|pod| self.insert(pod.metadata));
            }
            Event::Applied(pod) => self.insert(pod.metadata),
            Event::Deleted(pod) => {
                let (namespace, name) = pod.key();
                self.remove(&NamespacedName::new(namespace, name));
            }
        }
    }

    fn insert(&mut self, metadata: ObjectMeta) {
        let name = metadata.namespaced_name();
        self.remove(&name);
        let group = (metadata.namespace, metadata.labels);
        *self.groups.entry(group.clone()).or_default() += 1;
        self.by_name.insert(name, group);
    }

    fn remove(&mut self, name: &NamespacedName) {
        let Some(group) = self.by_name.remove(name) else { return };
        if let Some(n_pods) = self.groups.get_mut(&group) {
            *n_pods -= 1;
            if *n_pods == 0 {
                self.groups.remove(&group);
            }
        }
    }
}

/// Steps of the search for conflicts in all namespaces.
const STEPS: u64 = 16 * APPLY_STEPS;

/// What the policies do to the pods that exist.
#[derive(Default)]
struct Findings {
    /// By the key of the policy.
    n_matched: HashMap<String, usize>,
    conflicts: BTreeMap<String, BTreeSet<String>>,
}

impl Findings {
    fn of(set: &PolicySet, pods: &MatchedPods) -> Findings {
        let mut findings = Findings::default();
        // Conflicts beyond its budget are not found in a namespace, which takes nothing from others.
        let n_namespaces = pods.groups.keys().map(|(namespace, _)| namespace).collect::<HashSet<_>>().len();
        let steps = APPLY_STEPS.min(STEPS / n_namespaces.max(1) as u64);
        let mut budgets: HashMap<&str, WorkBudget> = HashMap::new();
        let mut applied: BTreeSet<Vec<String>> = BTreeSet::new();
        for ((namespace, labels), n_pods) in &pods.groups {
            let metadata =
                ObjectMeta { namespace: namespace.clone(), labels: labels.clone(), ..ObjectMeta::default() };
            let keys: Vec<_> = set.of(&metadata).map(|policy| policy.key()).collect();
            for key in &keys {
                *findings.n_matched.entry(key.clone()).or_default() += n_pods;
            }
            // Which of their rules meet depends on the policies alone.
            if keys.len() > 1 && applied.insert(keys) {
                let mut pod = Pod { metadata, ..Pod::default() };
                let budget = budgets.entry(namespace).or_insert_with(|| WorkBudget::new(steps));
                let Ok(applied) = set.apply_within(&mut pod, budget) else { continue };
                for (key, text) in applied.conflicts {
                    findings.conflicts.entry(key).or_default().insert(text);
                }
            }
        }
        findings
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyStatus {
    observed_generation: i64,
    matched_pods: usize,
    conditions: Vec<Condition>,
}

impl PolicyStatus {
    /// The status that a policy should have, with the transition times of the one it has.
    fn of(stored: &Stored, findings: &Findings, now: Timestamp) -> PolicyStatus {
        let key = stored.metadata.namespaced_name().to_string();
        let mut conditions = from_value::<PolicyStatus>(&stored.status).unwrap_or_default().conditions;
        let mut set =
            |condition_type: &str, found: Option<(&str, String)>, is_bad: (&str, &str), good: &str| {
                let (status, reason, message) = match found {
                    Some((reason, message)) => (is_bad.0, reason, cut(message)),
                    None => (is_bad.1, good, String::new()),
                };
                // A new message replaces the old one even if status and reason stay the same.
                if let Some(old) = conditions.iter_mut().find(|c| c.condition_type == condition_type) {
                    old.message.clone_from(&message);
                    old.observed_generation = stored.metadata.generation;
                }
                let mut new = Condition::new(condition_type, status, reason, message, now);
                new.observed_generation = stored.metadata.generation;
                set_condition(&mut conditions, new);
            };
        let invalid = stored.read.as_ref().err().map(|e| ("Invalid", e.to_string().replace('\n', "; ")));
        set("Valid", invalid, ("False", "True"), "Valid");
        let conflicts = findings.conflicts.get(&key);
        let conflicts =
            conflicts.map(|all| ("OtherPolicyFirst", Vec::from_iter(all.iter().cloned()).join("; ")));
        set("Conflicting", conflicts, ("True", "False"), "NoConflict");
        PolicyStatus {
            observed_generation: stored.metadata.generation,
            matched_pods: findings.n_matched.get(&key).copied().unwrap_or(0),
            conditions,
        }
    }
}

fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    message
}

/// The policies whose status differs from the one that they should have, and that.
fn differing(observed: &Observed) -> Vec<(Arc<Stored>, PolicyStatus)> {
    let findings = Findings::of(&observed.set(), &observed.pods);
    let with_status = |stored: Arc<Stored>| {
        let status = PolicyStatus::of(&stored, &findings, Timestamp::now());
        (stored, status)
    };
    let is_written = |(stored, status): &(Arc<Stored>, PolicyStatus)| {
        from_value::<PolicyStatus>(&stored.status).is_ok_and(|old| old == *status)
    };
    observed.policies().into_iter().map(with_status).filter(|policy| !is_written(policy)).collect()
}

/// Writes the status of policies where it differs from what was observed. Returns whether all of it is written.
pub(super) fn write(client: kube::Client, observed: &Observed) -> impl Future<Output = bool> + use<> {
    let differing = differing(observed);
    async move {
        let mut is_written = true;
        for (Stored { metadata, .. }, status) in differing.iter().map(|(stored, status)| (&**stored, status))
        {
            if let Err(error) = patch(&client, metadata, status).await
                && !error.is_not_found()
            {
                let name = metadata.namespaced_name();
                tracing::warn!("the status of placement policy {name} is not written: {error}");
                is_written = false;
            }
        }
        is_written
    }
}

async fn patch(client: &kube::Client, policy: &ObjectMeta, status: &PolicyStatus) -> Result<(), CallError> {
    let ObjectMeta { namespace, name, uid, .. } = policy;
    let resource = if namespace.is_empty() { CLUSTER_PLACEMENT_POLICIES } else { PLACEMENT_POLICIES };
    let path = format!("{}/status", resource.object_path(namespace, name));
    let body = json!({"metadata": {"uid": uid}, "status": status}).to_string();
    let content = "application/merge-patch+json";
    let request = call::with_body(Method::PATCH, &path, content, body.into_bytes());
    call::send(client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn stored(name: &str, spec: Value) -> Stored {
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let metadata = json!({"namespace": namespace, "name": name, "generation": 3});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn the_status_counts_pods_and_names_conflicts() {
        let spread = |skew: i32| {
            json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]})
        };
        let all = [stored("a", spread(1)), stored("team/b", spread(2)), stored("c", json!({}))];
        let mut observed = Observed {
            policies: [Arc::default(), Arc::default()],
            namespaces: Arc::default(),
            pods: MatchedPods::default(),
        };
        for stored in all {
            observed.policies[0].insert(Arc::new(stored));
        }
        let pod = |name: &str, namespace: &str| {
            let metadata = json!({"name": name, "namespace": namespace, "labels": {"app": "web"}});
            serde_json::from_value::<PartialObjectMetadata>(json!({"metadata": metadata})).unwrap()
        };
        let pods = vec![pod("1", "team"), pod("2", "team"), pod("3", "other")];
        observed.pods.apply(Event::Restarted(pods));
        observed.pods.apply(Event::Deleted(pod("2", "team")));
        observed.pods.apply(Event::Applied(pod("1", "team")));
        let findings = Findings::of(&observed.set(), &observed.pods);
        let shown = |name: &str| {
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let stored = observed.policies[0].get(&NamespacedName::new(namespace, name)).unwrap();
            let status = PolicyStatus::of(&stored, &findings, Timestamp::UNIX_EPOCH);
            let conditions =
                status.conditions.iter().map(|c| format!("{} {} {}", c.condition_type, c.status, c.message));
            format!(
                "{} {}: {}",
                status.observed_generation,
                status.matched_pods,
                Vec::from_iter(conditions).join(", ")
            )
        };
        assert_eq!(shown("a"), "3 2: Valid True , Conflicting False ");
        assert_eq!(
            shown("team/b"),
            "3 1: Valid True , Conflicting True spec.topologySpreadConstraints[0]: not applied: \
             ClusterPlacementPolicy a comes first"
        );
        assert_eq!(
            shown("c"),
            "3 0: Valid False spec: Required value: at least one of affinity, extendedAffinity, \
             topologySpreadConstraints, tolerations, Conflicting False "
        );
    }
}
