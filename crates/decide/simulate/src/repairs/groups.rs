//! Repairs of pod groups: changes of one kind, made for one failing member after the other, until the group is placed.

use std::collections::BTreeMap;

use berth_api::object::Pod;
use berth_api::syntax::shell::Command;
use berth_api::work::WorkBudget;
use berth_rebalance::Pending;

use super::change::{Change, FittingPods, Repair};
use super::commands;
use super::find::{KINDS, Kind};
use super::made::changed_pod;
use super::requests::{PLACE_STEPS, lacking_resources, least_reduction};
use crate::simulation::{FailingMember, GroupMember, GroupPlacement, SimulatedPod, Simulation};

/// Number of times that a change is made.
const MAX_STEPS: usize = 20;

impl Simulation {
    /// The cheapest repair of each kind after which the group of a pod is placed.
    pub(super) fn repairs_of_group(
        &mut self,
        namespace: &str,
        name: &str,
        budget: &WorkBudget,
    ) -> Vec<Repair> {
        let of_kind = |kind: &Kind| self.repair_of_group(namespace, name, *kind, budget);
        let mut found: Vec<_> = KINDS.iter().filter_map(of_kind).collect();
        if let Some(less) = self.least_reduction_of_group(namespace, name, budget) {
            found.retain(|repair| {
                !repair.changes.iter().all(|change| matches!(change, Change::RequestLess { .. }))
            });
            found.push(less);
        }
        found.extend(self.moves_for_group(namespace, name, budget));
        found.sort_by_key(Repair::rank);
        found
    }

    /// The fewest moves after which the group fits.
    fn moves_for_group(&mut self, namespace: &str, name: &str, budget: &WorkBudget) -> Option<Repair> {
        let key = self.pod(namespace, name)?.group.clone()?;
        let mut positions = self.placed_with(namespace, name);
        positions.retain(|position| self.pods[*position].is_unplaced());
        let group = Some(self.pending_group(&key, &positions));
        let members: Vec<_> = positions.into_iter().map(|position| self.pods[position].clone()).collect();
        let pending = Pending { pods: members.iter().map(|member| &member.pod).collect(), group };
        self.trial(members.first()?, None, budget).make_room(vec![pending])
    }

    /// The smallest reduction of the requests of all members alike after which the group is placed.
    fn least_reduction_of_group(
        &mut self,
        namespace: &str,
        name: &str,
        budget: &WorkBudget,
    ) -> Option<Repair> {
        let failing = self.explain_group(namespace, name)?.failing?;
        let target = SimulatedPod { pod: self.failing_pod(&failing), ..self.pods[failing.position].clone() };
        let others = self.assume_others(&failing);
        let problem = self.trial(&target, None, budget).problem();
        others.iter().for_each(|other| self.cluster.forget(other));
        let (member, members) = (self.pods[failing.position].clone(), self.placed_with(namespace, name));
        let requests = self.trial(&member, None, budget).requests();
        least_reduction(lacking_resources(&problem?), &requests, |repair| {
            budget.spend(members.len() * PLACE_STEPS).ok()?;
            let before: Vec<Pod> = members.iter().map(|i| self.pods[*i].pod.clone()).collect();
            let made = self.make(repair, namespace, name, failing.position);
            let placed = self.explain_group(namespace, name);
            for (i, pod) in members.iter().zip(before) {
                self.pods[*i].pod = pod;
            }
            let placed = placed.filter(|group| group.message.is_none())?;
            let is_member = |of: &&GroupMember| of.name == member.pod.metadata.name;
            let node = placed.members.iter().find(is_member)?.node.clone()?;
            Some(Repair { node, fits: fitting(&placed), ..made? })
        })
    }

    fn repair_of_group(
        &mut self,
        namespace: &str,
        name: &str,
        kind: Kind,
        budget: &WorkBudget,
    ) -> Option<Repair> {
        let mut changed: Option<Simulation> = None;
        let mut all: Option<Repair> = None;
        for _ in 0..MAX_STEPS {
            let simulation = changed.as_mut().unwrap_or(self);
            let group = simulation.explain_group(namespace, name)?;
            if group.message.is_none() {
                return all.map(|all| Repair { fits: fitting(&group), ..all });
            }
            let failing = group.failing?;
            let repair = simulation.repair_of_member(&failing, kind, budget)?;
            let simulation = changed.get_or_insert_with(|| self.clone());
            let repair = simulation.make(repair, namespace, name, failing.position)?;
            all = Some(match all {
                None => repair,
                Some(all) => all.and(repair),
            });
        }
        None
    }

    /// The cheapest change of a kind after which the failing member fits beside the others.
    fn repair_of_member(
        &mut self,
        failing: &FailingMember,
        kind: Kind,
        budget: &WorkBudget,
    ) -> Option<Repair> {
        let pod = SimulatedPod { pod: self.failing_pod(failing), ..self.pods[failing.position].clone() };
        let others = self.assume_others(failing);
        let mut trial = self.trial(&pod, None, budget);
        let found = trial.problem().and_then(|problem| kind(&mut trial, &problem));
        others.iter().for_each(|other| self.cluster.forget(other));
        // The domain of the group is no rule of its members.
        let added = failing.within.as_ref().map(|(key, _)| format!("spec.nodeSelector[{key}]"));
        let relaxes_added =
            |change: &Change| matches!(change, Change::Relax { term, .. } if Some(term) == added.as_ref());
        found.filter(|repair| !repair.changes.iter().any(relaxes_added))
    }

    /// Makes the changes; those of the member's rules and requests also for the members that are like it, whose commands are added.
    fn make(&mut self, mut repair: Repair, namespace: &str, name: &str, member: usize) -> Option<Repair> {
        // Moves are planned for the whole group; the new pod is not in the input; each member may have claims of its own.
        if repair.changes.iter().any(|change| change.is_of_others() || matches!(change, Change::Move { .. }))
        {
            return None;
        }
        self.change_nodes(&repair)?;
        if repair.changes_pod() {
            let before = self.pods[member].pod.clone();
            let workload = self.pods[member].workload.clone();
            for position in self.placed_with(namespace, name) {
                let pod = &self.pods[position];
                let is_like = pod.workload == workload && pod.pod.spec == before.spec && pod.is_unplaced();
                if !is_like {
                    continue;
                }
                let changed = changed_pod(&pod.pod, &repair)?;
                if workload.is_none() && position != member {
                    repair.commands.extend(commands_of(&pod.pod, &repair));
                }
                self.pods[position].pod = changed;
            }
        }
        Some(repair)
    }
}

/// How many members have a node.
fn fitting(group: &GroupPlacement) -> Option<FittingPods> {
    let fits = FittingPods { n_fit: group.n_placed, n_pods: group.n_pods };
    (fits.n_pods > 1).then_some(fits)
}

/// The commands that change a pod without a workload.
fn commands_of(pod: &Pod, repair: &Repair) -> Vec<Command> {
    let mut requests: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for change in &repair.changes {
        if let Change::RequestLess { container, resource, to, .. } = change {
            requests.entry(container).or_default().push((resource.clone(), to.clone()));
        }
    }
    let set = |(container, requests): (&str, Vec<(String, String)>)| {
        commands::set_requests(pod, None, container, &requests)
    };
    let mut commands: Vec<_> = requests.into_iter().map(set).collect();
    if !repair.patch.is_empty() {
        commands.push(commands::patch_template(pod, None, &repair.patch));
    }
    commands
}
