//! A rollout: the controller of a workload replaces pods by those of a new template.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::object::{NamespacedName, Node, Pod, UpdateStrategy};
use berth_api::read::Kind;
use berth_control::bounds::Bounds;
use berth_control::expand::{Belongs, DesiredReplicas, Expansion, RolledOut, belongs, target_node};
use berth_control::stateful_set::{Member, Spec, max_unavailable};
use berth_control::{daemon_set, deployment};
use berth_input::inventory::{Inventory, Workload, WorkloadSpec};

use super::pod::SimulatedPod;
use super::pods::Pods;
use super::progress::Progress;
use super::unadmitted::Unadmitted;

/// A rollout, as far as it is.
#[derive(Clone)]
pub(crate) struct Rollout {
    /// The kind of the workload.
    pub kind: Kind,
    /// Namespace and name of the workload.
    pub name: NamespacedName,
    /// How pods get the new template.
    pub strategy: Strategy,
    /// The number of pods of the new template.
    pub wanted: i32,
    /// The pods of the earlier template that are to go and exist.
    pub old: OldPods,
    /// Pods of the earlier template that are deleted before anything else.
    pub deleted_first: Vec<NamespacedName>,
    /// Those that are deleted, in this order.
    pub deleted: Vec<NamespacedName>,
    /// The pods of the new template that are not created so far: by ordinal, by the position of the node, or in any order.
    pub to_create: BTreeMap<i64, SimulatedPod>,
    /// Those that are, in this order.
    pub created: Vec<NamespacedName>,
    /// How many of these were there before the rollout: they replace no pod.
    pub n_present: usize,
    /// Whether it was not played to the end: that takes too much work.
    pub is_cut: bool,
}

/// A pod of the earlier template.
#[derive(Clone)]
pub(crate) struct OldPod {
    pub name: NamespacedName,
    /// The number of its ReplicaSet, the oldest first.
    pub replica_set: usize,
}

/// Pods of the earlier template, in the order in which they are given.
#[derive(Clone, Default)]
pub(crate) struct OldPods {
    pods: BTreeMap<usize, OldPod>,
    positions: HashMap<NamespacedName, usize>,
}

impl FromIterator<OldPod> for OldPods {
    fn from_iter<T: IntoIterator<Item = OldPod>>(pods: T) -> OldPods {
        let pods: BTreeMap<usize, OldPod> = pods.into_iter().enumerate().collect();
        OldPods { positions: pods.iter().map(|(at, pod)| (pod.name.clone(), *at)).collect(), pods }
    }
}

impl OldPods {
    pub fn iter(&self) -> impl Iterator<Item = &OldPod> {
        self.pods.values()
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    pub fn contains(&self, name: &NamespacedName) -> bool {
        self.positions.contains_key(name)
    }

    pub fn remove(&mut self, name: &NamespacedName) -> Option<OldPod> {
        self.pods.remove(&self.positions.remove(name)?)
    }
}

/// How pods get the new template.
#[derive(Clone)]
pub(crate) enum Strategy {
    Deployment(deployment::Spec, Option<Box<Progress>>),
    StatefulSet(Spec, Members),
    DaemonSet(Bounds, DaemonNodes),
}

/// The pods of a StatefulSet by ordinal.
#[derive(Clone, Default)]
pub(crate) struct Members {
    /// The state of each pod.
    pub states: BTreeMap<i64, Member>,
    /// The ordinals whose pods may have changed.
    pub changed: BTreeSet<i64>,
    /// How often pods had lost their nodes when that was looked at.
    pub n_vacated: usize,
}

#[derive(Clone, Default)]
pub(crate) struct DaemonNodes {
    /// The state of each node.
    pub states: Vec<daemon_set::OnNode>,
    /// The pods on each node, as in `states`, and whether each has the new template.
    pub pods: Vec<Vec<(NamespacedName, bool)>>,
    /// The nodes whose pods may have changed.
    pub changed: BTreeSet<usize>,
    /// How often pods had lost their nodes when that was looked at.
    pub n_vacated: usize,
    positions: HashMap<String, usize>,
}

impl DaemonNodes {
    fn new(RolledPods { old, created, new }: &RolledPods<'_>) -> DaemonNodes {
        let should_run: BTreeSet<&str> =
            new.iter().chain(*created).filter_map(|pod| target_node(pod)).collect();
        let mut pods: BTreeMap<&str, Vec<(NamespacedName, bool)>> =
            should_run.iter().map(|node| (*node, Vec::new())).collect();
        let old = old.iter().map(|pod| (pod, false));
        for (pod, is_new) in old.chain(created.iter().map(|pod| (pod, true))) {
            let on = target_node(pod).unwrap_or_default();
            pods.entry(on).or_default().push((pod.metadata.namespaced_name(), is_new));
        }
        // Pods that may not continue are deleted before the rollout.
        let state = |node: &&str| daemon_set::OnNode {
            should_run: should_run.contains(node),
            should_continue: true,
            pods: Vec::new(),
        };
        DaemonNodes {
            states: pods.keys().map(state).collect(),
            changed: (0..pods.len()).collect(),
            n_vacated: 0,
            positions: pods.keys().enumerate().map(|(i, node)| ((*node).to_owned(), i)).collect(),
            pods: pods.into_values().collect(),
        }
    }
}

impl Rollout {
    /// The rollouts of an inventory, each with its workload by the position there. They are taken out of the expansion: the pods of the
    /// earlier template stay.
    pub fn all(inventory: &Inventory, expansion: &mut Expansion) -> Vec<(usize, Rollout)> {
        let rolled_out = std::mem::take(&mut expansion.rolled_out);
        for name in rolled_out.iter().flat_map(|of| &of.old) {
            expansion.deleted.remove(name);
        }
        if rolled_out.is_empty() {
            return Vec::new();
        }
        let mut new: HashMap<usize, Vec<&Pod>> = HashMap::new();
        expansion.pods.iter().for_each(|pod| new.entry(pod.workload).or_default().push(&pod.pod));
        let pods = inventory.pods.iter().map(|entry| &entry.object);
        let pods: HashMap<_, _> = pods.map(|pod| (pod.metadata.namespaced_name(), pod)).collect();
        let desired = DesiredReplicas::new(inventory);
        let rollout = |RolledOut { workload, mut old, surplus, new: created }: RolledOut| {
            old.extend(surplus);
            let named = |names: &[NamespacedName]| {
                names.iter().filter_map(|name| pods.get(name).copied()).collect::<Vec<_>>()
            };
            let new = new.get(&workload).map_or(&[][..], Vec::as_slice);
            let (old, created) = (named(&old), named(&created));
            let pods = RolledPods { old: &old, created: &created, new };
            (workload, Rollout::new(inventory, &desired, workload, &pods))
        };
        rolled_out.into_iter().map(rollout).collect()
    }

    fn new(
        inventory: &Inventory,
        desired: &DesiredReplicas<'_>,
        workload: usize,
        pods: &RolledPods<'_>,
    ) -> Rollout {
        let workload = &inventory.workloads[workload].object;
        let n_new = i32::try_from(pods.new.len() + pods.created.len()).unwrap_or(i32::MAX);
        let replicas = desired.of(workload).map_or(n_new, |replicas| replicas.max(0));
        let sets = replica_sets(inventory, pods.old);
        let replica_set = |pod: &Pod| {
            let owner = pod.metadata.controller();
            owner.and_then(|owner| sets.iter().position(|set| *set == owner.name)).unwrap_or(0)
        };
        let name = workload.metadata().namespaced_name();
        Rollout::replacing(&UpdateRule::of(workload), name, replicas, pods, replica_set)
    }

    /// The rollout in which new pods replace old ones, each of the ReplicaSet of a number, the oldest first.
    pub fn replacing(
        rule: &UpdateRule,
        name: NamespacedName,
        replicas: i32,
        pods: &RolledPods<'_>,
        replica_set: impl Fn(&Pod) -> usize,
    ) -> Rollout {
        let old_pod =
            |pod: &&Pod| OldPod { name: pod.metadata.namespaced_name(), replica_set: replica_set(pod) };
        Rollout {
            kind: rule.kind,
            name,
            strategy: rule.strategy(replicas, pods),
            wanted: replicas,
            old: pods.old.iter().map(old_pod).collect(),
            deleted_first: Vec::new(),
            deleted: Vec::new(),
            to_create: BTreeMap::new(),
            n_present: pods.created.len(),
            created: pods.created.iter().map(|pod| pod.metadata.namespaced_name()).collect(),
            is_cut: false,
        }
    }

    /// The pods of a StatefulSet that are not created, and are no pods of the simulation, as one before them is not available.
    pub fn not_created(
        &self,
        pods: &Pods,
        is_available: impl Fn(&NamespacedName) -> bool,
    ) -> Vec<(NamespacedName, Option<String>, Unadmitted)> {
        let Strategy::StatefulSet(spec, _) = &self.strategy else { return Vec::new() };
        let is_there = |name: &NamespacedName| pods.position(name.namespace(), name.name()).is_some();
        let mut before = spec.ordinals.clone().map(|ordinal| self.pod_name(ordinal));
        let Some(first) = before.find(|name| !is_available(name)) else { return Vec::new() };
        let to_create = self.to_create.values();
        let names = to_create.map(|pod| (pod.pod.metadata.namespaced_name(), pod.workload.clone()));
        let missing = names.filter(|(name, _)| !is_there(name) && *name != first);
        missing.map(|(name, of)| (name, of, Unadmitted::not_created_yet(first.name()))).collect()
    }

    /// Nodes are removed: pods that went with them are not replaced, and DaemonSets create none there.
    pub fn lose(&mut self, nodes: &[String], pods: &Pods) {
        let is_there = |name: &NamespacedName| pods.position(name.namespace(), name.name()).is_some();
        let gone: Vec<_> = self.old.iter().filter(|old| !is_there(&old.name)).collect();
        let gone: Vec<_> = gone.into_iter().map(|old| old.name.clone()).collect();
        gone.iter().for_each(|name| _ = self.old.remove(name));
        self.n_present = self.created[..self.n_present].iter().filter(|name| is_there(name)).count();
        self.created.retain(is_there);
        let Strategy::DaemonSet(_, daemons) = &mut self.strategy else { return };
        for at in nodes.iter().filter_map(|node| daemons.positions.get(node)) {
            (daemons.states[*at].should_run, daemons.states[*at].should_continue) = (false, false);
            daemons.changed.insert(*at);
            i64::try_from(*at).into_iter().for_each(|at| _ = self.to_create.remove(&at));
        }
    }

    /// Nodes have changed: a DaemonSet has pods where they may run now.
    pub fn follow(&mut self, nodes: &[Node], pods: &Pods) {
        let Strategy::DaemonSet(_, daemons) = &mut self.strategy else { return };
        let created = self.created.iter().filter_map(|name| pods.position(name.namespace(), name.name()));
        let created = created.map(|at| &pods[at]);
        let Some(mut pod) = created.chain(self.to_create.values()).next().map(|pod| pod.pod.clone()) else {
            return;
        };
        for node in nodes {
            let Some(at) = daemons.positions.get(&node.metadata.name) else { continue };
            let Belongs { should_run, should_continue } = belongs(&mut pod, node);
            (daemons.states[*at].should_run, daemons.states[*at].should_continue) =
                (should_run, should_continue);
            daemons.changed.insert(*at);
            if !should_run {
                i64::try_from(*at).into_iter().for_each(|at| _ = self.to_create.remove(&at));
            }
        }
    }

    /// Adds a pod that is to be created.
    pub fn add(&mut self, pod: SimulatedPod) {
        let at = match &self.strategy {
            Strategy::StatefulSet(..) => ordinal(&pod.pod.metadata.name),
            Strategy::DaemonSet(_, nodes) => {
                let node = target_node(&pod.pod).and_then(|node| nodes.positions.get(node));
                node.and_then(|at| i64::try_from(*at).ok())
            }
            Strategy::Deployment(..) => i64::try_from(self.to_create.len()).ok(),
        };
        self.to_create.insert(at.unwrap_or(-1), pod);
    }

    /// Replaces the strategy. The pods of a StatefulSet and the nodes of a DaemonSet stay.
    pub fn set_strategy(&mut self, strategy: Strategy) {
        match (&mut self.strategy, strategy) {
            (Strategy::DaemonSet(bounds, _), Strategy::DaemonSet(new, _)) => *bounds = new,
            (Strategy::StatefulSet(spec, _), Strategy::StatefulSet(new, _)) => *spec = new,
            (strategy, new) => *strategy = new,
        }
    }

    /// The pod of an ordinal of a StatefulSet.
    pub fn pod_name(&self, ordinal: i64) -> NamespacedName {
        NamespacedName::new(self.name.namespace(), &format!("{}-{ordinal}", self.name.name()))
    }

    /// The number of its pods, old and new.
    pub fn n_pods(&self) -> usize {
        self.old.len() + self.n_new()
    }

    /// The number of pods of the new template, created or not.
    pub fn n_new(&self) -> usize {
        self.to_create.len() + self.created.len()
    }
}

/// The ordinal of a pod of a StatefulSet.
pub(crate) fn ordinal(pod: &str) -> Option<i64> {
    pod.rsplit_once('-')?.1.parse().ok()
}

/// The pods of a rollout.
pub(crate) struct RolledPods<'a> {
    /// Those that are to go.
    pub old: &'a [&'a Pod],
    /// Those of the new template that exist.
    pub created: &'a [&'a Pod],
    /// Those that are to come.
    pub new: &'a [&'a Pod],
}

/// What a workload says about how its pods get a new template.
#[derive(Clone, PartialEq)]
pub(crate) struct UpdateRule {
    pub kind: Kind,
    update: UpdateStrategy,
    is_paused: bool,
    is_parallel: bool,
    /// The first ordinal of a StatefulSet.
    start: i32,
}

impl UpdateRule {
    pub fn of(workload: &Workload) -> UpdateRule {
        let kind = workload.kind();
        let (WorkloadSpec::Deployment(of) | WorkloadSpec::StatefulSet(of) | WorkloadSpec::DaemonSet(of)) =
            &workload.spec
        else {
            let update = UpdateStrategy::default();
            return UpdateRule { kind, update, is_paused: false, is_parallel: false, start: 0 };
        };
        let spec = &of.spec;
        let is_deployment = kind == Kind::Deployment;
        UpdateRule {
            kind,
            update: if is_deployment { spec.strategy.clone() } else { spec.update_strategy.clone() },
            is_paused: is_deployment && spec.paused,
            is_parallel: spec.pod_management_policy == "Parallel",
            start: spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start.max(0)),
        }
    }

    /// Whether the controller replaces all pods by itself.
    pub fn replaces_all(&self) -> bool {
        self.update.kind != "OnDelete" && self.update.rolling_update.partition <= 0 && !self.is_paused
    }

    /// Whether that includes pods that are not ready: an ordered StatefulSet waits for those of its earlier template.
    pub fn replaces_unready(&self) -> bool {
        self.replaces_all() && (self.kind != Kind::StatefulSet || self.is_parallel)
    }

    fn strategy(&self, replicas: i32, pods: &RolledPods<'_>) -> Strategy {
        let rolling = &self.update.rolling_update;
        match self.kind {
            Kind::StatefulSet => {
                let start = i64::from(self.start);
                let ordinals = start..start + i64::from(replicas);
                let of_old = pods.old.iter().filter_map(|pod| ordinal(&pod.metadata.name));
                let members =
                    Members { changed: ordinals.clone().chain(of_old).collect(), ..Members::default() };
                let spec = Spec {
                    ordinals,
                    is_parallel: self.is_parallel,
                    is_on_delete: false,
                    partition: rolling.partition,
                    max_unavailable: max_unavailable(rolling.max_unavailable.as_deref(), replicas),
                    has_update: true,
                    burst: usize::MAX,
                };
                Strategy::StatefulSet(spec, members)
            }
            Kind::DaemonSet => {
                let (surge, unavailable) = (rolling.max_surge.as_deref(), rolling.max_unavailable.as_deref());
                let desired = i32::try_from(pods.new.len() + pods.created.len()).unwrap_or(i32::MAX);
                let bounds = Bounds::of_daemon_set(surge, unavailable, desired);
                Strategy::DaemonSet(bounds, DaemonNodes::new(pods))
            }
            _ => Strategy::Deployment(self.deployment_spec(replicas), None),
        }
    }

    /// What the sizes of the ReplicaSets of a Deployment with this number of pods depend on.
    pub fn deployment_spec(&self, replicas: i32) -> deployment::Spec {
        let rolling = &self.update.rolling_update;
        let rolling = (self.kind == Kind::Deployment && self.update.kind != "Recreate").then(|| {
            Bounds::of_deployment(rolling.max_surge.as_deref(), rolling.max_unavailable.as_deref(), replicas)
        });
        deployment::Spec { replicas, rolling, is_paused: self.is_paused, status_replicas: 0 }
    }
}

/// The names of the owners of pods, the oldest ReplicaSet first.
pub(crate) fn replica_sets<'a>(inventory: &Inventory, pods: &[&'a Pod]) -> Vec<&'a str> {
    let owners = pods.iter().filter_map(|pod| Some((pod, pod.metadata.controller()?.name.as_str())));
    let owners: BTreeSet<(&str, &str)> =
        owners.map(|(pod, owner)| (pod.metadata.namespace.as_str(), owner)).collect();
    if owners.len() < 2 {
        return owners.into_iter().map(|(_, owner)| owner).collect();
    }
    let created = inventory.workloads.iter().map(|entry| entry.object.metadata());
    let created = created.map(|m| ((m.namespace.as_str(), m.name.as_str()), m.creation_timestamp));
    let created: HashMap<_, _> = created.collect();
    let mut owners: Vec<_> = owners.into_iter().collect();
    owners.sort_by_key(|owner| (created.get(owner).copied().flatten(), *owner));
    owners.into_iter().map(|(_, owner)| owner).collect()
}
