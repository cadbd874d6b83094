//! Rollouts that do not complete, and what would let them.

use berth_api::object::NamespacedName;
use berth_api::syntax::format::counted;
use berth_control::bounds::Bounds;
use berth_control::deployment;
use berth_control::stateful_set::Spec;
use serde::Serialize;

use super::before::Before;
use crate::repairs::{Repair, rollout_repairs};
use crate::simulation::{
    DaemonNodes, Members, Rollout, SimulatedPod, Simulation, Strategy, UnadmittedState, ordinal,
};

/// Rollouts for which a fix is looked for.
const MAX_FIXED: usize = 5;
/// How often a rollout is played again, at most.
const MAX_RETRIES: usize = 50;

/// What may let a rollout complete.
pub(super) enum Remedy<'r> {
    Strategy(Strategy),
    /// Changes of its pods, of nodes or of other pods.
    Repair(&'r Repair),
    /// Its pods are deleted, and created again.
    Delete(&'r [NamespacedName]),
    /// What refuses the creation of its pods does not.
    Unlimited,
}

impl Remedy<'_> {
    /// Applies it before the rollout at this position is played. None if that is not possible.
    pub(super) fn apply(self, simulation: &mut Simulation, at: usize) -> Option<()> {
        match self {
            Remedy::Strategy(strategy) => simulation.rollouts[at].set_strategy(strategy),
            Remedy::Repair(repair) => repair.apply_to_rollout(simulation, at)?,
            Remedy::Delete(pods) => simulation.rollouts[at].deleted_first = pods.to_vec(),
            Remedy::Unlimited => {
                let namespace = simulation.rollouts[at].name.namespace().to_owned();
                simulation.creation.lift_limits(&namespace);
            }
        }
        Some(())
    }
}

/// A rollout that does not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StuckRollout {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// How far it is, and what it waits for.
    pub reason: String,
    /// What lets it complete, or that no such change was found.
    pub fix: String,
}

impl StuckRollout {
    /// The rollouts of a simulation in which nothing changes any more. `retry` plays the changes again with a remedy of the rollout at this
    /// position, and says whether it completes.
    pub(super) fn all(
        simulation: &mut Simulation,
        before: &Before,
        retry: impl Fn(usize, Remedy<'_>) -> bool,
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
                true => fix(simulation, at, |remedy| retry(at, remedy)),
                false => format!("not looked for: the first {MAX_FIXED} stuck rollouts have one"),
            };
            let (namespace, name) = (name.namespace().to_owned(), name.name().to_owned());
            found.push(StuckRollout { kind, namespace, name, reason, fix });
        }
        found.sort_by(|a, b| (a.kind, &a.namespace, &a.name).cmp(&(b.kind, &b.namespace, &b.name)));
        found
    }
}

/// What lets the rollout at this position complete: another strategy, the end of pods that block it, limits that allow more pods, or else
/// the first repair of the pod that it waits for.
fn fix(simulation: &mut Simulation, at: usize, retry: impl Fn(Remedy<'_>) -> bool) -> String {
    let rollout = &simulation.rollouts[at];
    let mut found: Vec<String> = Vec::new();
    let mut others = other_strategies(rollout).into_iter();
    found.extend(others.find_map(|(text, other)| retry(Remedy::Strategy(other)).then_some(text)));
    let blocking = blocking(rollout, simulation);
    if !blocking.is_empty() && retry(Remedy::Delete(&blocking)) {
        let names: Vec<&str> = blocking.iter().map(NamespacedName::name).collect();
        found.push(format!(
            "kubectl delete pod {} -n {}: the StatefulSet does not replace a pod of an earlier template that is not ready",
            names.join(" "),
            rollout.name.namespace()
        ));
    }
    let refused = created(rollout, simulation).find_map(|pod| pod.unadmitted.as_deref());
    let refused = refused.filter(|why| why.state == UnadmittedState::NotCreated);
    if let Some(by) = refused.and_then(|why| why.reason.as_ref())
        && retry(Remedy::Unlimited)
    {
        let namespace = rollout.name.namespace();
        found.push(format!(
            "change the {by} of namespace {namespace}, so that it allows the pods of the rollout"
        ));
    }
    if !found.is_empty() {
        return found.join("; or ");
    }
    let waiting = waiting(rollout, simulation).map(|pod| pod.pod.metadata.namespaced_name());
    let waiting = waiting.or_else(|| unavailable(rollout, simulation));
    let mut n_retries = 0;
    let completes = |repair: &Repair| {
        n_retries += 1;
        n_retries <= MAX_RETRIES && retry(Remedy::Repair(repair))
    };
    match waiting.and_then(|pod| rollout_repairs(simulation, &pod, completes)) {
        Some(repair) => {
            let mut changes: Vec<String> = repair.changes.iter().map(ToString::to_string).collect();
            changes.dedup();
            let mut changes = changes.join(" and ");
            // The same node several times.
            if repair.changes.len() > 1 && repair.changes.iter().all(|change| *change == repair.changes[0]) {
                changes = changes.replacen("a node", &counted(repair.changes.len(), "node"), 1);
            }
            format!("{changes}: then the rollout completes")
        }
        None => "no single change lets it complete".to_owned(),
    }
}

/// The pods of the new template that exist, or that are not created for a reason.
fn created<'a>(rollout: &'a Rollout, simulation: &'a Simulation) -> impl Iterator<Item = &'a SimulatedPod> {
    rollout.created.iter().filter_map(|name| simulation.pod(name.namespace(), name.name()))
}

/// The pods of an earlier template that an ordered StatefulSet does not replace because they do not run.
fn blocking(rollout: &Rollout, simulation: &Simulation) -> Vec<NamespacedName> {
    let Strategy::StatefulSet(spec @ Spec { is_parallel: false, .. }, _) = &rollout.strategy else {
        return Vec::new();
    };
    let is_wanted = |name: &&NamespacedName| ordinal(name.name()).is_some_and(|n| spec.ordinals.contains(&n));
    let old = rollout.old.iter().map(|old| &old.name).filter(is_wanted);
    let is_blocking = |name: &&NamespacedName| !simulation.is_available(name);
    old.filter(is_blocking)
        .filter(|name| simulation.pod(name.namespace(), name.name()).is_some())
        .cloned()
        .collect()
}

/// The first pod of the new template without a node.
fn waiting<'a>(rollout: &'a Rollout, simulation: &'a Simulation) -> Option<&'a SimulatedPod> {
    created(rollout, simulation).find(|pod| pod.node().is_none())
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
    let progress = match rollout.n_new() {
        0 => format!("{} too many", counted(rollout.old.len(), "pod")),
        n => format!("{n_updated} of {n} pods have the new template"),
    };
    if rollout.is_cut {
        return format!("{progress}; it was not played to the end, because it takes too many steps");
    }
    let waits_for = match (waiting(rollout, simulation), unavailable(rollout, simulation)) {
        (Some(pod), _) => {
            let name = before.name_of(pod);
            let message = pod.outcome.message();
            let message = message.trim_end_matches('.');
            match pod.is_unadmitted(UnadmittedState::NotCreated) {
                true => format!("pod {name} is not created: {message}"),
                false => format!("pod {name} has no node: {message}"),
            }
        }
        (None, Some(pod)) => format!("pod {pod} is not available"),
        (None, None) => "the controller creates and deletes no further pod".to_owned(),
    };
    let stops = match &rollout.strategy {
        _ if rollout.old.is_empty() => String::new(),
        Strategy::Deployment(deployment::Spec { rolling: None, .. }, _) => String::new(),
        Strategy::Deployment(deployment::Spec { rolling: Some(bounds), .. }, _)
        | Strategy::DaemonSet(bounds, _) => {
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

/// Strategies that may let a rollout complete, and how to set them, the one with the smallest effect first.
fn other_strategies(rollout: &Rollout) -> Vec<(String, Strategy)> {
    let limit = |field: &str, n: i32| format!("set {field} to {n}");
    match &rollout.strategy {
        _ if rollout.old.is_empty() => Vec::new(),
        Strategy::Deployment(spec, _) => {
            let Some(bounds) = spec.rolling else { return Vec::new() };
            let max_unavailable = bounds.max_unavailable + 1;
            let with = |rolling| Strategy::Deployment(deployment::Spec { rolling, ..*spec }, None);
            let one_more = with(Some(Bounds { max_unavailable, ..bounds }));
            let field = "spec.strategy.rollingUpdate.maxUnavailable";
            vec![
                (limit(field, max_unavailable), one_more),
                ("set spec.strategy.type to Recreate: all old pods stop first".to_owned(), with(None)),
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
        Strategy::DaemonSet(..) => Vec::new(),
    }
}
