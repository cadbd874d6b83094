//! CompositePodGroups: groups of groups, which are placed as one unit.

use berth_api_macros::object_type;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::PodGroupConstraints;
use super::rules::never_preempts;
use super::{Agreement, GroupKey, GroupKind, GroupRules, PartRules, PodGroup, PodGroupStatus, TopologyLevel};
use crate::feature_gates::{FeatureGates, VersionChange};
use crate::object::{NamespacedName, ObjectMeta};

/// Levels of a hierarchy at most, that of the PodGroups among them.
const MAX_DEPTH: usize = 4;

/// A CompositePodGroup of `scheduling.k8s.io/v1alpha3`, which is behind the gate `CompositePodGroup`.
#[object_type]
pub struct CompositePodGroup {
    pub api_version: String,
    pub metadata: ObjectMeta,
    pub spec: CompositePodGroupSpec,
    pub status: PodGroupStatus,
}

#[object_type]
pub struct CompositePodGroupSpec {
    /// The CompositePodGroup that it belongs to; none: it is the root of its hierarchy.
    pub parent_composite_pod_group_name: Option<String>,
    /// How its groups are placed.
    pub scheduling_policy: CompositePolicy,
    /// Constraints on the nodes of all its groups.
    pub scheduling_constraints: Option<PodGroupConstraints>,
    /// The class that admission took the priority from.
    pub priority_class_name: Option<String>,
    /// The priority of all pods of the hierarchy.
    pub priority: Option<i32>,
    /// `Never` if no pod is preempted for the group (with the gate `PodGroupPreemptionPolicy`).
    pub preemption_policy: Option<String>,
}

impl CompositePodGroup {
    /// What the pods of its hierarchy agree in. None for an object that no API server has admitted, if its priority is that of a class.
    fn agreement(&self, gates: FeatureGates) -> Option<Agreement> {
        let CompositePodGroupSpec { priority, priority_class_name, preemption_policy, .. } = &self.spec;
        let name = format!("compositepodgroup/{}", self.metadata.namespaced_name());
        let is_known = priority.is_some() || priority_class_name.as_ref().is_none_or(String::is_empty);
        let agreement = Agreement::new(gates, priority.unwrap_or(0), preemption_policy.as_deref(), name);
        agreement.filter(|_| is_known)
    }

    /// Why no pod is preempted for the group, in kube-scheduler's words.
    fn without_preemption(&self, gates: FeatureGates) -> Option<&'static str> {
        if !gates.has(VersionChange::GroupsPreempt) {
            return Some("not supported for composite pod groups.");
        }
        never_preempts(self.spec.preemption_policy.as_deref(), gates)
    }
}

/// `spec.schedulingPolicy` of a CompositePodGroup.
#[object_type]
pub struct CompositePolicy {
    /// Each group is placed by itself.
    pub basic: Option<Value>,
    /// All or nothing.
    pub gang: Option<CompositeGangPolicy>,
}

/// `spec.schedulingPolicy.gang` of a CompositePodGroup.
#[object_type]
pub struct CompositeGangPolicy {
    /// The required number of groups.
    pub min_group_count: u32,
}

/// The hierarchies of PodGroups and CompositePodGroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Hierarchies {
    /// By PodGroup, the group that its pods are placed with: that of the root of its hierarchy.
    pub(super) roots: BTreeMap<GroupKey, GroupKey>,
    pub(super) rules: BTreeMap<GroupKey, GroupRules>,
}

impl Hierarchies {
    /// Those of some objects. Without the gate `CompositePodGroup`, there are none.
    pub(super) fn new<'a>(
        groups: impl Iterator<Item = &'a PodGroup>,
        composites: impl Iterator<Item = &'a CompositePodGroup>,
        gates: FeatureGates,
    ) -> Hierarchies {
        let mut hierarchies = Hierarchies::default();
        if !gates.composite_pod_group {
            return hierarchies;
        }
        let composites: BTreeMap<NamespacedName, &CompositePodGroup> =
            composites.map(|composite| (composite.metadata.namespaced_name(), composite)).collect();
        let mut children: BTreeMap<NamespacedName, Vec<PartRules>> = BTreeMap::new();
        let mut broken: BTreeMap<GroupKey, String> = BTreeMap::new();
        for group in groups.filter(|group| group.key().kind == GroupKind::Scheduling) {
            let Some(parent) = &group.spec.parent_composite_pod_group_name else { continue };
            let parent = NamespacedName::new(&group.metadata.namespace, parent);
            let (root, problem) = root_of(&composites, &parent);
            let root = GroupKey { kind: GroupKind::Composite, name: root };
            hierarchies.roots.insert(group.key(), root.clone());
            if let Some(problem) = problem {
                broken.insert(root, problem);
                continue;
            }
            let rules = group.rules(gates).unwrap_or(GroupRules { min: 1, ..GroupRules::default() });
            if let Some(why) = rules.undecided {
                broken.insert(root, why);
            }
            let (group, min, levels) = (group.key(), rules.min, rules.levels);
            children.entry(parent).or_default().push(PartRules { group, min, levels, parts: Vec::new() });
        }
        for root in hierarchies.roots.values().collect::<BTreeSet<_>>() {
            let rules = match composites.get(&root.name).filter(|_| !broken.contains_key(root)) {
                None => GroupRules { undecided: broken.get(root).cloned(), ..GroupRules::default() },
                Some(composite) => {
                    let part = part_of(composite, &composites, &children);
                    GroupRules {
                        min: part.fewest_pods(),
                        levels: part.levels.clone(),
                        without_preemption: composite.without_preemption(gates),
                        agreement: composite.agreement(gates),
                        composite: Some(Box::new(part)),
                        ..GroupRules::default()
                    }
                }
            };
            hierarchies.rules.insert(root.clone(), rules);
        }
        hierarchies
    }
}

/// The root above a CompositePodGroup, or the one that ends the way there, with what is wrong.
fn root_of(
    composites: &BTreeMap<NamespacedName, &CompositePodGroup>,
    parent: &NamespacedName,
) -> (NamespacedName, Option<String>) {
    let mut at = parent.clone();
    for _ in 1..MAX_DEPTH {
        let Some(composite) = composites.get(&at) else {
            let problem = format!("its CompositePodGroup {at} does not exist: create it");
            return (at, Some(problem));
        };
        match &composite.spec.parent_composite_pod_group_name {
            None => return (at, None),
            Some(parent) => at = NamespacedName::new(at.namespace(), parent),
        }
    }
    let problem =
        format!("its hierarchy of CompositePodGroups is a circle, or has more than {MAX_DEPTH} levels");
    (parent.clone(), Some(problem))
}

fn part_of(
    composite: &CompositePodGroup,
    composites: &BTreeMap<NamespacedName, &CompositePodGroup>,
    groups: &BTreeMap<NamespacedName, Vec<PartRules>>,
) -> PartRules {
    let CompositePodGroup { metadata, spec, .. } = composite;
    let name = metadata.namespaced_name();
    let is_child = |other: &&&CompositePodGroup| {
        other.metadata.namespace == metadata.namespace
            && other.spec.parent_composite_pod_group_name.as_ref() == Some(&metadata.name)
    };
    let mut parts: Vec<PartRules> = composites
        .values()
        .filter(is_child)
        .map(|child| part_of(child, composites, groups))
        .filter(|part| !part.parts.is_empty())
        .collect();
    parts.extend(groups.get(&name).into_iter().flatten().cloned());
    let constraints = spec.scheduling_constraints.iter().flat_map(|constraints| &constraints.topology);
    let levels = constraints.take(1).map(|topology| TopologyLevel::required(&topology.key)).collect();
    let gang = spec.scheduling_policy.gang.as_ref();
    let group = GroupKey { kind: GroupKind::Composite, name };
    PartRules { group, min: gang.map_or(1, |gang| gang.min_group_count as usize), levels, parts }
}
