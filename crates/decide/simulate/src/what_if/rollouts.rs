//! Rollouts that do not complete, and what would let them.

use berth_api::object::NamespacedName;
use berth_api::rollout::Bounds;
use berth_api::rollout::stateful_set::Spec;
use serde::Serialize;

use super::before::Before;
use crate::repairs::{Change, Repair};
use crate::simulation::{DaemonNodes, Members, Rollout, SimulatedPod, Simulation, Strategy};

/// Rollouts for which a fix is looked for.
const MAX_FIXED: usize = 5;

/// A rollout that does not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StuckRollout {
    /// The kind of the workload.
    pub kind: &'static str,
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// How far it is, and what it waits for.
    pub reason: String,
    /// What lets it complete, or that no such change was found.
    pub fix: String,
}

impl StuckRollout {
    /// The rollouts of a simulation in which nothing changes any more. `retry` plays the changes again with another strategy of the
    /// rollout at this position, and says whether it completes.
    pub(super) fn all(
        simulation: &mut Simulation,
        before: &Before,
        retry: impl Fn(usize, Strategy) -> bool,
    ) -> Vec<StuckRollout> {
        let is_stuck = |i: &usize| !simulation.rollouts[*i].is_complete(simulation);
        let stuck: Vec<usize> = (0..simulation.rollouts.len()).filter(is_stuck).collect();
        let mut found = Vec::new();
        for (n_before, at) in stuck.into_iter().enumerate() {
            let rollout = &simulation.rollouts[at];
            let (kind, name, reason) =
                (rollout.kind.name(), rollout.name.clone(), reason(rollout, simulation, before));
            let fix = match n_before < MAX_FIXED {
                _ if rollout.is_cut => {
                    "fewer pods, or a larger maxSurge or maxUnavailable, take fewer steps".to_owned()
                }
                true => {
                    let mut others = other_strategies(rollout).into_iter();
                    let found = others.find_map(|(text, other)| retry(at, other).then_some(text));
                    found.unwrap_or_else(|| repair(simulation, at))
                }
                false => format!("not looked for: the first {MAX_FIXED} stuck rollouts have one"),
            };
            let (namespace, name) = (name.namespace().to_owned(), name.name().to_owned());
            found.push(StuckRollout { kind, namespace, name, reason, fix });
        }
        found.sort_by(|a, b| (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name)));
        found
    }
}

/// The first pod of the new template without a node.
fn waiting<'a>(rollout: &Rollout, simulation: &'a Simulation) -> Option<&'a SimulatedPod> {
    let created = rollout.created.iter().filter_map(|name| simulation.pod(name.namespace(), name.name()));
    created.into_iter().find(|pod| pod.node().is_none())
}

/// The first pod that does not have the new template and is not available; a StatefulSet waits for those that keep the earlier one as
/// well.
fn unavailable(rollout: &Rollout, simulation: &Simulation) -> Option<NamespacedName> {
    let is_unavailable = |name: &NamespacedName| {
        simulation.pod(name.namespace(), name.name()).is_some() && !simulation.is_available(name)
    };
    match &rollout.strategy {
        Strategy::StatefulSet(spec, _) => {
            spec.ordinals.clone().map(|ordinal| rollout.pod_name(ordinal)).find(is_unavailable)
        }
        _ => rollout.old.iter().map(|old| old.name.clone()).find(is_unavailable),
    }
}

fn reason(rollout: &Rollout, simulation: &Simulation, before: &Before) -> String {
    let n_updated = rollout.created.iter().filter(|name| simulation.is_available(name)).count();
    let progress = format!("{n_updated} of {} pods have the new template", rollout.n_new());
    if rollout.is_cut {
        return format!("{progress}; it was not played to the end, because it takes too many steps");
    }
    let waits_for = match (waiting(rollout, simulation), unavailable(rollout, simulation)) {
        (Some(pod), _) => {
            let name = before.name_of(pod);
            format!("pod {name} has no node: {}", pod.outcome.message().trim_end_matches('.'))
        }
        (None, Some(pod)) => format!("pod {pod} is not available"),
        (None, None) => "the controller creates and deletes no further pod".to_owned(),
    };
    let stops = match &rollout.strategy {
        _ if rollout.old.is_empty() => String::new(),
        Strategy::Recreate => String::new(),
        Strategy::RollingUpdate(bounds, _) | Strategy::DaemonSet(bounds, _) => {
            let Bounds { max_surge, max_unavailable } = bounds;
            format!(
                ". No further pod of the old template stops before that changes (maxUnavailable {max_unavailable}, maxSurge \
                 {max_surge}, in pods)"
            )
        }
        Strategy::StatefulSet(spec, _) => {
            let policy = if spec.is_parallel { "Parallel" } else { "OrderedReady" };
            format!(
                ". No further pod of the old template stops before that changes (podManagementPolicy {policy}, maxUnavailable {})",
                spec.max_unavailable
            )
        }
    };
    format!("{progress}; {waits_for}{stops}")
}

/// The first repair of the pod that a rollout waits for.
fn repair(simulation: &mut Simulation, at: usize) -> String {
    let waiting = waiting(&simulation.rollouts[at], simulation).map(|pod| pod.pod.metadata.namespaced_name());
    let explained = waiting.and_then(|pod| simulation.explain(pod.namespace(), pod.name(), None));
    // Whether another strategy helps has been tried.
    let is_strategy = |repair: &Repair| matches!(repair.changes[..], [Change::StopOldPodsFirst { .. }]);
    let mut repairs = explained.into_iter().flat_map(|explained| explained.repairs);
    let repair = repairs.find(|repair| !is_strategy(repair));
    match repair {
        Some(repair) => {
            let changes: Vec<String> = repair.changes.iter().map(ToString::to_string).collect();
            format!("{}: then the pod fits on {}", changes.join(" and "), repair.result())
        }
        None => "no single change lets it complete".to_owned(),
    }
}

/// Strategies that may let a rollout complete, and how to set them, the one with the smallest effect first.
fn other_strategies(rollout: &Rollout) -> Vec<(String, Strategy)> {
    let limit = |field: &str, n: i32| format!("set {field} to {n}");
    match &rollout.strategy {
        _ if rollout.old.is_empty() => Vec::new(),
        Strategy::RollingUpdate(bounds, _) => {
            let max_unavailable = bounds.max_unavailable + 1;
            let one_more = Strategy::RollingUpdate(Bounds { max_unavailable, ..*bounds }, None);
            let field = "spec.strategy.rollingUpdate.maxUnavailable";
            vec![
                (limit(field, max_unavailable), one_more),
                (
                    "set spec.strategy.type to Recreate: all old pods stop first".to_owned(),
                    Strategy::Recreate,
                ),
            ]
        }
        Strategy::StatefulSet(spec, _) => {
            let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
            let mut all = vec![spec.max_unavailable + 1, rollout.wanted];
            all.dedup();
            let more = all.into_iter().filter(|n| *n > spec.max_unavailable);
            more.map(|max_unavailable| {
                let spec = Spec { max_unavailable, ..spec.clone() };
                (limit(field, max_unavailable), Strategy::StatefulSet(spec, Members::default()))
            })
            .collect()
        }
        Strategy::DaemonSet(bounds, _) if bounds.max_surge > 0 => {
            let max_unavailable = bounds.max_unavailable.max(1);
            let text = format!(
                "set spec.updateStrategy.rollingUpdate.maxSurge to 0 and maxUnavailable to {max_unavailable}: the old pod of a node \
                 stops first"
            );
            let bounds = Bounds { max_surge: 0, max_unavailable };
            vec![(text, Strategy::DaemonSet(bounds, DaemonNodes::default()))]
        }
        Strategy::DaemonSet(..) | Strategy::Recreate => Vec::new(),
    }
}
