//! Pod groups in a simulation: all members that a group requires are placed at once, or none.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::group_placement::{DomainMembers, FailingMember, GroupMember, GroupPlacement, LevelPlacement};
use super::state::Simulation;
use berth_api::object::group::{
    AgreeingPod, Agreement, GroupIndex, GroupKind, GroupOwner, PodGroup, RemainingGroup, TopologyLevel,
    members_of_job, members_of_workload, n_replicas, rank,
};
use berth_api::object::{GroupKey, GroupRules, NamespacedName, Pod};
use berth_control::expand::DesiredReplicas;
use berth_engine::{Group, GroupDisruption, GroupLevel, GroupOutcome, Outcome, PreparedPod, RelaxedPod};
use berth_input::inventory::{Entry, Inventory, Workload, WorkloadSpec};
use berth_rules::admission::Priority;
use jiff::Timestamp;

/// What is placed at once: pods by position, with what the caller has of each.
pub(crate) enum Unit<T> {
    Pod(usize, T),
    Group(GroupKey, Vec<(usize, T)>),
}

impl Simulation {
    /// Pending pods as they are placed: each group in the place of its first member.
    pub(crate) fn units<T>(&self, pending: impl IntoIterator<Item = (usize, T)>) -> Vec<Unit<T>> {
        let mut units: Vec<Unit<T>> = Vec::new();
        let mut groups: HashMap<&GroupKey, usize> = HashMap::new();
        for (i, pod) in pending {
            let Some(key) = &self.pods[i].group else {
                units.push(Unit::Pod(i, pod));
                continue;
            };
            let at = *groups.entry(key).or_insert(units.len());
            match units.get_mut(at) {
                Some(Unit::Group(_, members)) => members.push((i, pod)),
                _ => units.push(Unit::Group(key.clone(), vec![(i, pod)])),
            }
        }
        for unit in &mut units {
            if let Unit::Group(_, members) = unit {
                members.sort_by_key(|(i, _)| rank(&self.pods[*i].pod));
            }
        }
        units
    }

    /// The positions of the pods that a pod is placed with, its own among them.
    pub(crate) fn placed_with(&self, namespace: &str, name: &str) -> Vec<usize> {
        let Some(pod) = self.pod(namespace, name) else { return Vec::new() };
        let is_with = |i: &usize| match &pod.group {
            Some(group) => self.pods[*i].group.as_ref() == Some(group),
            None => self.pods[*i].is_named(namespace, name),
        };
        (0..self.pods.len()).filter(is_with).collect()
    }

    /// Places the members of a group, if need be by preemption. Returns the positions of victims that a controller creates
    /// again.
    pub(super) fn place_group(&mut self, key: &GroupKey, members: &[(usize, PreparedPod)]) -> Vec<usize> {
        let mut replaced = Vec::new();
        let (placement, outcomes) = self.decide_group(key, members, |simulation, group| {
            let (outcome, relaxed) = simulation.decide_relaxed(members, group);
            simulation.cluster.take_group(relaxed.iter().map(|relaxed| &relaxed.pod), &outcome);
            let mut pods = Vec::new();
            for ((i, _), RelaxedPod { pod, paths }) in members.iter().zip(relaxed) {
                simulation.pods[*i].relaxed = paths.into();
                pods.push(pod);
            }
            let rules = simulation.groups.rules(key).flatten();
            let is_without = rules.is_some_and(|rules| rules.without_preemption.is_some());
            if !simulation.preempts || is_without || !matches!(outcome, GroupOutcome::Unplaced(_)) {
                return outcome;
            }
            let group = &Group { members: &pods, ..*group };
            let Some(found) = simulation.cluster.preempt_group(group, &simulation.budgets) else {
                return outcome;
            };
            for victim in &found.victims {
                let node = simulation.cluster.node_of(victim.namespace(), victim.name()).map(str::to_owned);
                let for_it = found.nodes.iter().position(|found| *found == node).unwrap_or(0);
                let preemptor = members[for_it].0;
                let by = simulation.pods[preemptor].pod.metadata.namespaced_name();
                replaced.extend(simulation.evict(victim, &by, &node.unwrap_or_default()));
                simulation.pods[preemptor].victims.push(victim.clone());
            }
            simulation.cluster.place_group(group)
        });
        for ((i, _), outcome) in members.iter().zip(outcomes) {
            self.decided(*i, outcome);
        }
        self.group_placements.insert(key.clone(), placement);
        replaced
    }

    /// Sets what the PodGroups of an input say of running pods, and the claims that their pods share; those that no API server has admitted have the priority of their
    /// class.
    pub(super) fn set_group_disruptions(&mut self, inventory: &Inventory) {
        let classes: Vec<_> = inventory.priority_classes.iter().map(|entry| entry.object.clone()).collect();
        let of = |Entry { object: group, .. }: &Entry<PodGroup>| {
            let mut disruption = GroupDisruption::from(group);
            let class = || {
                let class = group.spec.priority_class_name.as_deref()?;
                Some(Priority::of_class(class, None, "spec", &classes).ok()?.value)
            };
            disruption.priority = disruption.priority.or_else(class);
            (group.key(), disruption)
        };
        let now: BTreeMap<_, _> = inventory.pod_groups.iter().map(of).collect();
        for (key, _) in std::mem::take(&mut self.group_disruptions) {
            if !now.contains_key(&key) {
                self.cluster.remove_group(&key);
            }
        }
        now.iter().for_each(|(key, disruption)| self.cluster.set_group(key, disruption.clone()));
        let gates = self.cluster.settings().config.feature_gates;
        let groups = inventory.pod_groups.iter().map(|entry| &entry.object);
        let sharing = groups
            .filter(|group| gates.dra_workload_resource_claims && group.key().kind == GroupKind::Scheduling);
        self.devices.set_groups(&mut self.cluster, sharing.cloned());
        self.group_disruptions = now;
    }

    /// How many pods have to be placed with a pod, itself included.
    pub(crate) fn required_members(&self, pod: &Pod) -> usize {
        let rules = self.group_of(pod).and_then(|key| self.groups.rules(&key).flatten());
        rules.map_or(1, |rules| rules.min)
    }

    /// The name of the group that a pod is evicted with: one whose pods are disrupted together.
    pub(crate) fn group_evicted_with(&self, pod: &super::SimulatedPod) -> Option<String> {
        let key = pod.group.as_ref()?;
        self.group_disruptions.get(key).filter(|disruption| disruption.as_a_whole)?;
        Some(key.name.to_string())
    }

    /// How the pending members of a pod's group would be placed now, with those that have a node.
    pub fn explain_group(&mut self, namespace: &str, name: &str) -> Option<GroupPlacement> {
        let key = self.pod(namespace, name)?.group.clone()?;
        let mut all = self.placed_with(namespace, name);
        all.sort_by_key(|i| rank(&self.pods[*i].pod));
        let pending = all.iter().filter(|i| self.pods[**i].is_unplaced());
        let pending: Vec<usize> = pending.copied().collect();
        let members: Vec<_> =
            pending.into_iter().map(|i| (i, self.cluster.prepare(&self.pods[i].pod))).collect();
        let mut largest = Vec::new();
        let decide = |simulation: &mut Simulation, group: &Group<'_>| {
            let outcome = simulation.decide_relaxed(&members, group).0;
            if let GroupOutcome::Unplaced(_) = outcome {
                largest = group.levels.iter().map(|level| simulation.placed_by(group, level)).collect();
            }
            outcome
        };
        let (mut placement, outcomes) = self.decide_group(&key, &members, decide);
        let would_get: HashMap<usize, &str> = members
            .iter()
            .zip(&outcomes)
            .filter_map(|((i, _), outcome)| Some((*i, outcome.node()?)))
            .collect();
        let member = |i: usize| GroupMember {
            name: self.pods[i].pod.metadata.name.clone(),
            node: self.pods[i].node().or_else(|| would_get.get(&i).copied()).map(str::to_owned),
        };
        placement.members = all.into_iter().map(member).collect();
        let with_node: Vec<String> =
            placement.members.iter().filter_map(|member| member.node.clone()).collect();
        for (level, nodes) in placement.levels.iter_mut().zip(largest) {
            let domains = self.by_domain(&level.key, with_node.iter().chain(&nodes));
            // Of equal ones, the first by name.
            level.largest = domains.into_iter().rev().max_by_key(|domain| domain.n_pods);
        }
        Some(placement)
    }

    /// The nodes of as many members as fit if nothing counts but one level, whose largest domain is filled first.
    fn placed_by(&mut self, group: &Group<'_>, level: &GroupLevel<'_>) -> Vec<String> {
        let rule = TopologyLevel { required: false, ..level.rule.clone() };
        let levels = &[GroupLevel { rule: &rule, ..*level }];
        match self.cluster.decide_group(&Group { min: 1, levels, composite: None, ..*group }) {
            GroupOutcome::Placed { members, .. } => {
                members.iter().filter_map(Outcome::node).map(str::to_owned).collect()
            }
            GroupOutcome::Unplaced(_) => Vec::new(),
        }
    }

    fn by_domain<'a>(&self, key: &str, nodes: impl Iterator<Item = &'a String>) -> Vec<DomainMembers> {
        let mut n_pods: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
        nodes
            .filter_map(|node| self.cluster.node_domain(node, key))
            .for_each(|domain| *n_pods.entry(domain).or_default() += 1);
        n_pods
            .into_iter()
            .map(|(domain, n_pods)| DomainMembers { domain: domain.into_owned(), n_pods })
            .collect()
    }

    /// The failing member of a group, in the domain that the members share.
    pub(crate) fn failing_pod(&self, failing: &FailingMember) -> Pod {
        let mut pod = self.pods[failing.position].pod.clone();
        let is_label = |(key, _): &(String, String)| TopologyLevel::device_attribute(key).is_none();
        pod.spec.node_selector.extend(failing.within.clone().filter(is_label));
        pod
    }

    /// Assigns the other members that have a node when it fails, for the caller to take back.
    pub(crate) fn assume_others(&mut self, failing: &FailingMember) -> Vec<PreparedPod> {
        let mut others = Vec::new();
        for (i, node) in &failing.others {
            let other = self.cluster.prepare(&self.pods[*i].pod);
            self.cluster.assume(&other, node);
            others.push(other);
        }
        others
    }

    /// Decides about a group, if need be without the rules that its members have been pending for; with the members as they
    /// were decided.
    fn decide_relaxed(
        &mut self,
        members: &[(usize, PreparedPod)],
        group: &Group<'_>,
    ) -> (GroupOutcome, Vec<RelaxedPod>) {
        let outcome = self.cluster.decide_group(group);
        let pending =
            members.iter().map(|(i, _)| self.pending_for.of(&self.pods[*i].pod)).collect::<Vec<_>>();
        let relaxed = match &outcome {
            GroupOutcome::Placed { .. } => None,
            GroupOutcome::Unplaced(_) => self.cluster.decide_group_relaxed(group, &pending),
        };
        let with_all_rules =
            |(_, pod): &(usize, PreparedPod)| RelaxedPod { pod: pod.clone(), paths: Vec::new() };
        relaxed.unwrap_or_else(|| (outcome, members.iter().map(with_all_rules).collect()))
    }

    /// What a group says of its members, if that is known. A ReplicaSet of a Deployment, and a Job of a CronJob, may not be in the input:
    /// their pods are there as they are created.
    pub(crate) fn rules_of_group(&self, key: &GroupKey) -> Option<GroupRules> {
        let of_group = self.pods.iter().filter(|pod| pod.group.as_ref() == Some(key));
        let n_members = of_group.clone().count();
        self.groups.rules_of(key, GroupRules::of_members(key, of_group.map(|pod| &pod.pod)), Some(n_members))
    }

    /// The group that a pod names itself: of a member of a hierarchy, its PodGroup.
    pub(crate) fn own_group(&self, i: usize) -> Option<GroupKey> {
        GroupKey::of(&self.pods[i].pod, self.cluster.settings().extensions)
    }

    /// The members of a group with a node, each with the group that it names itself.
    pub(crate) fn running_members(&self, key: &GroupKey) -> Vec<(Option<GroupKey>, String)> {
        let of_group = (0..self.pods.len()).filter(|i| self.pods[*i].group.as_ref() == Some(key));
        let running = of_group.filter_map(|i| Some((self.own_group(i), self.pods[i].node()?.to_owned())));
        let ending = self.ending_members.iter().filter(|(of, ..)| of.as_ref() == Some(key));
        running.chain(ending.map(|(_, own, pod)| (own.clone(), pod.spec.node_name.clone()))).collect()
    }

    /// A pod of a group is evicted: until it has ended, it counts and keeps its place on the node, while the one that its controller creates
    /// at once is tried. A StatefulSet waits.
    pub(super) fn note_ending(&mut self, i: usize) {
        let (pod, node) = (&self.pods[i], self.pods[i].node());
        let waits = pod.pod.metadata.controller().is_none_or(|owner| owner.kind == "StatefulSet");
        if let Some(node) = node.filter(|_| pod.group.is_some() && !waits) {
            let mut ending = pod.pod.clone();
            // No other pod has such a name.
            ending.metadata.name.push_str(" ending");
            ending.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
            node.clone_into(&mut ending.spec.node_name);
            ending.spec.resource_claims.clear();
            let member = (pod.group.clone(), self.own_group(i), ending);
            self.cluster.set_pod(&member.2);
            self.ending_members.push(member);
        }
    }

    /// The evicted pods of groups have ended. Returns whether there were any.
    pub(super) fn end_members(&mut self) -> bool {
        let ended = std::mem::take(&mut self.ending_members);
        for (.., Pod { metadata, .. }) in &ended {
            self.cluster.remove_pod(&metadata.namespace, &metadata.name);
        }
        !ended.is_empty()
    }

    /// Sets what the PodGroups of an input require.
    pub(super) fn set_pod_groups(&mut self, inventory: &Inventory) {
        let gates = self.cluster.settings().config.feature_gates;
        let groups = inventory.pod_groups.iter().map(|entry| &entry.object);
        let composites = inventory.composite_pod_groups.iter().map(|entry| &entry.object);
        self.groups = GroupIndex::new(groups, composites, group_owners(inventory), gates);
    }

    /// In which way members of a group differ that have to agree.
    fn disagreement(
        &self,
        key: &GroupKey,
        rules: &GroupRules,
        members: &[(usize, PreparedPod)],
    ) -> Option<String> {
        let agreement = rules.agreement.as_ref()?;
        let priority = self.group_disruptions.get(key).and_then(|disruption| disruption.priority);
        let agreement = Agreement { priority: priority.unwrap_or(agreement.priority), ..agreement.clone() };
        let running = (0..self.pods.len())
            .filter(|i| self.pods[*i].group.as_ref() == Some(key) && self.pods[*i].node().is_some());
        let all = members.iter().map(|(i, _)| *i).chain(running);
        agreement.problem(all.map(|i| AgreeingPod::from(&self.pods[i].pod)))
    }

    fn decide_group(
        &mut self,
        key: &GroupKey,
        members: &[(usize, PreparedPod)],
        decide: impl FnOnce(&mut Simulation, &Group<'_>) -> GroupOutcome,
    ) -> (GroupPlacement, Vec<Outcome>) {
        let pods: Vec<PreparedPod> = members.iter().map(|(_, pod)| pod.clone()).collect();
        let (rules, running) = (self.rules_of_group(key), self.running_members(key));
        let name: &NamespacedName = &key.name;
        let mut placement = GroupPlacement {
            namespace: name.namespace().to_owned(),
            name: name.name().to_owned(),
            min: rules.as_ref().map_or(0, |rules| rules.min),
            n_pods: members.len() + running.len(),
            n_placed: running.len(),
            domain: None,
            members: Vec::new(),
            levels: Vec::new(),
            message: None,
            failing: None,
        };
        let differs = || self.disagreement(key, rules.as_ref()?, members);
        let pending: Vec<_> = members.iter().map(|(i, _)| self.own_group(*i)).collect();
        let checked = rules.as_ref().map(|rules| {
            rules.check(placement.n_pods)?;
            let remaining = self.cluster.remaining_group(key, Some(rules), &pending, &running);
            let problem = remaining.problem.clone().filter(|_| !members.is_empty());
            differs().or(problem).map_or(Ok(remaining), Err)
        });
        let outcome = match checked {
            None if members.is_empty() => Ok((None, Vec::new())),
            None => Err("its PodGroup is not in the input: add it".to_owned()),
            Some(Err(why)) => Err(why),
            Some(Ok(RemainingGroup { min, levels, composite, .. })) => {
                placement.domain = levels.first().and_then(|(_, value)| value.clone());
                let levels: Vec<_> = levels.iter().map(GroupLevel::from).collect();
                let group = Group { members: &pods, min, levels: &levels, composite: composite.as_ref() };
                match decide(self, &group) {
                    GroupOutcome::Placed { domain, members } => Ok((domain, members)),
                    GroupOutcome::Unplaced(failure) => {
                        placement.failing = members.get(failure.member).map(|(position, _)| FailingMember {
                            name: self.pods[*position].pod.metadata.name.clone(),
                            n_others: failure.placed.len(),
                            position: *position,
                            others: failure
                                .placed
                                .iter()
                                .map(|(i, node)| (members[*i].0, node.clone()))
                                .collect(),
                            within: failure.topology_key.clone().zip(failure.domain.clone()),
                        });
                        Err(failure.message(&group))
                    }
                }
            }
        };
        let outcomes = match outcome {
            Ok((domain, outcomes)) => {
                placement.n_placed += outcomes.iter().filter(|outcome| outcome.node().is_some()).count();
                placement.domain = domain.or(placement.domain);
                outcomes
            }
            Err(message) => {
                placement.message = Some(message.clone());
                let message = format!("{key}: {message}");
                vec![Outcome::Unschedulable { message, plugins: Vec::new() }; members.len()]
            }
        };
        let placed = outcomes.iter().filter_map(Outcome::node).map(str::to_owned);
        let nodes: Vec<String> = running.into_iter().map(|(_, node)| node).chain(placed).collect();
        for TopologyLevel { key, required, multiple_of: slice_size } in
            rules.into_iter().flat_map(|rules| rules.levels)
        {
            let domains = self.by_domain(&key, nodes.iter());
            placement.levels.push(LevelPlacement { key, required, slice_size, domains, largest: None });
        }
        (placement, outcomes)
    }
}

/// How many pods the owners of an input have at one time.
pub(super) fn group_owners(inventory: &Inventory) -> BTreeMap<GroupKey, usize> {
    let desired = DesiredReplicas::new(inventory);
    let owner = |entry: &Entry<Workload>| {
        let workload = &entry.object;
        let replicas = desired.of(workload);
        let (owner, n) = match &workload.spec {
            WorkloadSpec::ReplicaSet(w) => {
                (GroupOwner::ReplicaSet, members_of_workload(w, GroupOwner::ReplicaSet, replicas))
            }
            WorkloadSpec::StatefulSet(w) => {
                (GroupOwner::StatefulSet, members_of_workload(w, GroupOwner::StatefulSet, replicas))
            }
            WorkloadSpec::ReplicationController(_) => {
                (GroupOwner::ReplicationController, n_replicas(replicas))
            }
            WorkloadSpec::Job(w) => (GroupOwner::Job, members_of_job(w)),
            WorkloadSpec::Deployment(_) | WorkloadSpec::DaemonSet(_) | WorkloadSpec::CronJob(_) => {
                return None;
            }
        };
        let metadata = workload.metadata();
        Some((GroupKey::of_owner(owner, &metadata.namespace, &metadata.name), n))
    };
    inventory.workloads.iter().filter_map(owner).collect()
}
