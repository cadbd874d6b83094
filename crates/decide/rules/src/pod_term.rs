//! Pod affinity terms.

use super::selector::{Comparison, Requirement};
use super::{Dialect, Selector};
use berth_api::object::{Pod, PodAffinity, PodAffinityTerm, StringMap};
use berth_api::syntax::annotations::TOLERATION_ANNOTATION;
use berth_api::syntax::label_key;

/// A pod affinity term: the pods it selects, and the topology.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Field path in the pod, such as `spec.affinity.podAffinity...[0]`.
    pub path: String,
    pub dialect: Dialect,
    /// Whether the rule also holds during execution: the enforcer evicts pods that break it.
    pub required_during_execution: bool,
    /// The labels of the selected pods.
    pub selector: Selector,
    /// The namespaces of the selected pods.
    pub namespaces: NamespaceScope,
    /// The topology whose domains the term compares.
    pub topology: TopologyScope,
    /// Of required anti-affinity: how many other matching pods may share a domain. 0 for all other terms.
    pub limit: u32,
}

/// The namespaces in the annotation [`TOLERATION_ANNOTATION`] of a pod, as written.
pub fn tolerated_namespaces(pod: &Pod) -> impl Iterator<Item = &str> {
    let text = pod.metadata.annotations.get(TOLERATION_ANNOTATION);
    text.into_iter().flat_map(|text| text.split(',')).map(str::trim)
}

impl PodTerm {
    /// Whether it may select pods outside of the namespace `own`.
    pub fn selects_other_namespaces(&self, own: &str) -> bool {
        let namespaces = &self.namespaces;
        let names_others = namespaces.names.iter().any(|name| name != own);
        self.selector.is_satisfiable() && (names_others || namespaces.selector.is_satisfiable())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredPodTerm {
    /// 1 to 100.
    pub weight: i64,
    pub term: PodTerm,
}

/// The label with its name that the API server gives to every namespace.
pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The namespaces of a term: those listed, and those that the selector matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceScope {
    /// Names, sorted, without duplicates.
    pub names: Vec<String>,
    /// By namespace label; one without requirements means all namespaces, also unknown ones.
    pub selector: Selector,
}

impl NamespaceScope {
    pub fn all() -> Self {
        NamespaceScope { names: Vec::new(), selector: Selector::EVERYTHING }
    }

    /// Whether it has every namespace, whichever exist: the label with their name is on all of them.
    pub fn is_all(&self) -> bool {
        let holds =
            |requirement: &Requirement| matches!(requirement, Requirement::Exists(key) if key == NAME_LABEL);
        matches!(&self.selector, Selector::All(requirements) if requirements.iter().all(holds))
    }

    /// Whether it has a namespace with these labels; the label with its name need not be among them.
    pub fn contains(&self, name: &str, labels: &StringMap) -> bool {
        let label =
            |key: &str| if key == NAME_LABEL { Some(name) } else { labels.get(key).map(String::as_str) };
        self.names.iter().any(|listed| listed == name) || self.selector.matches(label)
    }

    pub fn only(name: &str) -> Self {
        NamespaceScope { names: vec![name.to_owned()], selector: Selector::Nothing }
    }

    fn parse(term: &PodAffinityTerm, dialect: Dialect, own: &str) -> Result<Self, String> {
        let listed = term.namespaces.as_deref().unwrap_or_default();
        if listed.is_empty() {
            if dialect == Dialect::Proposal && term.namespaces.is_some() {
                return Ok(Self::all());
            }
            if term.namespace_selector.is_none() {
                return Ok(Self::only(own));
            }
        }
        let mut names = listed.to_vec();
        names.sort_unstable();
        names.dedup();
        let selector = Selector::parse(term.namespace_selector.as_ref())
            .map_err(|e| format!("namespaceSelector.{e}"))?;
        Ok(NamespaceScope { names, selector })
    }
}

impl std::fmt::Display for NamespaceScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.names.join(", ");
        match &self.selector {
            selector if selector.is_everything() => f.write_str("all namespaces"),
            Selector::Nothing => f.write_str(&names),
            selector if names.is_empty() => write!(f, "namespaces with {selector}"),
            selector => write!(f, "{names} and namespaces with {selector}"),
        }
    }
}

/// `topologyKey`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopologyScope {
    /// Nodes with the same value of this label are one domain.
    Key(String),
    /// All configured topologies (an empty key in the proposals' dialect): a match in any of them counts.
    All,
}

/// Why label keys, of which `max` are allowed, cannot be what "all topologies" stands for; none if they can.
pub fn all_topologies_problem(keys: &[String], max: usize) -> Option<String> {
    if !(1..=max).contains(&keys.len()) {
        return Some(format!("must be 1 to {max} label keys"));
    }
    let invalid = keys.iter().find(|key| !label_key(key).is_empty())?;
    Some(format!("{invalid:?} is not a label key: {}", label_key(invalid).join("; ")))
}

/// Whether a v1 term has a meaning only with extensions. Without, the API server refuses new pods with such a term; of pods
/// that it stored before, the term is ignored, so that they stay schedulable.
pub fn needs_extensions(term: &PodAffinityTerm) -> bool {
    let mut requirements = term.label_selector.iter().flat_map(|selector| &selector.match_expressions);
    requirements.any(|requirement| matches!(requirement.operator.as_str(), "Gt" | "Lt"))
}

/// The error of a `limit` in any other term: where it is allowed.
pub(crate) const LIMIT_ELSEWHERE: &str = "may only be specified in required terms of podAntiAffinity in the annotation, and in \
     requiredDuringSchedulingRequiredDuringExecution of spec.affinity.podAntiAffinity";

/// The terms of one `podAffinity` or (`anti`) `podAntiAffinity`: the required ones and the preferred ones.
pub(super) fn parse(
    affinity: &PodAffinity,
    anti: bool,
    path: &str,
    dialect: Dialect,
    pod: &Pod,
    extensions: bool,
) -> Result<(Vec<PodTerm>, Vec<PreferredPodTerm>), String> {
    let own = pod.metadata.namespace.as_str();
    let comparison = if extensions { Comparison::Integers } else { Comparison::Refused };
    let parse_term =
        |term: &PodAffinityTerm, path: String, dialect, required_during_execution, limited: bool| {
            let in_path = |e: String| format!("{path}.{e}");
            let selector = Selector::parse_with(term.label_selector.as_ref(), comparison);
            let selector = selector.map_err(|e| in_path(format!("labelSelector.{e}")))?;
            let namespaces = NamespaceScope::parse(term, dialect, own).map_err(in_path)?;
            let topology = if term.topology_key.is_empty() && dialect == Dialect::Proposal {
                TopologyScope::All
            } else {
                TopologyScope::Key(term.topology_key.clone())
            };
            let limit = match term.limit.filter(|_| dialect == Dialect::Proposal) {
                Some(_) if !limited => return Err(in_path(format!("limit: {LIMIT_ELSEWHERE}"))),
                limit => {
                    u32::try_from(limit.unwrap_or(0)).map_err(|_| in_path("limit: is negative".to_owned()))?
                }
            };
            Ok::<_, String>(PodTerm {
                path,
                dialect,
                required_during_execution,
                selector,
                namespaces,
                topology,
                limit,
            })
        };
    let ignored = &affinity.required_during_scheduling_ignored_during_execution;
    let executing = &affinity.required_during_scheduling_required_during_execution;

    let in_force = |term: &PodAffinityTerm| extensions || !needs_extensions(term);
    let mut required = Vec::new();
    for (i, term) in ignored.iter().enumerate().filter(|(_, term)| in_force(term)) {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution[{i}]");
        required.push(parse_term(term, path, dialect, false, anti)?);
    }
    for (i, term) in executing.iter().enumerate().filter(|_| extensions) {
        let path = format!("{path}.requiredDuringSchedulingRequiredDuringExecution[{i}]");
        required.push(parse_term(term, path, Dialect::Proposal, true, anti)?);
    }
    let mut preferred = Vec::new();
    for (i, weighted) in affinity.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
        if !in_force(&weighted.pod_affinity_term) {
            continue;
        }
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]");
        let term = parse_term(&weighted.pod_affinity_term, path, dialect, false, false)?;
        preferred.push(PreferredPodTerm { weight: i64::from(weighted.weight), term });
    }
    Ok((required, preferred))
}
