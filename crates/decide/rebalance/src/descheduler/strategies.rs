//! The plugins that choose pods: one row for each, with what it becomes.

use berth_api::read::fields::{Fields, Node};

use super::args::{flag, label_selector, namespaces, one_of, unsigned};
use super::note::Notes;
use crate::goal::Goal;
use crate::movable::Movable;
use crate::threshold::Threshold;

/// When the descheduler runs a plugin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Deschedule,
    Balance,
}

impl Point {
    pub(super) fn field(self) -> &'static str {
        match self {
            Point::Deschedule => "deschedule",
            Point::Balance => "balance",
        }
    }
}

/// A plugin. `read` gets its arguments, the entry that enables it, and the notes.
#[derive(Clone, Copy)]
pub(super) struct Strategy {
    pub(super) name: &'static str,
    pub(super) point: Point,
    pub(super) read: fn(&mut Fields<'_>, &Node<'_>, &mut Notes<'_>) -> Found,
}

/// What a plugin becomes: no goal if it has no equivalent.
pub(super) struct Found {
    pub(super) goals: Vec<Goal>,
    /// The pods that it may evict.
    pub(super) movable: Movable,
    pub(super) threshold: Option<Threshold>,
}

const fn strategy(
    name: &'static str,
    point: Point,
    read: fn(&mut Fields<'_>, &Node<'_>, &mut Notes<'_>) -> Found,
) -> Strategy {
    Strategy { name, point, read }
}

pub(super) const STRATEGIES: [Strategy; 10] = [
    strategy("RemoveDuplicates", Point::Balance, duplicates),
    strategy("RemovePodsViolatingNodeTaints", Point::Deschedule, taints),
    strategy("RemovePodsViolatingNodeAffinity", Point::Deschedule, node_affinity),
    strategy("RemovePodsViolatingInterPodAntiAffinity", Point::Deschedule, anti_affinity),
    strategy("RemovePodsViolatingTopologySpreadConstraint", Point::Balance, topology_spread),
    strategy("LowNodeUtilization", Point::Balance, low_utilization),
    strategy("HighNodeUtilization", Point::Balance, high_utilization),
    strategy("PodLifeTime", Point::Deschedule, pod_life_time),
    strategy("RemoveFailedPods", Point::Deschedule, failed_pods),
    strategy("RemovePodsHavingTooManyRestarts", Point::Deschedule, restarts),
];

/// What is said of the goal `required` where it stands for one kind of rule.
const ALL_RULES: &str = "it counts all rules that reject a pod where it is";
const OF_THE_POD: &str =
    "`berth enforcer` enforces requiredDuringSchedulingRequiredDuringExecution of the pod";

fn found(goals: Vec<Goal>, movable: Movable) -> Found {
    Found { goals, movable, threshold: None }
}

fn pods_of(args: &mut Fields<'_>, notes: &mut Notes<'_>) -> Movable {
    Movable {
        namespaces: namespaces(args, "namespaces", false, notes),
        pods: label_selector(args, "labelSelector", "--pod-selector", notes),
        ..Movable::ALL
    }
}

/// Notes fields that nothing stands for.
fn none_for(args: &mut Fields<'_>, notes: &mut Notes<'_>, fields: &[(&'static str, &str)]) {
    for (field, text) in fields {
        if let Some(node) = args.get(field) {
            notes.no_equivalent(&node.path, *text);
        }
    }
}

fn duplicates(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    notes.instead(
        &enabled.path,
        "--goal spread, and a spread constraint on kubernetes.io/hostname in the pods",
    );
    let kinds = "a workload without such a constraint is not spread";
    none_for(args, notes, &[("excludeOwnerKinds", kinds)]);
    let namespaces = namespaces(args, "namespaces", false, notes);
    found(vec![Goal::Spread], Movable { namespaces, ..Movable::ALL })
}

fn taints(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    notes.instead(&enabled.path, format!("--goal required; {ALL_RULES}"));
    let all = "all NoSchedule and NoExecute taints count: let pods tolerate those that they may stay with";
    none_for(args, notes, &[("excludedTaints", all), ("includedTaints", all)]);
    if let Some(node) = flag(args, "includePreferNoSchedule") {
        notes.no_equivalent(&node.path, "PreferNoSchedule taints move no pod");
    }
    found(vec![Goal::Required], pods_of(args, notes))
}

fn node_affinity(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    const TYPES: [&str; 3] = [
        "requiredDuringSchedulingIgnoredDuringExecution",
        "requiredDuringSchedulingRequiredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    ];
    let types = args.items("nodeAffinityType");
    if types.is_empty() {
        let text = format!("Required value: one of {}", TYPES.join(", "));
        args.findings.error(args.path_of("nodeAffinityType"), text);
    }
    let mut goals = Vec::new();
    for kind in types.iter().filter_map(|node| one_of(node, &TYPES)) {
        let goal = if kind == TYPES[2] { Goal::Preferences } else { Goal::Required };
        if goals.contains(&goal) {
            continue;
        }
        goals.push(goal);
        notes.instead(
            &enabled.path,
            match goal {
                Goal::Preferences => {
                    "--goal preferences; preferred pod affinity and anti-affinity count too".to_owned()
                }
                _ => format!("--goal required; {ALL_RULES}; or {OF_THE_POD}"),
            },
        );
    }
    found(goals, pods_of(args, notes))
}

fn anti_affinity(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    notes.instead(&enabled.path, format!("--goal required; {ALL_RULES}; or {OF_THE_POD}"));
    found(vec![Goal::Required], pods_of(args, notes))
}

fn topology_spread(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    const KINDS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let written = args.items("constraints");
    let kinds: Vec<_> = written.iter().filter_map(|node| one_of(node, &KINDS)).collect();
    // Without the field, the descheduler looks at hard constraints.
    let kinds = if kinds.is_empty() { &KINDS[..1] } else { &kinds };
    let others = KINDS.into_iter().find(|kind| !kinds.contains(kind));
    let also = others.map(|kind| format!("; constraints with {kind} count too")).unwrap_or_default();
    notes.instead(&enabled.path, format!("--goal spread, for all constraints together{also}"));
    if let Some(node) = args.get("topologyBalanceNodeFit") {
        node.bool();
        notes.instead(&node.path, ALWAYS_FITS);
    }
    found(vec![Goal::Spread], pods_of(args, notes))
}

/// What is said of `nodeFit`.
pub(super) const ALWAYS_FITS: &str = "a pod always moves to a node that all filters accept";

fn percentages(args: &mut Fields<'_>, name: &'static str) -> Option<Vec<(String, f64)>> {
    let Some(node) = args.get(name) else {
        args.findings.error(args.path_of(name), "Required value: percentages by resource, such as {cpu: 50}");
        return None;
    };
    let Some(map) = node.value.as_object().filter(|map| !map.is_empty()) else {
        node.must_be("an object with percentages by resource, such as {cpu: 50}");
        return None;
    };
    let mut all = Vec::new();
    for (resource, value) in map {
        match value.as_f64().filter(|percent| (0.0..=100.0).contains(percent)) {
            Some(percent) => all.push((resource.clone(), percent)),
            None => {
                let text = format!("Invalid value: {value}: must be a percentage from 0 to 100");
                node.findings.error(format!("{}.{resource}", node.path), text);
            }
        }
    }
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    Some(all)
}

/// What both plugins of node utilization have.
fn utilization(args: &mut Fields<'_>, notes: &mut Notes<'_>) -> Movable {
    none_for(args, notes, &[("evictionModes", "pods move whatever they request")]);
    if let Some((node, _)) = unsigned(args, "numberOfNodes").filter(|(_, n)| *n > 0) {
        notes.no_equivalent(&node.path, "the goal counts whatever the number of nodes is");
    }
    Movable { namespaces: namespaces(args, "evictableNamespaces", true, notes), ..Movable::ALL }
}

fn low_utilization(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    let (low, target) = (percentages(args, "thresholds"), percentages(args, "targetThresholds"));
    let deviation = flag(args, "useDeviationThresholds");
    let metrics = args.get("metricsUtilization");
    if let (Some(low), Some(target)) = (&low, &target) {
        let path = args.path_of("thresholds");
        if low.iter().map(|(name, _)| name).ne(target.iter().map(|(name, _)| name)) {
            args.findings
                .error(&*path, "Invalid value: thresholds and targetThresholds must name the same resources");
        } else if deviation.is_none() {
            for ((name, low), _) in low.iter().zip(target).filter(|((_, low), (_, target))| low > target) {
                let text = format!("Invalid value: {low}: must not be above targetThresholds.{name}");
                args.findings.error(format!("{path}.{name}"), text);
            }
        }
    }
    let movable = utilization(args, notes);
    if let Some(limit) = args.get("evictionLimits").and_then(|limits| limits.fields()) {
        let mut limit = limit;
        if let Some((node, n)) = unsigned(&mut limit, "node") {
            let text = format!(
                "a plan has no such limit; `berth enforcer --max-evictions-per-node {n}` limits its evictions"
            );
            notes.no_equivalent(&node.path, text);
        }
        notes.unread(&limit);
    }
    let percent = |name: &str| {
        let target = target.iter().flatten().find(|(resource, _)| resource == name)?;
        // Up to 100, so it fits; rounded up, so that no node is above that the descheduler does not count.
        Some(target.1.ceil() as u32)
    };
    let threshold = match (percent("cpu"), percent("memory")) {
        (None, None) => None,
        (cpu, memory) => Some(Threshold { cpu: cpu.unwrap_or(100), memory: memory.unwrap_or(100) }),
    };
    for (name, _) in target.iter().flatten().filter(|(name, _)| !matches!(&**name, "cpu" | "memory")) {
        let path = format!("{}.{name}", args.path_of("targetThresholds"));
        notes.no_equivalent(&path, "only CPU and memory count");
    }
    if let Some(node) = &deviation {
        notes.no_equivalent(&node.path, "the threshold of --goal balance is a percentage of each node");
    }
    if let Some(node) = &metrics {
        notes.no_equivalent(&node.path, "nodes are measured by what their pods request");
    }
    let Some(threshold) = threshold.filter(|_| deviation.is_none() && metrics.is_none()) else {
        notes.no_equivalent(&enabled.path, "it needs targetThresholds of CPU or memory that pods request");
        return found(Vec::new(), movable);
    };
    notes.instead(&enabled.path, format!("--goal balance --threshold {threshold}"));
    notes.no_equivalent(
        &args.path_of("thresholds"),
        "a pod may go to any node that does not come above the threshold",
    );
    Found { threshold: Some(threshold), ..found(vec![Goal::Balance], movable) }
}

fn high_utilization(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    notes.instead(&enabled.path, "--goal consolidate");
    if percentages(args, "thresholds").is_some() {
        let text = "as many nodes are emptied as possible, however full they are";
        notes.no_equivalent(&args.path_of("thresholds"), text);
    }
    found(vec![Goal::Consolidate], utilization(args, notes))
}

/// A plugin that is not about placement: its arguments stay where they are.
fn unrelated(
    args: &mut Fields<'_>,
    enabled: &Node<'_>,
    notes: &mut Notes<'_>,
    own: &[&'static str],
) -> Found {
    notes.no_equivalent(&enabled.path, "not related to placement; keep the descheduler for it");
    for field in ["namespaces", "labelSelector"].iter().chain(own) {
        let _ = args.get(field);
    }
    found(Vec::new(), Movable::ALL)
}

fn pod_life_time(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    const OWN: [&str; 8] = [
        "maxPodLifeTimeSeconds",
        "states",
        "podStatusPhases",
        "conditions",
        "exitCodes",
        "ownerKinds",
        "includingInitContainers",
        "includingEphemeralContainers",
    ];
    unrelated(args, enabled, notes, &OWN)
}

fn failed_pods(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    const OWN: [&str; 5] =
        ["excludeOwnerKinds", "minPodLifetimeSeconds", "reasons", "exitCodes", "includingInitContainers"];
    unrelated(args, enabled, notes, &OWN)
}

fn restarts(args: &mut Fields<'_>, enabled: &Node<'_>, notes: &mut Notes<'_>) -> Found {
    unrelated(args, enabled, notes, &["podRestartThreshold", "includingInitContainers", "states"])
}
