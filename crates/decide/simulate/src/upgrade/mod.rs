//! What an upgrade of Kubernetes changes: the same cluster is decided as both versions do.
//!
//! An upgrade moves no running pod. The pending pods are placed as each version does; and to see where pods land when they are created
//! again, all of them are placed again, as [`compare`](crate::compare) does.

mod concerned;

use std::collections::BTreeSet;

use berth_api::feature_gates::{FeatureGate, FeatureGates, KubernetesVersion, VersionChange};
use berth_api::object::{NamespacedName, ObjectMeta};
use berth_input::inventory::Inventory;
use serde::Serialize;

use self::concerned::Concerned;
use crate::compare::{MovedPod, Side, compare};
use crate::{SimulationError, SimulationOptions};

/// API versions that are gone: the first version of Kubernetes without them, and what replaces them.
const REMOVED: &[(&str, KubernetesVersion, &str)] =
    &[("scheduling.k8s.io/v1alpha2", KubernetesVersion::V1_37, "scheduling.k8s.io/v1beta1")];

/// The differences of two versions for the objects of a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    pub from: KubernetesVersion,
    pub to: KubernetesVersion,
    /// Pending pods that are placed otherwise.
    pub pending: Vec<MovedPod>,
    /// Other pods that land elsewhere when all of them are created again.
    pub recreated: Vec<MovedPod>,
    /// Pods that are preempted then, for the pending pods, and were not before.
    pub preempted: Vec<PreemptedPod>,
    /// Rules and feature gates that change what they mean for objects of the cluster.
    pub rules: Vec<ChangedRule>,
    /// Objects whose API version is gone. They have to be deleted, or written in another version, before the upgrade.
    pub removed: Vec<RemovedApi>,
    /// Feature gates that are set and that the version after does not have, or locks.
    pub gates: Vec<String>,
    /// Why the configuration of the scheduler is not read any more, and what is ignored of it.
    pub configuration: Vec<String>,
    /// Whether the configuration is not read any more.
    pub is_refused: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptedPod {
    /// Its name, with the namespace.
    pub name: String,
    /// The pod that it is evicted for.
    pub by: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedRule {
    pub change: String,
    /// Its number in kubernetes/kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The first version that has it.
    pub since: KubernetesVersion,
    /// The objects that it concerns.
    pub objects: Vec<String>,
}

/// An object whose API version is gone.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedApi {
    /// Kind and name.
    pub object: String,
    pub api_version: String,
    /// The API version that replaces it.
    pub replacement: &'static str,
}

impl Upgrade {
    /// Compares both versions, whose options are the same otherwise.
    ///
    /// # Errors
    /// As [`Side::new`].
    pub fn new(
        inventory: &Inventory,
        [before, after]: [&SimulationOptions; 2],
    ) -> Result<Upgrade, SimulationError> {
        let sides = |replace_all| {
            let side = |options: &SimulationOptions| {
                Side::new(inventory.clone(), options.clone(), replace_all, |_, _| ())
            };
            Ok::<_, SimulationError>((side(before)?, side(after)?))
        };
        let (mut old, mut new) = sides(false)?;
        let key = berth_api::syntax::labels::HOSTNAME;
        let pending = compare(&mut old, &mut new, key).moved;
        let (mut old_again, mut new_again) = sides(true)?;
        let mut recreated = compare(&mut old_again, &mut new_again, key).moved;
        recreated.retain(|again| {
            let is_it = |pod: &MovedPod| (&pod.namespace, &pod.name) == (&again.namespace, &again.name);
            !pending.iter().any(is_it)
        });
        let [from, to] = [before, after].map(|options| options.settings.config.feature_gates.version);
        let concerned = Concerned { inventory, pods: old.simulation().pods() };
        Ok(Upgrade {
            from,
            to,
            pending,
            recreated,
            preempted: preempted(&old, &new),
            rules: changed_rules([before, after], &concerned),
            removed: removed(inventory, from, to),
            gates: Vec::new(),
            configuration: Vec::new(),
            is_refused: false,
        })
    }

    /// Whether nothing is worse than before: each pod has a node that had one, no other is preempted, and all objects and the
    /// configuration of the scheduler are read.
    pub fn is_harmless(&self) -> bool {
        let is_placed = |pod: &MovedPod| pod.to.is_some();
        self.pending.iter().chain(&self.recreated).all(is_placed)
            && self.preempted.is_empty()
            && self.removed.is_empty()
            && !self.is_refused
    }
}

fn preempted(old: &Side, new: &Side) -> Vec<PreemptedPod> {
    let of = |side: &Side| -> BTreeSet<(NamespacedName, NamespacedName)> {
        let pods = side.simulation().pods().iter();
        let evicted =
            pods.filter_map(|pod| Some((pod.pod.metadata.namespaced_name(), pod.preempted_by.clone()?)));
        evicted.collect()
    };
    let before: BTreeSet<NamespacedName> = of(old).into_iter().map(|(name, _)| name).collect();
    let after = of(new).into_iter().filter(|(name, _)| !before.contains(name));
    after.map(|(name, by)| PreemptedPod { name: name.to_string(), by: by.to_string() }).collect()
}

fn changed_rules([before, after]: [&SimulationOptions; 2], concerned: &Concerned<'_>) -> Vec<ChangedRule> {
    let [old, new] = [before, after].map(|options| options.settings.config.feature_gates);
    let changes = VersionChange::all().iter().filter(|row| old.has(row.change) != new.has(row.change));
    let changes = changes.map(|row| ChangedRule {
        change: row.text.to_owned(),
        number: row.number,
        since: row.from,
        objects: concerned.by_change(row.change),
    });
    let (old_names, new_names) = (old.names(), new.names());
    let gates = FeatureGate::all().iter().filter_map(|gate| {
        let is_on = new_names.contains(&gate.name);
        (old_names.contains(&gate.name) != is_on).then(|| ChangedRule {
            change: format!(
                "The feature gate {} is {}: {}",
                gate.name,
                if is_on { "on" } else { "off" },
                gate.in_berth.trim_start_matches("honoured: ")
            ),
            number: None,
            since: first_with(gate.name, is_on).unwrap_or(new.version),
            objects: concerned.by_gate(gate.name),
        })
    });
    changes.chain(gates).filter(|rule| !rule.objects.is_empty()).collect()
}

/// The first version in which a gate has this default, after one in which it does not.
fn first_with(name: &str, is_on: bool) -> Option<KubernetesVersion> {
    let has = |version: &KubernetesVersion| FeatureGates::from(*version).names().contains(&name) == is_on;
    KubernetesVersion::ALL.into_iter().skip_while(has).find(has)
}

fn removed(inventory: &Inventory, from: KubernetesVersion, to: KubernetesVersion) -> Vec<RemovedApi> {
    let name = |kind: &str, metadata: &ObjectMeta| format!("{kind} {}", metadata.namespaced_name());
    let groups = inventory.pod_groups.iter().map(|entry| &entry.object);
    let groups = groups.filter(|group| group.controller.is_none());
    let groups = groups.map(|group| (name("PodGroup", &group.metadata), &group.api_version));
    let workloads = inventory.group_workloads.iter().map(|entry| &entry.object);
    let workloads = workloads.map(|workload| (name("Workload", &workload.metadata), &workload.api_version));
    let removed = workloads.chain(groups).filter_map(|(object, api_version)| {
        let (_, _, replacement) =
            REMOVED.iter().find(|(old, gone, _)| old == api_version && from < *gone && to >= *gone)?;
        Some(RemovedApi { object, api_version: api_version.clone(), replacement })
    });
    removed.collect()
}
