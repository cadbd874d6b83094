//! `DefaultEvictor`: which pods a profile may evict.

use berth_api::read::fields::{Fields, Node};
use jiff::SignedDuration;

use super::args::{flag, label_selector, one_of, unsigned};
use super::note::Notes;
use super::strategies::ALWAYS_FITS;
use crate::movable::Movable;

/// Which pods the plugins of a policy may evict.
pub(super) struct Scope {
    pub(super) movable: Movable,
    /// `minPodAge`.
    pub(super) settle: Option<SignedDuration>,
}

impl Scope {
    pub(super) fn and(self, other: Scope) -> Scope {
        Scope { movable: self.movable.and(other.movable), settle: self.settle.max(other.settle) }
    }
}

/// Protections that hold unless they are disabled, with the older flags that disable them.
const DEFAULT: [(&str, &str); 4] = [
    ("PodsWithLocalStorage", "evictLocalStoragePods"),
    ("SystemCriticalPods", "evictSystemCriticalPods"),
    ("DaemonSetPods", "evictDaemonSetPods"),
    ("FailedBarePods", "evictFailedBarePods"),
];
/// Protections that hold if they are enabled, with the older flags that enable them.
const EXTRA: [(&str, &str); 4] = [
    ("PodsWithPVC", "ignorePvcPods"),
    ("PodsWithoutPDB", "ignorePodsWithoutPDB"),
    ("PodsWithResourceClaims", ""),
    ("PodsWithPDBBlockingSingleReplicaOwner", ""),
];

pub(super) fn read_evictor(
    args: &mut Fields<'_>,
    notes: &mut Notes<'_>,
    priority_of: &dyn Fn(&str) -> Option<i32>,
) -> Scope {
    let mut movable = Movable { with_local_storage: false, ..Movable::ALL };
    let protections = protections(args, notes);
    let is_system_unprotected = protections.iter().any(|(name, _)| *name == "SystemCriticalPods");
    for (name, node) in protections {
        protect(name, &node, &mut movable, notes);
    }
    movable.pods = label_selector(args, "labelSelector", "--pod-selector", notes);
    movable.namespaces = label_selector(args, "namespaceLabelSelector", "--namespace-selector", notes);
    if let Some((node, limit)) = priority_threshold(args, notes, priority_of) {
        if is_system_unprotected {
            notes.ignored(&node.path, "it has no effect where pods of system priority are not protected");
        } else {
            movable.below_priority = Some(limit);
            notes.instead(&node.path, format!("--below-priority {limit}, for all goals"));
        }
    }
    if let Some((node, n)) = unsigned(args, "minReplicas") {
        if n > 1 {
            movable.min_replicas = usize::try_from(n).unwrap_or(usize::MAX);
            notes.instead(&node.path, format!("pods of controllers with fewer than {n} pods stay"));
        } else {
            notes.ignored(&node.path, "it has an effect from 2 on");
        }
    }
    let age = args.get("minPodAge").and_then(|node| Some((node.duration()?, node)));
    let settle = age.and_then(|(age, node)| {
        if age.is_negative() {
            node.invalid("must not be negative");
            return None;
        }
        notes.instead(&node.path, format!("--settle {}", node.string().unwrap_or_default()));
        Some(age)
    });
    if let Some(node) = args.get("noEvictionPolicy") {
        match one_of(&node, &["Preferred", "Mandatory"]) {
            Some("Mandatory") => {
                movable.preferring_no_eviction = false;
                let text = "pods with the annotation descheduler.alpha.kubernetes.io/prefer-no-eviction stay";
                notes.instead(&node.path, text);
            }
            Some(_) => notes.no_equivalent(&node.path, "pods with the annotation move like others"),
            None => {}
        }
    }
    if let Some(node) = args.get("nodeFit") {
        node.bool();
        notes.instead(&node.path, ALWAYS_FITS);
    }
    if let Some(node) = args.get("nodeSelector") {
        notes.no_equivalent(&node.path, "a pod goes to any node that all filters accept");
    }
    Scope { movable, settle }
}

/// The protections that are not as they are by default, with the fields that say so. The older flags count only without lists.
fn protections<'a>(args: &mut Fields<'a>, notes: &mut Notes<'_>) -> Vec<(&'static str, Node<'a>)> {
    let mut found = Vec::new();
    let lists = args.get("podProtections").and_then(|node| node.fields());
    if let Some(mut lists) = lists {
        for (field, known) in [("defaultDisabled", &DEFAULT), ("extraEnabled", &EXTRA)] {
            let names = known.map(|(name, _)| name);
            for node in lists.items(field) {
                let given = one_of(&node, &names);
                found.extend(names.into_iter().find(|name| given == Some(name)).map(|name| (name, node)));
            }
        }
        if let Some(config) = lists.get("config") {
            notes.no_equivalent(&config.path, "with the protection PodsWithPVC, all pods with a claim stay");
        }
        notes.unread(&lists);
    }
    let counts = found.is_empty();
    for (name, old) in DEFAULT.into_iter().chain(EXTRA).filter(|(_, old)| !old.is_empty()) {
        match flag(args, old) {
            Some(node) if counts => found.push((name, node)),
            Some(node) => notes.ignored(&node.path, "the lists of podProtections count"),
            None => {}
        }
    }
    found
}

/// The note on a protection that differs from its default.
fn protect(name: &str, node: &Node<'_>, movable: &mut Movable, notes: &mut Notes<'_>) {
    match name {
        "PodsWithLocalStorage" => {
            movable.with_local_storage = true;
            notes.instead(&node.path, "--evict-local-storage");
        }
        "SystemCriticalPods" => notes.no_equivalent(&node.path, "pods of system priority never move"),
        "DaemonSetPods" => notes.no_equivalent(&node.path, "pods of DaemonSets never move"),
        "FailedBarePods" => notes.no_equivalent(&node.path, "pods without a controller never move"),
        "PodsWithPVC" => {
            movable.with_claims = false;
            notes.instead(&node.path, "pods with a PersistentVolumeClaim stay");
        }
        "PodsWithoutPDB" => {
            movable.without_budget = false;
            notes.instead(&node.path, "pods that no PodDisruptionBudget selects stay");
        }
        "PodsWithResourceClaims" => notes.instead(&node.path, "pods with claims of devices never move"),
        _ => notes.instead(&node.path, "PodDisruptionBudgets allow each eviction of a plan"),
    }
}

/// The priority from which on pods stay.
fn priority_threshold<'a>(
    args: &mut Fields<'a>,
    notes: &mut Notes<'_>,
    priority_of: &dyn Fn(&str) -> Option<i32>,
) -> Option<(Node<'a>, i32)> {
    let threshold = args.get("priorityThreshold")?;
    let mut fields = threshold.fields()?;
    let value = fields.get("value");
    let class = fields.get("name").filter(|name| name.value.as_str() != Some(""));
    notes.unread(&fields);
    match (value, class) {
        (Some(_), Some(_)) => {
            threshold.error("Invalid value: name and value exclude each other; remove one of them");
            None
        }
        (Some(value), None) => value.int32().map(|limit| (value, limit)),
        (None, Some(class)) => match priority_of(class.string()?) {
            Some(limit) => Some((class, limit)),
            None => {
                class
                    .invalid("no such PriorityClass: add it to the objects of the cluster, or write `value`");
                None
            }
        },
        (None, None) => None,
    }
}
