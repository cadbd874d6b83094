//! Relax: decisions about pods that no node fits and that have been pending for long enough to do without some of their
//! required rules. The caller says for how long.

use core::time::Duration;

use super::Cluster;
use crate::decision::Outcome;
use crate::group::{Group, GroupOutcome};
use crate::state::pod::prepared::PreparedPod;

/// A pod with preferences in place of some of its required rules.
#[derive(Clone, Debug)]
pub struct RelaxedPod {
    /// The pod.
    pub pod: PreparedPod,
    /// The paths of the rules that were relaxed, in the order in which they were.
    pub paths: Vec<String>,
}

impl Cluster {
    /// The paths of the rules of a pod that may be relaxed when it has been pending for this time, in the order in which they are.
    pub fn relaxable(&self, pod: &PreparedPod, pending: Duration) -> Vec<String> {
        let rules = self.state.rules_of_prepared(pod);
        rules.relaxable_after(pending).map(|rule| rule.path.clone()).collect()
    }

    /// How long a pod has to be pending until one more of its rules may be relaxed; none if all may.
    pub fn next_relaxation(&self, pod: &PreparedPod, pending: Duration) -> Option<Duration> {
        let rules = &self.state.rules_of_prepared(pod).relaxable;
        rules.iter().map(|rule| rule.after).filter(|after| *after > pending).min()
    }

    /// Decides about a pod that no node fits and that has been pending for this time: one more of its rules is relaxed, in
    /// order, until a node fits. Returns the last outcome, and the pod as it was decided; none if no rule may be relaxed yet.
    pub fn decide_relaxed(&mut self, pod: &PreparedPod, pending: Duration) -> Option<(Outcome, RelaxedPod)> {
        let paths = self.relaxable(pod, pending);
        let mut last = None;
        for n in 1..=paths.len() {
            let relaxed = self.relax(pod, paths[..n].to_vec());
            let outcome = self.decide_nominated_first(&relaxed.pod);
            let is_unschedulable = matches!(outcome, Outcome::Unschedulable { .. });
            last = Some((outcome, relaxed));
            if !is_unschedulable {
                break;
            }
        }
        last
    }

    /// As [`Cluster::decide_relaxed`] about a group; `pending` has a value for each member. A rule is relaxed at once for all
    /// members that may do without it.
    pub fn decide_group_relaxed(
        &mut self,
        group: &Group<'_>,
        pending: &[Duration],
    ) -> Option<(GroupOutcome, Vec<RelaxedPod>)> {
        let members = || group.members.iter().zip(pending);
        let of_members: Vec<_> = members().map(|(pod, pending)| self.relaxable(pod, *pending)).collect();
        let mut paths: Vec<&String> = Vec::new();
        for path in of_members.iter().flatten() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        let mut last = None;
        for n in 1..=paths.len() {
            let due =
                |own: &Vec<String>| own.iter().filter(|path| paths[..n].contains(path)).cloned().collect();
            let relaxed: Vec<_> =
                group.members.iter().zip(&of_members).map(|(pod, own)| self.relax(pod, due(own))).collect();
            let pods: Vec<_> = relaxed.iter().map(|relaxed| relaxed.pod.clone()).collect();
            let outcome = self.decide_group(&Group { members: &pods, ..*group });
            let is_placed = matches!(outcome, GroupOutcome::Placed { .. });
            last = Some((outcome, relaxed));
            if is_placed {
                break;
            }
        }
        last
    }

    /// A pod with preferences in place of the rules with these paths, as far as they may be relaxed.
    pub fn relax(&mut self, pod: &PreparedPod, paths: Vec<String>) -> RelaxedPod {
        let pod = self.state.with_rules(pod, |rules| rules.relax(paths.iter().map(String::as_str)));
        self.updated();
        RelaxedPod { pod, paths }
    }
}
