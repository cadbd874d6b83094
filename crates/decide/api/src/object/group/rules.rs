//! What has to hold for a group as a whole.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    DEVICE_ATTRIBUTE_PREFIX, GROUP_MIN_ANNOTATION, GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION, GROUP_SLICE_TOPOLOGY_ANNOTATION,
    GroupKey, GroupKind,
};
use crate::feature_gates::{FeatureGates, VersionChange};
use crate::object::{ObjectMeta, Pod};
use crate::syntax;

/// The default of `spec.preemptionPolicy`.
const PREEMPT_LOWER_PRIORITY: &str = "PreemptLowerPriority";

/// What has to hold for a group as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupRules {
    /// How many members have to be placed at least.
    pub min: usize,
    /// The topologies whose domains the members share, the coarsest first.
    pub levels: Vec<TopologyLevel>,
    /// Seconds that members wait for others while their nodes are kept for them.
    pub timeout_seconds: Option<u32>,
    /// Why no pod is preempted for the group.
    pub without_preemption: Option<&'static str>,
    /// Why the group is not decided, whatever its members are.
    pub undecided: Option<String>,
    /// The groups of a CompositePodGroup.
    pub composite: Option<Box<PartRules>>,
    /// What its pods agree in; none before Kubernetes 1.37.
    pub agreement: Option<Agreement>,
}

/// What all pods of a PodGroup have in common: otherwise none is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The priority of the group.
    pub priority: i32,
    /// The preemption policy of the group, where it counts; that of its first pod otherwise.
    pub preemption_policy: Option<String>,
    /// The group as errors name it; none before Kubernetes 1.38.
    pub name: Option<String>,
}

/// What a pod has that the pods of a group agree in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreeingPod<'a> {
    pub name: &'a str,
    /// `spec.schedulerName`.
    pub scheduler_name: &'a str,
    pub priority: i32,
    pub preemption_policy: &'a str,
}

impl<'a> From<&'a Pod> for AgreeingPod<'a> {
    fn from(pod: &'a Pod) -> AgreeingPod<'a> {
        AgreeingPod {
            name: &pod.metadata.name,
            scheduler_name: &pod.spec.scheduler_name,
            priority: pod.spec.priority.unwrap_or(0),
            preemption_policy: pod.spec.preemption_policy.as_deref().unwrap_or(PREEMPT_LOWER_PRIORITY),
        }
    }
}

/// Why a group with this preemption policy preempts no pod, in kube-scheduler's words.
pub(super) fn never_preempts(policy: Option<&str>, gates: FeatureGates) -> Option<&'static str> {
    let is_never = gates.pod_group_preemption_policy && policy == Some("Never");
    is_never.then_some("not eligible due to preemptionPolicy=Never.")
}

impl Agreement {
    /// That of a group with this priority, policy and name.
    pub(super) fn new(
        gates: FeatureGates,
        priority: i32,
        preemption_policy: Option<&str>,
        name: String,
    ) -> Option<Agreement> {
        let policy = preemption_policy.unwrap_or(PREEMPT_LOWER_PRIORITY);
        gates.has(VersionChange::GroupAgreement).then(|| Agreement {
            priority,
            preemption_policy: gates.pod_group_preemption_policy.then(|| policy.to_owned()),
            name: gates.has(VersionChange::GroupAgreementNamesPods).then_some(name),
        })
    }

    /// In which way a pod differs, in kube-scheduler's words.
    pub fn problem<'a>(&self, pods: impl Iterator<Item = AgreeingPod<'a>> + Clone) -> Option<String> {
        let first = pods.clone().next()?;
        let policy = self.preemption_policy.as_deref().unwrap_or(first.preemption_policy);
        let (pod_group, priority) = match &self.name {
            Some(_) => ("a pod group hierarchy", "the root pod group's priority"),
            None => ("a single pod group", "the pod group's priority"),
        };
        let named = |text: String, name: &str| match &self.name {
            Some(_) => format!("{text} ({name:?})"),
            None => text,
        };
        let of_group = match (&self.preemption_policy, &self.name) {
            (Some(_), None) => " as the pod group's preemption policy",
            _ => "",
        };
        let problem =
            |AgreeingPod { name, scheduler_name, priority: own, preemption_policy }: AgreeingPod<'a>| {
                let expected = first.scheduler_name;
                Some(match () {
                    () if scheduler_name != expected => format!(
                        "all pods in {pod_group} should have the same .spec.schedulerName set, got: {} and {}",
                        named(format!("{scheduler_name:?}"), name),
                        named(format!("{expected:?}"), first.name)
                    ),
                    () if own != self.priority => format!(
                        "all pods in {pod_group} should have the same priority as {priority}, got {} and {}",
                        named(own.to_string(), name),
                        named(self.priority.to_string(), self.name.as_deref().unwrap_or_default())
                    ),
                    () if preemption_policy != policy => format!(
                        "all pods in {pod_group} should have the same preemption policy{of_group}, got {} and {policy}",
                        named(preemption_policy.to_owned(), name)
                    ),
                    () => return None,
                })
            };
        pods.into_iter().find_map(problem)
    }
}

/// A topology whose domains the members of a group share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologyLevel {
    /// The node label key, or `device:` and the name of an attribute of devices with its domain.
    pub key: String,
    /// Whether all members share one domain; otherwise they share as few as possible.
    pub required: bool,
    /// Each domain takes a multiple of this number of members; 1 for any number.
    pub multiple_of: usize,
}

impl TopologyLevel {
    /// A level whose domain all members share.
    pub fn required(key: &str) -> TopologyLevel {
        TopologyLevel { key: key.to_owned(), required: true, multiple_of: 1 }
    }

    /// A level with as few domains as possible.
    pub fn preferred(key: &str) -> TopologyLevel {
        TopologyLevel { required: false, ..TopologyLevel::required(key) }
    }

    /// What kube-scheduler says of pods in these domains, if they have to share one.
    pub fn several_domains(&self, domains: &BTreeSet<String>) -> Option<String> {
        let mut domains = domains.iter().filter(|_| self.required);
        let (first, second) = (domains.next()?, domains.next()?);
        Some(format!(
            "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: {first}, {second}"
        ))
    }

    /// The attribute of devices that a level is about, instead of a node label.
    pub fn device_attribute(key: &str) -> Option<&str> {
        key.strip_prefix(DEVICE_ATTRIBUTE_PREFIX)
    }

    /// What is wrong with the key of a level.
    pub fn validate_key(key: &str) -> Vec<String> {
        let Some(attribute) = TopologyLevel::device_attribute(key) else { return syntax::label_key(key) };
        match attribute.split_once('/') {
            Some((domain, name)) if !name.is_empty() => {
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let mut problems = syntax::dns_subdomain(domain);
                if !name.chars().all(is_of_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
                    problems.push(format!("{name:?} is no name of an attribute of devices"));
                }
                problems
            }
            _ => vec!["must have the domain of the attribute: device:DOMAIN/NAME".to_owned()],
        }
    }

    /// Those of annotations, after one of a PodGroup.
    pub(super) fn of_annotations(own: Option<&str>, metadata: &ObjectMeta) -> Vec<TopologyLevel> {
        let annotation = |name| metadata.annotations.get(name).map(String::as_str);
        let required = own.or_else(|| annotation(GROUP_REQUIRED_TOPOLOGY_ANNOTATION));
        let preferred =
            annotation(GROUP_PREFERRED_TOPOLOGY_ANNOTATION).into_iter().flat_map(|keys| keys.split(','));
        let mut levels: Vec<_> = required.map(TopologyLevel::required).into_iter().collect();
        levels.extend(preferred.map(|key| TopologyLevel::preferred(key.trim())));
        let size = annotation(GROUP_SLICE_SIZE_ANNOTATION).and_then(|size| size.parse().ok());
        let key = annotation(GROUP_SLICE_TOPOLOGY_ANNOTATION);
        if let Some((key, multiple_of)) = key.zip(size.filter(|size| *size > 0)) {
            match levels.iter_mut().find(|level| level.key == key) {
                Some(level) => level.multiple_of = multiple_of,
                None => levels.push(TopologyLevel { multiple_of, ..TopologyLevel::preferred(key) }),
            }
        }
        levels
    }
}

impl GroupRules {
    /// The rules of a group without an object, by the annotations of its members: the stricter ones hold. None for a group
    /// that has to have an object. Of a group of an owner, the number of members is missing.
    pub fn of_members<'a>(key: &GroupKey, members: impl Iterator<Item = &'a Pod>) -> Option<GroupRules> {
        let rules = members.map(GroupRules::of_annotations).reduce(GroupRules::and);
        rules.filter(|_| matches!(key.kind, GroupKind::Annotation | GroupKind::Owner(_)))
    }

    /// The rules in the annotations of one member; those of several are [combined](GroupRules::and).
    pub fn of_annotations(pod: &Pod) -> GroupRules {
        let min = pod.metadata.annotations.get(GROUP_MIN_ANNOTATION).and_then(|min| min.parse().ok());
        GroupRules {
            min: min.unwrap_or(1),
            levels: TopologyLevel::of_annotations(None, &pod.metadata),
            ..GroupRules::default()
        }
    }

    /// Why a group is not decided, if it has this number of members.
    ///
    /// # Errors
    /// Members are missing, or the group has what Berth does not decide.
    pub fn check(&self, n_members: usize) -> Result<(), String> {
        if let Some(why) = &self.undecided {
            return Err(why.clone());
        }
        if n_members < self.min {
            return Err(format!("{n_members} of at least {} pods exist", self.min));
        }
        Ok(())
    }

    /// What is left to decide, for members without a node, and the nodes of those with one. Each has the group that it names itself.
    /// `domain_of` is the domain of a node in a topology.
    pub fn remaining(
        &self,
        kind: GroupKind,
        pending: &[Option<GroupKey>],
        running: &[(Option<GroupKey>, String)],
        domain_of: &impl Fn(&str, &str) -> Option<String>,
    ) -> RemainingGroup {
        let mut problem = self.check(pending.len() + running.len()).err();
        let with_domain = |level: &TopologyLevel| {
            let mut domains = running.iter().filter_map(|(_, node)| domain_of(node, &level.key)).collect();
            if kind == GroupKind::Scheduling && problem.is_none() {
                problem = level.several_domains(&domains);
            }
            (level.clone(), domains.pop_first())
        };
        let levels = self.levels.iter().map(with_domain).collect();
        let composite = self.composite.as_ref();
        RemainingGroup {
            min: self.min.saturating_sub(running.len()).max(1),
            levels,
            problem: problem.or(composite.and_then(|root| root.several_domains(running, domain_of))),
            composite: composite.map(|root| root.part(pending, running, domain_of)),
        }
    }

    /// The stricter rules of both.
    #[must_use]
    pub fn and(self, other: GroupRules) -> GroupRules {
        let strictness = |levels: &[TopologyLevel]| {
            let n_required = levels.iter().filter(|level| level.required || level.multiple_of > 1).count();
            (n_required, levels.len())
        };
        let is_stricter = strictness(&other.levels) > strictness(&self.levels);
        GroupRules {
            min: self.min.max(other.min),
            levels: if is_stricter { other.levels } else { self.levels },
            timeout_seconds: self.timeout_seconds.or(other.timeout_seconds),
            without_preemption: self.without_preemption.or(other.without_preemption),
            undecided: self.undecided.or(other.undecided),
            composite: self.composite.or(other.composite),
            agreement: self.agreement.or(other.agreement),
        }
    }
}

/// What is left to decide of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemainingGroup {
    /// How many members without a node have to be placed at least. Beyond the required ones, one is worth an attempt.
    pub min: usize,
    /// The topologies whose domains the members share, the coarsest first, with the domain of those with a node.
    pub levels: Vec<(TopologyLevel, Option<String>)>,
    /// The groups of a CompositePodGroup.
    pub composite: Option<GroupPart>,
    /// Why it is not decided: members are missing, for example, or those with a node share no domain that they have to share.
    pub problem: Option<String>,
}

/// What a PodGroup or a CompositePodGroup of a hierarchy requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRules {
    /// The PodGroup or the CompositePodGroup.
    pub group: GroupKey,
    /// How many of its pods, or of its groups, have to be placed at least.
    pub min: usize,
    /// The topologies whose domains its pods share, the coarsest first.
    pub levels: Vec<TopologyLevel>,
    /// Its groups.
    pub parts: Vec<PartRules>,
}

/// A part of a hierarchy as it is decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupPart {
    /// Its members without a node, by their index.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<GroupPart>,
    /// How many of these members, or of these groups, have to be placed at least: besides those that run.
    pub min: usize,
    /// The topologies whose domains its pods share, with the domain of those that run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<(TopologyLevel, Option<String>)>,
}

impl PartRules {
    /// The fewest pods with which it is placed.
    pub(super) fn fewest_pods(&self) -> usize {
        if self.group.kind != GroupKind::Composite {
            return self.min;
        }
        let mut fewest: Vec<usize> = self.parts.iter().map(PartRules::fewest_pods).collect();
        fewest.sort_unstable();
        fewest.iter().take(self.min).sum()
    }

    /// It and the groups in it, itself first, each with whether the required pods or groups are placed. `n_placed` counts the pods of a
    /// PodGroup with a node.
    pub fn placed(&self, n_placed: &impl Fn(&GroupKey) -> usize) -> Vec<(&GroupKey, bool)> {
        let parts: Vec<_> = self.parts.iter().map(|part| part.placed(n_placed)).collect();
        let n = match self.group.kind {
            GroupKind::Composite => parts.iter().filter(|part| part[0].1).count(),
            _ => n_placed(&self.group),
        };
        [(&self.group, n >= self.min)].into_iter().chain(parts.into_iter().flatten()).collect()
    }

    /// What is left to decide; see [`GroupRules::remaining`].
    fn part(
        &self,
        pending: &[Option<GroupKey>],
        running: &[(Option<GroupKey>, String)],
        domain_of: &impl Fn(&str, &str) -> Option<String>,
    ) -> GroupPart {
        let is_own = |group: &Option<GroupKey>| group.as_ref() == Some(&self.group);
        let members = (0..pending.len()).filter(|i| is_own(&pending[*i])).collect();
        let parts: Vec<_> = self.parts.iter().map(|part| part.part(pending, running, domain_of)).collect();
        let n_running = running.iter().filter(|(group, _)| is_own(group)).count();
        let n_complete = n_running + parts.iter().filter(|part| part.min == 0).count();
        let nodes = self.nodes(running);
        let value = |level: &TopologyLevel| nodes.iter().find_map(|node| domain_of(node, &level.key));
        let levels = self.levels.iter().map(|level| (level.clone(), value(level))).collect();
        GroupPart { members, parts, min: self.min.saturating_sub(n_complete), levels }
    }

    /// Why its pods with a node, or those of a group in it, share no domain that they have to share, in kube-scheduler's words.
    pub(super) fn several_domains(
        &self,
        running: &[(Option<GroupKey>, String)],
        domain_of: &impl Fn(&str, &str) -> Option<String>,
    ) -> Option<String> {
        let nodes = self.nodes(running);
        let domains = |level: &TopologyLevel| nodes.iter().filter_map(|n| domain_of(n, &level.key)).collect();
        self.levels.iter().find_map(|level| level.several_domains(&domains(level))).or_else(|| {
            let of_part = self.parts.iter().find_map(|part| part.several_domains(running, domain_of))?;
            Some(format!("composite pod group evaluation failed due to child error: {of_part}"))
        })
    }

    /// The nodes of its pods, those of the groups in it included.
    fn nodes<'n>(&self, running: &'n [(Option<GroupKey>, String)]) -> Vec<&'n str> {
        let own = running.iter().filter(|(group, _)| group.as_ref() == Some(&self.group));
        let of_parts = self.parts.iter().flat_map(|part| part.nodes(running));
        own.map(|(_, node)| node.as_str()).chain(of_parts).collect()
    }
}
