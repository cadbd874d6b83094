//! The effect of changes on pods.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::NamespacedName;
use berth_engine::{RemedyOptions, Target, Violation, ViolationKey};
use serde::Serialize;

use super::WithoutTarget;
use super::before::Before;
use super::departures::Departures;
use super::evicted::{EvictedPod, Evictor};
use super::rollouts::StuckRollout;
use super::step::StepOutcome;
use crate::repairs::Repair;
use crate::simulation::{BlockedEviction, NotRunning, Simulation};

/// The effect of changes; each list by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WhatIfOutcome {
    /// Pods with another node than before.
    pub moved: Vec<MovedPod>,
    /// Pods that a scheduler found no node for, those among them that had none before.
    pub unplaced: Vec<UnplacedPod>,
    /// Pods that do not run on the nodes that they name (`spec.nodeName`), those among them that did not run before.
    pub not_running: Vec<NotRunning>,
    /// Pods that are evicted by others than the changes.
    pub evicted: Vec<EvictedPod>,
    /// Pods with rules that do not hold once the pods are placed.
    pub broken_rules: Vec<BrokenRule>,
    /// Evictions of the changes that disruption budgets refuse.
    pub blocked: Vec<BlockedEviction>,
    /// Evictions that disruption budgets refused when the next change came, and that succeeded later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delayed: Vec<BlockedEviction>,
    /// Rollouts that do not complete.
    pub stuck_rollouts: Vec<StuckRollout>,
    /// Numbers of pods before and after the changes.
    pub summary: Summary,
    /// The cluster after each step, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepOutcome>,
    /// Pods that their controllers delete because they have too many.
    #[serde(skip)]
    pub scaled_down: Vec<NamespacedName>,
    /// Pods that stay on their nodes.
    #[serde(skip)]
    pub n_unmoved: usize,
    /// Nodes that pods left, removed ones included.
    #[serde(skip)]
    pub left_nodes: BTreeSet<String>,
}

/// Numbers of pods before and after the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub unplaced: Counts,
    /// Pods that do not run on the nodes that they name.
    pub not_running: Counts,
    /// Pods with rules that do not hold.
    pub broken_rules: Counts,
}

/// A number of pods before and after the changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub before: usize,
    pub after: usize,
    /// Those of `after` that are not among those of `before`.
    pub new: usize,
}

impl Counts {
    fn of(before: usize, after: impl Iterator<Item = bool>) -> Counts {
        let mut counts = Counts { before, ..Counts::default() };
        for was_before in after {
            counts.after += 1;
            counts.new += usize::from(!was_before);
        }
        counts
    }
}

/// A pod with another node than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MovedPod {
    pub namespace: String,
    /// The name that it had before: its controller gives it a new one.
    pub name: String,
    /// The node before; none for a pod that was pending or is new.
    pub from: Option<String>,
    /// The node now.
    pub to: String,
    /// Kind and name of its workload.
    #[serde(skip)]
    pub workload: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnplacedPod {
    pub namespace: String,
    pub name: String,
    /// Why it has no node.
    pub message: String,
    /// Whether it had none before.
    pub before: bool,
    /// Kind and name of its workload.
    #[serde(skip)]
    pub workload: Option<String>,
    /// Whether it ran before.
    #[serde(skip)]
    pub was_running: bool,
    /// What would make it fit, if [`Changed::find_repairs`](super::Changed::find_repairs) looked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
}

/// A pod with rules that do not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenRule {
    pub namespace: String,
    pub name: String,
    /// Whether all of them did not hold before.
    pub before: bool,
    /// The rules that break; of a pod with none, those of before.
    #[serde(skip)]
    pub violations: Vec<Violation>,
}

impl BrokenRule {
    /// Groups violations, which are sorted by pod; each with whether it was there before.
    pub(super) fn by_pod(violations: impl Iterator<Item = (Violation, bool)>) -> Vec<BrokenRule> {
        let mut pods: Vec<BrokenRule> = Vec::new();
        for (violation, before) in violations {
            let (namespace, name) = (violation.namespace.clone(), violation.name.clone());
            match pods.last_mut().filter(|pod| (&pod.namespace, &pod.name) == (&namespace, &name)) {
                Some(pod) if pod.before == before => pod.violations.push(violation),
                // Rules that break come before those that did not hold before.
                Some(pod) if !before => (pod.before, pod.violations) = (false, vec![violation]),
                Some(_) => {}
                None => pods.push(BrokenRule { namespace, name, before, violations: vec![violation] }),
            }
        }
        pods
    }
}

impl WhatIfOutcome {
    /// Whether nothing is worse than before: every pod that ran, and every new one, has a node, no rule breaks, no pod is evicted, no
    /// eviction of the changes is or was refused, and all rollouts complete.
    pub fn is_harmless(&self) -> bool {
        let Summary { unplaced, not_running, broken_rules } = self.summary;
        [unplaced, not_running, broken_rules].iter().all(|counts| counts.new == 0) && self.is_carried_out()
    }

    /// As [`WhatIfOutcome::is_harmless`], and nothing is as bad as it was before: all pods run on nodes, and all rules hold.
    pub fn is_perfect(&self) -> bool {
        let Summary { unplaced, not_running, broken_rules } = self.summary;
        [unplaced, not_running, broken_rules].iter().all(|counts| counts.after == 0) && self.is_carried_out()
    }

    fn is_carried_out(&self) -> bool {
        let is_done = self.blocked.is_empty() && self.delayed.is_empty();
        is_done && self.evicted.is_empty() && self.stuck_rollouts.is_empty()
    }

    /// Compares a simulation in which the pods have been placed with the state before. The enforcer's evictions follow.
    pub(super) fn of(
        simulation: &mut Simulation,
        before: &Before,
        mut departures: Departures,
        stuck_rollouts: Vec<StuckRollout>,
        without_target: &WithoutTarget,
    ) -> WhatIfOutcome {
        let replaced = simulation.pods().iter();
        let replaced = replaced.filter_map(|p| Some((p.pod.metadata.namespaced_name(), p.replaces.clone()?)));
        let replaced: BTreeMap<_, _> = replaced.collect();
        let mut broken: BTreeMap<ViolationKey, Violation> = BTreeMap::new();
        let mut add_broken = |simulation: &mut Simulation| {
            let mut found = simulation.cluster().audit();
            for violation in &mut found {
                let name = NamespacedName::new(&violation.namespace, &violation.name);
                if let Some(old) = replaced.get(&name) {
                    old.name().clone_into(&mut violation.name);
                }
            }
            let new = found.into_iter().map(|violation| (violation.key(), violation));
            for (key, violation) in new {
                broken.entry(key).or_insert(violation);
            }
        };
        add_broken(simulation);
        let by_enforcer = enforce(simulation, without_target);
        if !by_enforcer.is_empty() {
            add_broken(simulation);
        }
        let (blocked, delayed) = departures.all_blocked();
        let mut outcome = WhatIfOutcome {
            scaled_down: before.deleted(simulation, &departures.lost),
            not_running: simulation.not_running(),
            blocked,
            delayed,
            stuck_rollouts,
            ..WhatIfOutcome::default()
        };
        for (name, message) in std::mem::take(&mut departures.lost) {
            outcome.unplaced.push(UnplacedPod {
                namespace: name.namespace().to_owned(),
                name: name.name().to_owned(),
                message,
                before: false,
                workload: None,
                was_running: true,
                repairs: Vec::new(),
            });
        }
        for pod in simulation.pods().iter().filter(|pod| !pod.pod.metadata.is_deleting()) {
            let key = pod.pod.metadata.namespaced_name();
            let enforced = by_enforcer.get(&key).copied();
            let key = before.name_of(pod);
            let (namespace, name) = (key.namespace().to_owned(), key.name().to_owned());
            let workload = pod.workload.clone();
            let from = before.nodes.get(&key);
            let stranded = departures.stranded(pod, simulation).map(str::to_owned);
            if let Some(message) = stranded.or_else(|| departures.returns(pod, simulation)) {
                outcome.unplaced.push(UnplacedPod {
                    namespace,
                    name,
                    message,
                    before: false,
                    workload,
                    was_running: from.is_some(),
                    repairs: Vec::new(),
                });
                continue;
            }
            match (from, pod.node()) {
                (Some(from), Some(to)) if from == to => outcome.n_unmoved += 1,
                (from, Some(to)) => {
                    let (from, to) = (from.cloned(), to.to_owned());
                    outcome.moved.push(MovedPod { namespace, name, from, to, workload });
                }
                (_, None) if pod.unadmitted.is_some() => {}
                (from, None) => {
                    let message = pod.outcome.message().into_owned();
                    let was_running = from.is_some();
                    outcome.unplaced.push(UnplacedPod {
                        namespace,
                        name,
                        message,
                        before: before.unplaced.contains(&key),
                        workload,
                        was_running,
                        repairs: Vec::new(),
                    });
                }
            }
            let by = match &pod.preempted_by {
                _ if enforced.is_some() => Evictor::Enforcer,
                Some(_) if from.is_some() => Evictor::Preemption,
                _ => continue,
            };
            outcome.evicted.push(EvictedPod {
                namespace: key.namespace().to_owned(),
                name: key.name().to_owned(),
                by,
                without_target: enforced == Some(true),
                preemptor: pod.preempted_by.clone().filter(|_| by == Evictor::Preemption),
                group: simulation.group_evicted_with(pod),
            });
        }
        let mut left = before.nodes.clone();
        for pod in simulation.pods() {
            let name = pod.pod.metadata.namespaced_name();
            if pod.node() == left.get(&name).map(String::as_str) {
                left.remove(&name);
            }
        }
        outcome.left_nodes = left.into_values().collect();
        let broken = broken.into_iter().map(|(key, violation)| (violation, before.broken.contains(&key)));
        outcome.broken_rules = BrokenRule::by_pod(broken);
        outcome.sort();
        let not_running = outcome.not_running.iter().flat_map(|group| &group.pods);
        outcome.summary = Summary {
            unplaced: Counts::of(before.unplaced.len(), outcome.unplaced.iter().map(|pod| pod.before)),
            not_running: Counts::of(
                before.not_running.len(),
                not_running.map(|pod| before.not_running.contains(pod)),
            ),
            broken_rules: Counts::of(
                before.n_with_broken_rules,
                outcome.broken_rules.iter().map(|pod| pod.before),
            ),
        };
        outcome
    }

    fn sort(&mut self) {
        self.moved.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.unplaced.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.evicted
            .sort_by(|a, b| (&a.namespace, &a.group, &a.name).cmp(&(&b.namespace, &b.group, &b.name)));
    }
}

/// Lets the enforcer evict until no eviction helps, and places the evicted pods again. Returns them, and whether each went without a
/// feasible node.
pub(super) fn enforce(
    simulation: &mut Simulation,
    without_target: &WithoutTarget,
) -> BTreeMap<NamespacedName, bool> {
    let mut evicted = BTreeMap::new();
    loop {
        let broken: Vec<_> = simulation.cluster().violations().iter().map(Violation::key).collect();
        if broken.is_empty() {
            return evicted;
        }
        let options =
            RemedyOptions { evict_without_target: without_target(simulation), ..RemedyOptions::default() };
        let remedies = simulation.cluster().remedy(&broken, &options).remedies;
        let victims = remedies.iter().filter(|remedy| !remedy.is_held).map(|remedy| {
            let name = NamespacedName::new(&remedy.victim.namespace, &remedy.victim.name);
            (name, matches!(remedy.target, Target::Nowhere(_)))
        });
        // A pod that has been evicted is not evicted again: its replacement was placed by the same rules.
        let victims: BTreeMap<_, _> = victims.filter(|(name, _)| !evicted.contains_key(name)).collect();
        if victims.is_empty() {
            return evicted;
        }
        simulation.reschedule(&victims.keys().cloned().collect::<Vec<_>>());
        evicted.extend(victims);
    }
}
