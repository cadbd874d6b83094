//! Broken rules, and the evictions that fix them, as data.

use serde::Serialize;

use crate::verdict::{Verdict, ViolatedRule};

/// A required rule of a running pod that does not hold where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// Namespace of the pod that carries the rule.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// What kind of rule it is.
    pub rule: ViolatedRule,
    /// Path of the rule in the pod, or in the scheduler's configuration for affinity that a profile adds.
    pub term: String,
    /// Whether the rule is also required during execution: only then it is a reason for eviction.
    pub required_during_execution: bool,
    /// Why it does not hold.
    pub verdict: Verdict,
}

impl Violation {
    /// Identifies a violation over time: grace periods and repetitions are counted by it.
    pub fn key(&self) -> ViolationKey {
        ViolationKey { namespace: self.namespace.clone(), name: self.name.clone(), term: self.term.clone() }
    }
}

/// Which rule of which pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViolationKey {
    /// Namespace of the pod that carries the rule.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Path of the rule in the pod.
    pub term: String,
}

impl std::fmt::Display for ViolationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.term)
    }
}

/// What changed about rules that are required during execution, since the last call.
///
/// `ended` is to be applied before `began`: a pod that was replaced by another of its name, whose rule is broken
/// again, is in both. A rule that was broken all the time is in neither, even if the pods that conflict with it are
/// others now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViolationChanges {
    /// Rules that are broken now and were not before, sorted by their keys.
    pub began: Vec<Violation>,
    /// Rules that hold again, or whose pods are removed, are being deleted, or were replaced under the same name; sorted.
    pub ended: Vec<ViolationKey>,
}

impl ViolationChanges {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.began.is_empty() && self.ended.is_empty()
    }
}

/// How remedies are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemedyOptions {
    /// Whether a feasible node is sought for every pod to be evicted. If not, all targets are [`Target::NotRequested`].
    pub seek_targets: bool,
    /// Namespace and name of pods that are evicted also without a feasible node: the plan then continues without them.
    /// Other pods without one are held, and what they conflict with stays broken.
    pub evict_without_target: Vec<(String, String)>,
    /// Pods in these namespaces are never evicted, besides those that the cluster's settings exempt.
    pub exempt_namespaces: Vec<String>,
    /// Namespace and name of pods that were bound against a rule: of the pods that break a term of anti-affinity, these go,
    /// whatever their priority, and also without a feasible node.
    pub bound_against_rule: Vec<(String, String)>,
}

impl Default for RemedyOptions {
    /// Targets are sought, and who has none stays.
    fn default() -> Self {
        RemedyOptions {
            seek_targets: true,
            evict_without_target: Vec::new(),
            exempt_namespaces: Vec::new(),
            bound_against_rule: Vec::new(),
        }
    }
}

/// What can be done about broken rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedies {
    /// Pods to be evicted, in the order of the plan: the target of each takes those before
    /// it as evicted and replaced.
    pub remedies: Vec<Remedy>,
    /// Rules that no eviction fixes, and rules that need none, with the reason; sorted by key.
    pub stays: Vec<Stays>,
}

/// A pod to be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remedy {
    /// The pod.
    pub victim: Victim,
    /// The broken rules that its eviction fixes, sorted. A rule that needs several evictions is listed with
    /// each of them.
    pub cures: Vec<ViolationKey>,
    /// Why the first of these rules does not hold.
    pub verdict: Verdict,
    /// Where it would go.
    pub target: Target,
    /// Whether the pod stays for now, because it has no target. The plan continues with it.
    #[serde(rename = "held")]
    pub is_held: bool,
    /// The pod group that is evicted as a whole, as `NAMESPACE/NAME`: all its remedies are carried out, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// A pod to be evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`; empty if unknown.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
    /// `spec.priority`.
    pub priority: i32,
}

/// Where a pod (or what its controller makes in its place) would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// To this node. All its rules hold there, and no rule of another pod that is required during execution is
    /// broken by its coming.
    Node(String),
    /// Nowhere, and why.
    Nowhere(String),
    /// No target was requested.
    #[serde(rename = "notAsked")]
    NotRequested,
}

/// A rule that stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stays {
    /// Which rule.
    pub key: ViolationKey,
    /// Why no pod is evicted for it.
    pub reason: String,
}
