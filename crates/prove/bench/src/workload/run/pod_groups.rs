//! Gangs: pods of a PodGroup are decided together, as soon as there are as many as it requires.

use std::collections::BTreeMap;

use berth_api::object::group::PodGroup;
use berth_api::object::{GroupRules, NamespacedName, Pod};
use berth_engine::{Group, GroupLevel, GroupOutcome, Outcome, PreparedPod};

use super::super::Stop;
use super::super::format::CreateAny;
use super::Runner;
use crate::measure::timed;

/// A gang whose pods are being created.
pub(super) struct Gang {
    rules: GroupRules,
    waiting: Vec<(Pod, PreparedPod)>,
}

/// Pods with what was decided about them.
pub(super) type Decided = Vec<(Pod, PreparedPod, Outcome)>;

pub(super) type Gangs = BTreeMap<NamespacedName, Gang>;

impl Runner<'_> {
    pub(super) fn create_pod_group(&mut self, number: usize, op: &CreateAny) -> Result<(), Stop> {
        let mut group: PodGroup = self.templates.numbered(&op.template_path, "PodGroup", number)?;
        self.name(&mut group.metadata);
        group.metadata.namespace.clone_from(&op.namespace);
        if let Some(rules) = group.rules(self.cluster.settings().config.feature_gates) {
            self.gangs.insert(group.metadata.namespaced_name(), Gang { rules, waiting: Vec::new() });
        }
        Ok(())
    }

    /// Decides about a pod; with the others of its gang, once there are as many as it requires. The time of a gang counts as that of
    /// one decision.
    pub(super) fn decide_timed(&mut self, pod: Pod, prepared: PreparedPod) -> Result<Decided, Stop> {
        let group = pod.spec.scheduling_group.as_ref();
        let group = group.map(|group| NamespacedName::new(&pod.metadata.namespace, &group.pod_group_name));
        let Some(Gang { rules, waiting }) = group.and_then(|name| self.gangs.get_mut(&name)) else {
            let (outcome, duration) = timed(|| self.decide(&prepared));
            self.samples.add(duration);
            return self.measured(vec![(pod, prepared, outcome)]);
        };
        waiting.push((pod, prepared));
        if waiting.len() < rules.min {
            return Ok(Vec::new());
        }
        let (pods, members): (Vec<Pod>, Vec<PreparedPod>) = std::mem::take(waiting).into_iter().unzip();
        let levels: Vec<_> = rules.levels.iter().map(|rule| GroupLevel { rule, value: None }).collect();
        let group = Group { members: &members, min: rules.min, levels: &levels, composite: None };
        let (outcome, duration) = timed(|| self.cluster.place_group(&group));
        self.samples.add(duration);
        let outcomes = match outcome {
            GroupOutcome::Placed { members, .. } => members,
            GroupOutcome::Unplaced(failure) => vec![failure.outcome; members.len()],
        };
        let decided = pods.into_iter().zip(members).zip(outcomes);
        self.measured(decided.map(|((pod, member), outcome)| (pod, member, outcome)).collect())
    }

    /// The number of pods that wait for others of their gangs.
    pub(super) fn n_waiting(&self) -> usize {
        self.gangs.values().map(|gang| gang.waiting.len()).sum()
    }
}
