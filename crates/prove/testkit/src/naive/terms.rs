//! The affinity rules of a pod with their field paths and dialects.
//!
//! v1: the v1 fields of `spec.affinity`. Proposal: `requiredDuringSchedulingRequiredDuringExecution` in
//! `spec.affinity`, and everything in the annotation. A pod must satisfy both; preferences add up.

use berth_api::object::{
    Affinity, LabelSelector, NodeAffinity, NodeSelector, Pod, PodAffinity, PodAffinityTerm,
    PreferredSchedulingTerm,
};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, TOLERATION_ANNOTATION};

use super::relax::{can_be_relaxed, is_relaxed};
use super::{Options, Question, selector};

/// The weight of a required rule that became a preference.
const RELAXED_WEIGHT: i32 = 100;

/// The meaning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The meaning in kube-scheduler.
    V1,
    /// The meaning in the design proposals.
    Proposal,
}

/// A pod affinity term with its context.
#[derive(Clone, Debug)]
pub struct PodTerm {
    pub dialect: Dialect,
    term: PodAffinityTerm,
    carrier_namespace: String,
    /// The field path in the pod, if the term is required.
    pub path: String,
    /// Whether it is required during execution.
    pub executing: bool,
    /// The number of other matching pods that may share a domain.
    pub limit: usize,
    /// The time after which the term is relaxed.
    pub relax_after: Option<String>,
    can_be_relaxed: bool,
}

/// A required node selector with its context.
#[derive(Clone, Debug)]
pub struct RequiredNodeSelector {
    pub dialect: Dialect,
    pub selector: NodeSelector,
    /// The field path in the pod.
    pub path: String,
    /// Whether it is required during execution.
    pub executing: bool,
}

const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const EXECUTING: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// The affinities of a pod with their dialects: the annotation has the proposals' dialect.
fn place(dialect: Dialect) -> String {
    match dialect {
        Dialect::V1 => "spec.affinity".to_owned(),
        Dialect::Proposal => format!("metadata.annotations[{AFFINITY_ANNOTATION}]"),
    }
}

/// The annotation's affinity. This evaluator reads JSON only; other text has no rules.
fn annotation(pod: &Pod, options: &Options) -> Option<Affinity> {
    let text = pod.metadata.annotations.get(AFFINITY_ANNOTATION).filter(|_| options.extensions)?;
    serde_json::from_str(text).ok()
}

fn node_affinities(pod: &Pod, options: &Options) -> Vec<(Dialect, NodeAffinity)> {
    let spec = pod.spec.affinity.as_ref().and_then(|a| a.node_affinity.clone());
    let noted = annotation(pod, options).and_then(|a| a.node_affinity);
    spec.map(|a| (Dialect::V1, a)).into_iter().chain(noted.map(|a| (Dialect::Proposal, a))).collect()
}

/// All required node selectors, which must all hold.
pub fn required_node_selectors(pod: &Pod, options: &Options) -> Vec<RequiredNodeSelector> {
    let mut selectors = node_selectors(pod, options);
    selectors.retain(|s| !is_relaxed_selector(pod, s, options));
    selectors
}

/// Those of v1 are never relaxed.
fn is_relaxed_selector(pod: &Pod, s: &RequiredNodeSelector, options: &Options) -> bool {
    s.dialect == Dialect::Proposal
        && !s.executing
        && is_relaxed(pod, &s.path, s.selector.relax_after.as_ref(), options)
}

/// With those that are relaxed.
pub fn node_selectors(pod: &Pod, options: &Options) -> Vec<RequiredNodeSelector> {
    let mut selectors = Vec::new();
    for (dialect, affinity) in node_affinities(pod, options) {
        let place = place(dialect);
        if let Some(selector) = affinity.required_during_scheduling_ignored_during_execution {
            let path = format!("{place}.nodeAffinity.{IGNORED}");
            selectors.push(RequiredNodeSelector { dialect, selector, path, executing: false });
        }
        if let Some(selector) = affinity.required_during_scheduling_required_during_execution
            && options.extensions
        {
            let (dialect, path) = (Dialect::Proposal, format!("{place}.nodeAffinity.{EXECUTING}"));
            selectors.push(RequiredNodeSelector { dialect, selector, path, executing: true });
        }
    }
    selectors
}

pub fn preferred_node_terms(pod: &Pod, options: &Options) -> Vec<(Dialect, PreferredSchedulingTerm)> {
    let lists = node_affinities(pod, options).into_iter();
    let written = lists.flat_map(|(dialect, a)| {
        let terms = a.preferred_during_scheduling_ignored_during_execution.into_iter();
        terms.map(move |term| (dialect, term))
    });
    let mut relaxed = node_selectors(pod, options);
    relaxed.retain(|s| is_relaxed_selector(pod, s, options));
    let alternatives = relaxed.into_iter().flat_map(|s| s.selector.node_selector_terms);
    let relaxed = alternatives.filter(|term| !term.is_null).map(|term| {
        let preference = Some(term);
        let preferred = PreferredSchedulingTerm { weight: RELAXED_WEIGHT, preference, ..Default::default() };
        (Dialect::Proposal, preferred)
    });
    written.chain(relaxed).collect()
}

pub fn required_affinity(pod: &Pod, options: &Options) -> Vec<PodTerm> {
    required(pod, options, PICK_AFFINITY)
}

pub fn required_anti_affinity(pod: &Pod, options: &Options) -> Vec<PodTerm> {
    required(pod, options, PICK_ANTI_AFFINITY)
}

fn required(pod: &Pod, options: &Options, pick: Pick) -> Vec<PodTerm> {
    pod_terms(pod, options, pick).into_iter().filter(|term| !term.is_relaxed(pod, options)).collect()
}

/// The terms that were required, and have become preferences.
fn relaxed(pod: &Pod, options: &Options, pick: Pick) -> Vec<PodTerm> {
    pod_terms(pod, options, pick).into_iter().filter(|term| term.is_relaxed(pod, options)).collect()
}

/// All preferences with signed weights: affinity positive, anti-affinity negative.
pub fn preferences(pod: &Pod, options: &Options) -> Vec<(i64, PodTerm)> {
    let mut preferences = Vec::new();
    for (sign, pick) in [(1, PICK_AFFINITY), (-1, PICK_ANTI_AFFINITY)] {
        for (dialect, affinity) in pod_affinities(pod, options, pick) {
            for weighted in affinity.preferred_during_scheduling_ignored_during_execution {
                let term = PodTerm::new(dialect, weighted.pod_affinity_term, pod);
                preferences.push((sign * i64::from(weighted.weight), term));
            }
        }
        let relaxed = relaxed(pod, options, pick).into_iter();
        preferences.extend(relaxed.map(|term| (sign * i64::from(RELAXED_WEIGHT), term)));
    }
    preferences
}

/// A field of `Affinity`, and its name.
type Pick = (fn(Affinity) -> Option<PodAffinity>, &'static str);
pub const PICK_AFFINITY: Pick = (|a| a.pod_affinity, "podAffinity");
pub const PICK_ANTI_AFFINITY: Pick = (|a| a.pod_anti_affinity, "podAntiAffinity");

fn pod_affinities(pod: &Pod, options: &Options, (pick, _): Pick) -> Vec<(Dialect, PodAffinity)> {
    let spec = pod.spec.affinity.as_deref().cloned().and_then(pick);
    let noted = annotation(pod, options).and_then(pick);
    spec.map(|a| (Dialect::V1, a)).into_iter().chain(noted.map(|a| (Dialect::Proposal, a))).collect()
}

/// All terms that are required, or were until they were relaxed.
pub fn pod_terms(pod: &Pod, options: &Options, pick: Pick) -> Vec<PodTerm> {
    let mut terms = Vec::new();
    for (dialect, affinity) in pod_affinities(pod, options, pick) {
        let place = format!("{}.{}", place(dialect), pick.1);
        let ignored = affinity.required_during_scheduling_ignored_during_execution.into_iter();
        for (i, mut term) in ignored.enumerate() {
            let path = format!("{place}.{IGNORED}[{i}]");
            let relax_after = term.relax_after.take();
            let can_be_relaxed = can_be_relaxed(pod, relax_after.as_ref(), options);
            let term = PodTerm::new(dialect, term, pod);
            terms.push(PodTerm { path, relax_after, can_be_relaxed, ..term });
        }
        if options.extensions {
            let executing = affinity.required_during_scheduling_required_during_execution.into_iter();
            for (i, term) in executing.enumerate() {
                let path = format!("{place}.{EXECUTING}[{i}]");
                let term = PodTerm::new(Dialect::Proposal, term, pod);
                terms.push(PodTerm { path, executing: true, ..term });
            }
        }
    }
    terms
}

impl PodTerm {
    fn new(dialect: Dialect, term: PodAffinityTerm, carrier: &Pod) -> Self {
        let carrier_namespace = carrier.metadata.namespace.clone();
        let limit = term.limit.filter(|_| dialect == Dialect::Proposal).unwrap_or(0) as usize;
        let (path, executing, relax_after, can_be_relaxed) = Default::default();
        PodTerm { dialect, term, carrier_namespace, path, executing, limit, relax_after, can_be_relaxed }
    }

    fn is_relaxed(&self, pod: &Pod, options: &Options) -> bool {
        !self.executing && is_relaxed(pod, &self.path, self.relax_after.as_ref(), options)
    }

    /// Whether a pod that is to be placed does without an equal term, so that this one of a running pod does not reject it.
    pub fn is_relaxed_by(&self, q: Question) -> bool {
        let mut relaxed = relaxed(q.pod, q.options, PICK_ANTI_AFFINITY).into_iter();
        self.can_be_relaxed && relaxed.any(|own| own.question() == self.question())
    }

    /// What a term says, however it is written.
    fn question(&self) -> impl PartialEq {
        let requirements = |selector: &Option<LabelSelector>| {
            let selector = selector.as_ref()?;
            let labels = selector.match_labels.iter();
            let labels = labels.map(|(key, value)| (key.clone(), "In".to_owned(), vec![value.clone()]));
            let expressions = selector.match_expressions.iter();
            let expressions = expressions.map(|r| (r.key.clone(), r.operator.clone(), r.values.clone()));
            Some(labels.chain(expressions).collect::<Vec<_>>())
        };
        let (namespaces, selector) = (self.term.namespaces.clone(), self.term.namespace_selector.clone());
        let (mut names, selector) = match (self.dialect, namespaces.as_deref(), selector) {
            (Dialect::Proposal, Some([]), _) => (Vec::new(), Some(LabelSelector::default())),
            (_, None | Some([]), None) => (vec![self.carrier_namespace.clone()], None),
            (_, names, selector) => (names.unwrap_or_default().to_vec(), selector),
        };
        names.sort();
        names.dedup();
        let (labels, topology_key) =
            (requirements(&self.term.label_selector), self.term.topology_key.clone());
        (self.dialect, labels, names, requirements(&selector), topology_key, self.limit)
    }

    /// Whether a term of the pod to be placed matches a running pod (or the pod itself).
    ///
    /// kube-scheduler turns a namespace selector into the list of namespaces that exist and match, except
    /// the empty selector, which covers namespaces that do not exist as well.
    pub fn of_incoming_matches(&self, q: Question, target: &Pod) -> bool {
        self.covers_by_name(q, target) && self.selects_labels(q, target)
    }

    fn covers_by_name(&self, q: Question, target: &Pod) -> bool {
        let namespace = &target.metadata.namespace;
        let selected = self.term.namespace_selector.as_ref().is_some_and(|s| {
            selector::is_empty(s)
                || q.namespace_labels(namespace).is_some_and(|labels| selector::selects(Some(s), labels))
        });
        self.lists_namespace(namespace) || selected
    }

    /// Whether a term of a running pod matches the pod to be placed.
    ///
    /// Here kube-scheduler uses the labels of the incoming pod's namespace; none if it does not exist.
    pub fn of_existing_matches_incoming(&self, q: Question) -> bool {
        let namespace = &q.pod.metadata.namespace;
        let no_labels = Default::default();
        let labels = q.namespace_labels(namespace).unwrap_or(&no_labels);
        let selected =
            self.term.namespace_selector.as_ref().is_some_and(|s| selector::selects(Some(s), labels));
        (self.lists_namespace(namespace) || selected) && self.selects_labels(q, q.pod)
    }

    fn lists_namespace(&self, namespace: &str) -> bool {
        match (self.dialect, self.term.namespaces.as_deref()) {
            (Dialect::Proposal, Some([])) => true,
            (_, None | Some([])) => {
                self.term.namespace_selector.is_none() && namespace == self.carrier_namespace
            }
            (_, Some(names)) => names.iter().any(|name| name == namespace),
        }
    }

    fn selects_labels(&self, q: Question, target: &Pod) -> bool {
        let label_selector = self.term.label_selector.as_ref();
        let ordering = label_selector
            .is_some_and(|s| s.match_expressions.iter().any(|r| r.operator == "Gt" || r.operator == "Lt"));
        (!ordering || q.options.extensions) && selector::selects(label_selector, &target.metadata.labels)
    }

    /// The node label keys whose domains count: one, or the configured list for an empty key.
    pub fn topology_keys<'a>(&'a self, q: Question<'a>) -> Vec<&'a str> {
        if self.dialect == Dialect::Proposal && self.term.topology_key.is_empty() {
            q.options.all_topologies.iter().map(String::as_str).collect()
        } else {
            vec![&self.term.topology_key]
        }
    }

    /// Whether an anti-affinity term does not apply between its owner and this pod, because one of them is in an exempt
    /// namespace, or the pod tolerates the anti-affinity of the owner's namespace.
    pub fn is_exempt(&self, q: Question, other: &Pod) -> bool {
        let applies = q.options.extensions && (self.dialect == Dialect::Proposal || q.options.exempt_for_v1);
        let exempt = |namespace: &String| q.options.exempt_namespaces.contains(namespace);
        let listed = other.metadata.annotations.get(TOLERATION_ANNOTATION).map_or("", String::as_str);
        let tolerates = listed.split(',').any(|name| name == "*" || name == self.carrier_namespace);
        (q.options.extensions && tolerates)
            || (applies && (exempt(&self.carrier_namespace) || exempt(&other.metadata.namespace)))
    }
}
