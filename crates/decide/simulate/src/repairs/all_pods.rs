//! What a repair does for all pods that its commands change: those of the workload of the pod.
//!
//! A changed template is that of all its pods, which start again; other changes concern its pending pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{NamespacedName, Pod};
use berth_api::read::Kind;
use berth_api::work::WorkBudget;
use berth_control::expand::{pin, target_node};
use berth_engine::Cluster;
use jiff::Timestamp;

use super::change::{Change, FittingPods, Repair};
use super::made::changed_pod;
use super::requests::{PLACE_STEPS, lacking_resources, least_reduction};
use super::trial::Problem;
use crate::simulation::creation::Creation;
use crate::simulation::{
    Leaving, RolledPods, Rollout, Simulation, UnadmittedState, UpdateRule, volume_claims,
};

/// Workloads with more pods are not looked at as a whole.
const MAX_PODS: usize = 500;
/// The kinds whose pods of an earlier template are replaced.
const ROLLED_OUT: [&str; 3] = ["Deployment ", "StatefulSet ", "DaemonSet "];
/// The labels that tell the templates of a workload apart.
const REVISION_LABELS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

impl Simulation {
    /// Counts for each repair of a pod the pods of its workload that fit then. A reduction of requests is replaced by the smallest after
    /// which all of them fit, or this is added.
    pub(super) fn fit_all(
        &mut self,
        position: usize,
        problem: &Problem,
        found: &mut Vec<Repair>,
        budget: &WorkBudget,
    ) {
        found.retain(|repair| self.admits(position, repair));
        let Some(mut all) = AllPods::new(self, position, budget) else { return };
        for repair in &mut *found {
            repair.fits = all.fitting(repair).map(|(fits, _)| fits);
        }
        let relaxes =
            |repair: &Repair| repair.changes.iter().any(|change| matches!(change, Change::Relax { .. }));
        if !found.iter().any(relaxes) {
            found.extend(all.relax_terms_of_all(problem));
        }
        let known = found.iter().position(|repair| repair.reduced_resources().is_some());
        let mut sets = lacking_resources(problem);
        // Beside the others as they are, a pod may need less than if all of them request less.
        if let Some(known) =
            known.map(|at| &found[at]).filter(|known| known.fits.is_some_and(FittingPods::is_all))
        {
            sets.retain(|set| known.reduced_resources().as_ref() == Some(set));
        }
        if let Some(less) = all.least_reduction(sets) {
            match known {
                // It names the nearest node.
                Some(at) if (found[at].fits, &found[at].changes) == (less.fits, &less.changes) => {}
                Some(at) => found[at] = less,
                None => found.push(less),
            }
        }
    }
}

impl Simulation {
    /// Whether LimitRanges and ResourceQuotas admit the changed pod of a repair in the place of the pod.
    fn admits(&self, position: usize, repair: &Repair) -> bool {
        let target = &self.pods[position];
        if !repair.changes_pod() {
            return true;
        }
        let mut creation = self.creation.clone();
        if target.unadmitted.is_none() {
            creation.release(&target.pod);
        }
        changed_pod(&target.pod, repair).is_none_or(|pod| creation.charge(&pod).is_ok())
    }
}

/// The pods of a workload.
struct AllPods<'a> {
    simulation: &'a mut Simulation,
    budget: &'a WorkBudget,
    /// The pod that the repairs are for.
    position: usize,
    /// The positions of all that a change of its template concerns.
    all: Vec<usize>,
    /// As many as the workload has at one time, as pending pods of the template of this pod.
    pods: Vec<Pod>,
    /// Those of its template that have no node, each with whether it is created.
    pending: Vec<(Pod, bool)>,
    /// The number of those that have one.
    n_placed: usize,
    /// Whether decisions leave claims behind.
    has_claims: bool,
    /// The cluster without the pods of the workload.
    without: Option<Cluster>,
}

impl<'a> AllPods<'a> {
    /// None for a pod without a workload, and for the only pod of one.
    fn new(simulation: &'a mut Simulation, position: usize, budget: &'a WorkBudget) -> Option<AllPods<'a>> {
        let target = &simulation.pods[position];
        let workload = target.workload.clone()?;
        budget.spend(simulation.pods.len()).ok()?;
        let namespace = &target.pod.metadata.namespace;
        let is_of = |i: &usize| {
            let pod = &simulation.pods[*i];
            pod.workload.as_ref() == Some(&workload)
                && pod.pod.metadata.namespace == *namespace
                && pod.unadmitted.as_deref().is_none_or(|why| why.state == UnadmittedState::NotCreated)
                && !pod.pod.metadata.is_deleting()
        };
        let mut of_workload: Vec<usize> = (0..simulation.pods.len()).filter(is_of).collect();
        // What fits does not depend on the order in which pods came.
        of_workload.sort_by(|a, b| {
            let name = |i: &usize| &simulation.pods[*i].pod.metadata.name;
            name(a).cmp(name(b))
        });
        let mut by_template: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for i in of_workload.iter().filter(|_| of_workload.len() <= 2 * MAX_PODS) {
            by_template.entry(template(&simulation.pods[*i].pod)).or_default().push(*i);
        }
        let alike = by_template.get(&template(&target.pod))?.clone();
        let mut all = alike.clone();
        // Pods of an earlier template get the new one. Workloads of other kinds may have several templates at once.
        if ROLLED_OUT.iter().any(|kind| workload.starts_with(kind)) {
            all.extend(of_workload.iter().filter(|i| !alike.contains(i)));
        }
        let n_pods = by_template.values().map(Vec::len).max()?.min(all.len());
        if !(2..=MAX_PODS).contains(&n_pods) {
            return None;
        }
        let pending = |i: usize, is_alike: bool| {
            let mut pod = simulation.pods[i].pod.clone();
            if !is_alike {
                let node = target_node(&pod).filter(|_| pod.belongs_to_node()).map(str::to_owned);
                pod.spec = target.pod.spec.clone();
                pod.metadata.labels = target.pod.metadata.labels.clone();
                node.iter().for_each(|node| pin(&mut pod, node));
            }
            pod.spec.node_name.clear();
            pod
        };
        let pods = all.iter().take(n_pods).map(|i| pending(*i, alike.contains(i))).collect();
        let (placed, waiting): (Vec<usize>, Vec<usize>) =
            alike.iter().partition(|i| simulation.pods[**i].node().is_some());
        let is_created = |i: usize| simulation.pods[i].unadmitted.is_none();
        let pending = waiting.into_iter().map(|i| (pending(i, true), is_created(i))).collect();
        let has_claims =
            volume_claims(&target.pod).next().is_some() || simulation.may_need_devices(&target.pod);
        Some(AllPods {
            budget,
            position,
            pods,
            pending,
            n_placed: placed.len(),
            has_claims,
            all,
            without: None,
            simulation,
        })
    }

    /// How many fit after a repair, and the node of the pod that it is for; none where that is not known.
    fn fitting(&mut self, repair: &Repair) -> Option<(FittingPods, Option<String>)> {
        let is_unknown =
            |change: &Change| change.is_of_others() || matches!(change, Change::RemoveGates { .. });
        if repair.changes.iter().any(is_unknown) {
            return None;
        }
        if !repair.changes_pod() {
            let mut cluster = self.copy(&self.simulation.cluster)?;
            self.change(&mut cluster, repair)?;
            let creation = self.simulation.creation.clone();
            let pending = self.pending.iter().map(|(pod, is_created)| (pod, *is_created));
            let (n_fit, node) = self.place(&mut cluster, creation, pending)?;
            let n_pods = self.n_placed + self.pending.len();
            let fits = FittingPods { n_fit: self.n_placed + n_fit, n_pods };
            return (n_pods > 1).then_some((fits, node));
        }
        let pods: Vec<Pod> = self.pods.iter().map(|pod| changed_pod(pod, repair)).collect::<Option<_>>()?;
        if let Some(rule) = self.rolled_out_by(repair) {
            return self.roll_out(&rule, pods);
        }
        // They are created again.
        let mut creation = self.simulation.creation.clone();
        let created = self.all.iter().map(|i| &self.simulation.pods[*i]);
        created.filter(|pod| pod.unadmitted.is_none()).for_each(|pod| creation.release(&pod.pod));
        let again = pods.iter().map(|pod| (pod, false));
        let mut cluster = self.take_without()?;
        let placed = if self.has_claims || !repair.changes.iter().all(Change::is_of_pod) {
            let changed = self.copy(&cluster);
            changed.and_then(|mut changed| {
                self.change(&mut changed, repair)?;
                self.place(&mut changed, creation, again)
            })
        } else {
            self.place(&mut cluster, creation, again)
        };
        self.without = Some(cluster);
        let (n_fit, node) = placed?;
        Some((FittingPods { n_fit, n_pods: pods.len() }, node))
    }

    /// How pods that run get the template of a repair: their workload replaces them one after the other.
    fn rolled_out_by(&self, repair: &Repair) -> Option<UpdateRule> {
        let target = &self.simulation.pods[self.position];
        let has_running = self.all.iter().any(|i| self.simulation.pods[*i].was_running);
        // The rollouts of a simulation are played with each repair.
        let is_played = has_running && self.simulation.rollouts.is_empty();
        let workload = target.workload.as_deref().filter(|_| is_played)?;
        let rule = self.simulation.workloads.update_rule(&target.pod.metadata.namespace, workload);
        rule.filter(|rule| rule.replaces_all() && repair.changes.iter().all(Change::is_of_template)).cloned()
    }

    /// Plays the rollout of these pods, in which a pending pod that its StatefulSet does not replace is deleted first: how many have a node at its end, and the node of the
    /// first.
    fn roll_out(&self, rule: &UpdateRule, mut pods: Vec<Pod>) -> Option<(FittingPods, Option<String>)> {
        let steps = self.simulation.nodes.len() + self.simulation.pods.len();
        self.budget.spend(steps + 2 * pods.len() * PLACE_STEPS).ok()?;
        let mut simulation = self.simulation.clone();
        simulation.preempts = false;
        let target = &self.simulation.pods[self.position];
        let workload = target.workload.clone()?;
        let name = NamespacedName::new(&target.pod.metadata.namespace, workload.split_once(' ')?.1);
        let is_named = rule.kind == Kind::StatefulSet;
        if !is_named {
            pods.iter_mut().for_each(|pod| pod.metadata.name.push_str("-new"));
        }
        let old: Vec<&Pod> = self.all.iter().map(|i| &self.simulation.pods[*i].pod).collect();
        let owner = |pod: &Pod| pod.metadata.controller().map(|owner| owner.name.clone());
        let owners: BTreeSet<_> = old.iter().map(|pod| owner(pod)).collect();
        let replica_set = |pod: &Pod| owners.iter().position(|of| *of == owner(pod)).unwrap_or(0);
        let new: Vec<&Pod> = pods.iter().collect();
        let rolled = RolledPods { old: &old, created: &[], new: &new };
        let replicas = i32::try_from(pods.len()).ok()?;
        let mut rollout = Rollout::replacing(rule, name, replicas, &rolled, replica_set);
        if !rule.replaces_unready() {
            rollout.deleted_first.push(target.pod.metadata.namespaced_name());
        }
        let n_pods = pods.len();
        for pod in pods {
            rollout.add(simulation.simulated(pod, None, Some(workload.clone())));
        }
        simulation.rollouts = vec![rollout];
        simulation.advance(Leaving::default(), Timestamp::UNIX_EPOCH, |_, _| ());
        let created = simulation.rollouts[0].created.iter();
        let nodes = created.filter_map(|name| simulation.pod(name.namespace(), name.name())?.node());
        let nodes: Vec<&str> = nodes.collect();
        Some((FittingPods { n_fit: nodes.len(), n_pods }, nodes.first().map(|node| (*node).to_owned())))
    }

    /// The cluster without the pods of the workload, to be given back.
    fn take_without(&mut self) -> Option<Cluster> {
        if let Some(cluster) = self.without.take() {
            return Some(cluster);
        }
        let mut cluster = self.copy(&self.simulation.cluster)?;
        let pods = self.all.iter().map(|i| &self.simulation.pods[*i]).filter(|pod| pod.node().is_some());
        for pod in pods {
            cluster.remove_pod(&pod.pod.metadata.namespace, &pod.pod.metadata.name);
        }
        Some(cluster)
    }

    fn copy(&self, cluster: &Cluster) -> Option<Cluster> {
        self.budget.spend(self.simulation.nodes.len() + self.simulation.pods.len()).ok()?;
        Some(cluster.clone())
    }

    /// Makes the changes of nodes and other pods.
    fn change(&self, cluster: &mut Cluster, repair: &Repair) -> Option<()> {
        let (nodes, slices) = repair.nodes(&self.simulation.nodes, &self.simulation.devices)?;
        nodes.iter().for_each(|node| cluster.set_node(node));
        slices.iter().for_each(|slice| cluster.set_device_object(slice));
        for change in &repair.changes {
            let Change::Move { namespace, name, to, .. } = change else { continue };
            let mut pod = self.simulation.pod(namespace, name)?.pod.clone();
            pod.spec.node_name.clear();
            cluster.remove_pod(namespace, name);
            let pod = cluster.prepare(&pod);
            cluster.assume(&pod, to);
        }
        Some(())
    }

    /// Creates pods that are not created, places all one after the other, and takes them back: the number of those with a node, and the
    /// node of the pod of the repair.
    fn place<'p>(
        &self,
        cluster: &mut Cluster,
        mut creation: Creation,
        pods: impl Iterator<Item = (&'p Pod, bool)>,
    ) -> Option<(usize, Option<String>)> {
        let name = &self.simulation.pods[self.position].pod.metadata.name;
        let (mut placed, mut node) = (Vec::new(), None);
        for (pod, is_created) in pods {
            self.budget.spend(PLACE_STEPS).ok()?;
            if !is_created && creation.charge(pod).is_err() {
                continue;
            }
            let prepared = cluster.prepare(pod);
            if let Some(on) = cluster.place(&prepared).node() {
                node = node.or_else(|| (pod.metadata.name == *name).then(|| on.to_owned()));
                placed.push(prepared);
            }
        }
        placed.iter().for_each(|pod| cluster.forget(pod));
        Some((placed.len(), node))
    }

    /// The rules about pods that reject each other: relaxed for one pod alone, those of the others still reject it.
    fn relax_terms_of_all(&mut self, problem: &Problem) -> Option<Repair> {
        let target = self.simulation.pods[self.position].clone();
        let repair = self.simulation.trial(&target, None, self.budget).relax_terms(problem)?;
        let (fits, node) = self.fitting(&repair)?;
        Some(Repair { fits: Some(fits), node: node?, ..repair })
    }

    /// The smallest reduction of the requests of one of these sets of resources after which all pods fit.
    fn least_reduction(&mut self, sets: Vec<BTreeSet<String>>) -> Option<Repair> {
        let target = self.simulation.pods[self.position].clone();
        let requests = self.simulation.trial(&target, None, self.budget).requests();
        least_reduction(sets, &requests, |repair| {
            let (fits, node) = self.fitting(&repair).filter(|(fits, _)| fits.is_all())?;
            Some(Repair { fits: Some(fits), node: node?, ..repair })
        })
    }
}

/// What tells the pods of different templates of a workload apart.
fn template(pod: &Pod) -> impl Ord + use<> {
    let labels = REVISION_LABELS.map(|key| pod.metadata.labels.get(key).cloned());
    let containers = pod.spec.containers.iter();
    let containers = containers.map(|c| (c.name.clone(), c.resources.requests.clone()));
    (labels, containers.collect::<Vec<_>>())
}
