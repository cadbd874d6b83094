//! Disruption budgets: how many of their pods must stay healthy, as the disruption controller of kube-controller-manager counts them.

use std::collections::{BTreeMap, HashMap};

use crate::expand::DesiredReplicas;
use berth_api::fenceposts::{clamp, desired_healthy, evicts_unready};
use berth_api::object::{NamespacedName, OwnerReference, Pod, PodDisruptionBudget};
use berth_input::inventory::Inventory;
use berth_rules::Selector;
use serde_json::Value;

/// The number of pods that a controller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The top-level controller, by any text that names it, and its number.
    Of(String, i32),
    /// It is not known: the pods that it has are as many as it wants.
    OfItsPods(String),
    /// It has none: a Job, a DaemonSet, a node.
    No,
}

/// What a budget demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The number of pods that it is about.
    pub expected: i32,
    /// How many of them must be healthy.
    pub desired_healthy: i32,
}

/// What a budget with these limits demands of pods with these controllers. All pods that its selector matches count, ended ones too.
///
/// # Errors
/// The number is relative to the scale of controllers, and one has none: the text names it. No disruption is allowed.
pub fn demand<'a>(
    min_available: Option<&Value>,
    max_unavailable: Option<&Value>,
    controllers: impl Iterator<Item = Option<&'a OwnerReference>>,
    scale_of: impl Fn(&OwnerReference) -> Scale,
) -> Result<Demand, String> {
    let is_relative = max_unavailable.is_some() || min_available.is_some_and(Value::is_string);
    let (mut n_pods, mut wanted) = (0, BTreeMap::new());
    for controller in controllers {
        n_pods += 1;
        // Pods without a controller add nothing.
        let Some(owner) = controller.filter(|_| is_relative) else { continue };
        match scale_of(owner) {
            Scale::Of(name, n) => _ = wanted.insert(name, i64::from(n)),
            Scale::OfItsPods(name) => *wanted.entry(name).or_default() += 1,
            Scale::No => {
                return Err(format!(
                    "{} {} has no scale: use an integer minAvailable",
                    owner.kind, owner.name
                ));
            }
        }
    }
    let wanted = clamp(wanted.into_values().sum());
    let (expected, desired_healthy) = desired_healthy(min_available, max_unavailable, clamp(n_pods), wanted);
    Ok(Demand { expected, desired_healthy })
}

/// The scales of the controllers in an input.
#[derive(Debug, Default)]
pub struct Scales {
    /// By namespace, kind and name: the owner, or the number of pods.
    known: HashMap<(String, String, String), Known>,
}

#[derive(Debug)]
enum Known {
    Owned(OwnerReference),
    Replicas(i32),
}

/// The kinds whose pods have no scale, although they control them.
const WITHOUT_SCALE: [&str; 4] = ["Job", "CronJob", "DaemonSet", "Node"];

impl Scales {
    /// The scales of the workloads of an input.
    pub fn new(inventory: &Inventory) -> Scales {
        let desired = DesiredReplicas::new(inventory);
        let known = inventory.workloads.iter().filter_map(|entry| {
            let (workload, metadata) = (&entry.object, entry.object.metadata());
            let key = (metadata.namespace.clone(), workload.kind().name().to_owned(), metadata.name.clone());
            let known = match metadata.controller() {
                Some(owner) => Known::Owned(owner.clone()),
                None => Known::Replicas(desired.of(workload)?),
            };
            Some((key, known))
        });
        Scales { known: known.collect() }
    }

    /// The scale of a controller of pods.
    fn of(&self, namespace: &str, owner: &OwnerReference) -> Scale {
        let name = format!("{} {}", owner.kind, owner.name);
        match self.known.get(&(namespace.to_owned(), owner.kind.clone(), owner.name.clone())) {
            // No owner of an owner has an owner: the recursion ends.
            Some(Known::Owned(top)) if top.kind != owner.kind => self.of(namespace, top),
            Some(Known::Replicas(replicas)) => Scale::Of(name, *replicas),
            // Of a Deployment, whose ReplicaSet the input does not have: the name ends with the hash of the template.
            None if owner.kind == "ReplicaSet"
                && let Some((deployment, _)) = owner.name.rsplit_once('-')
                && let Some(Known::Replicas(replicas)) = self.known.get(&(
                    namespace.to_owned(),
                    "Deployment".to_owned(),
                    deployment.to_owned(),
                )) =>
            {
                Scale::Of(format!("Deployment {deployment}"), *replicas)
            }
            _ if WITHOUT_SCALE.contains(&owner.kind.as_str()) => Scale::No,
            _ => Scale::OfItsPods(name),
        }
    }
}

/// A budget and what it allows.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Namespace and name of the object.
    pub name: NamespacedName,
    selector: Selector,
    unhealthy_pod_eviction_policy: String,
    /// How many pods must be healthy. No disruption is ever allowed if that cannot be counted, for this reason.
    desired: Result<i64, String>,
    /// How many healthy pods it had when it was counted, and how many of them could go; less than 0 if pods are missing.
    counted: (i64, i64),
}

impl Budget {
    /// A budget that has not been counted: it allows nothing.
    pub fn new(object: &PodDisruptionBudget) -> Budget {
        Budget {
            name: object.metadata.namespaced_name(),
            selector: Selector::parse(object.spec.selector.as_ref()).unwrap_or(Selector::Nothing),
            unhealthy_pod_eviction_policy: object.spec.unhealthy_pod_eviction_policy.clone(),
            desired: Ok(0),
            counted: (0, 0),
        }
    }

    /// Counts the pods that it covers, ended ones too; each with whether it runs and is ready. What the status of the object says is
    /// taken from there, if there is one: the input may lack pods.
    pub fn count<'a>(
        &mut self,
        object: &PodDisruptionBudget,
        scales: &Scales,
        covered: impl Iterator<Item = (&'a Pod, bool)> + Clone,
    ) {
        let counts = |(pod, is_healthy): &(&Pod, bool)| {
            *is_healthy && !pod.is_terminal() && !pod.metadata.is_deleting()
        };
        let n_healthy = i64::try_from(covered.clone().filter(counts).count()).unwrap_or(i64::MAX);
        let controllers = covered.map(|(pod, _)| pod.metadata.controller());
        let (min, max) = (&object.spec.min_available, &object.spec.max_unavailable);
        let (min, max) = (Some(min).filter(|n| !n.is_null()), Some(max).filter(|n| !n.is_null()));
        let demand = demand(min, max, controllers.clone(), |owner| scales.of(self.name.namespace(), owner));
        let status = &object.status;
        let demand = demand.and_then(|demand| match demand.expected {
            ..=0 if controllers.clone().next().is_some() => {
                Err("its number is relative to what controllers want, and its pods have none".to_owned())
            }
            _ => Ok(demand),
        });
        self.desired = demand.map(|demand| status.desired_healthy.unwrap_or(demand.desired_healthy).into());
        let desired = self.desired.as_ref().copied().unwrap_or(i64::MAX);
        let spare = match (status.disruptions_allowed, status.current_healthy) {
            (Some(allowed), _) if allowed > 0 => i64::from(allowed),
            (Some(_), Some(current)) => (i64::from(current) - desired).min(0),
            (Some(_), None) => 0,
            (None, _) => n_healthy - desired,
        };
        self.counted = (n_healthy, spare);
    }

    /// Whether the budget is about a pod. As in the API server, an empty selector covers all pods of the namespace.
    pub fn covers(&self, pod: &Pod) -> bool {
        let labels = &pod.metadata.labels;
        self.name.namespace() == pod.metadata.namespace
            && self.selector.matches(|key| labels.get(key).map(String::as_str))
    }

    /// How many pods may be evicted once this many are healthy; less than 0 if pods are missing.
    pub fn allowed(&self, n_healthy: i64) -> i64 {
        let (counted, spare) = self.counted;
        if self.desired.is_ok() { spare + n_healthy - counted } else { 0 }
    }

    /// Whether a pod that is not ready may go if so many of the healthy ones may.
    pub fn evicts_unready(&self, allowed: i64) -> bool {
        // Nothing is known of a budget that cannot be counted: it is not met.
        let (n_healthy, desired) =
            self.desired.as_ref().map_or((0, 0), |desired| (desired + allowed, *desired));
        evicts_unready(&self.unhealthy_pod_eviction_policy, n_healthy, desired)
    }

    /// Why it never allows an eviction, if that is so.
    pub fn failure(&self) -> Option<&str> {
        self.desired.as_ref().err().map(String::as_str)
    }
}
