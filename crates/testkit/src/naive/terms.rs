//! The affinity rules of a pod with their field paths and dialects.
//!
//! v1: the v1 fields of `spec.affinity`. Proposal: `requiredDuringSchedulingRequiredDuringExecution` in
//! `spec.affinity`, and everything in the annotation. A pod must satisfy both; preferences add up.

use berth_api::object::{
    Affinity, NodeAffinity, NodeSelector, Pod, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm,
};

use super::{AFFINITY_ANNOTATION, Options, Question, TOLERATION_ANNOTATION, selector};

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
    dialect: Dialect,
    term: PodAffinityTerm,
    carrier_namespace: String,
    /// The field path in the pod, if the term is required.
    pub path: String,
    /// Whether it is required during execution.
    pub executing: bool,
    /// The number of other matching pods that may share a domain.
    pub limit: usize,
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

/// All preferred node terms.
pub fn preferred_node_terms(pod: &Pod, options: &Options) -> Vec<(Dialect, PreferredSchedulingTerm)> {
    let lists = node_affinities(pod, options).into_iter();
    lists
        .flat_map(|(dialect, a)| {
            let terms = a.preferred_during_scheduling_ignored_during_execution.into_iter();
            terms.map(move |term| (dialect, term))
        })
        .collect()
}

/// All required affinity terms: one list, whatever field or dialect they come from.
pub fn required_affinity(pod: &Pod, options: &Options) -> Vec<PodTerm> {
    required(pod, options, "podAffinity", |a| a.pod_affinity)
}

/// All required anti-affinity terms.
pub fn required_anti_affinity(pod: &Pod, options: &Options) -> Vec<PodTerm> {
    required(pod, options, "podAntiAffinity", |a| a.pod_anti_affinity)
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
    }
    preferences
}

type Pick = fn(Affinity) -> Option<PodAffinity>;
const PICK_AFFINITY: Pick = |a| a.pod_affinity;
const PICK_ANTI_AFFINITY: Pick = |a| a.pod_anti_affinity;

fn pod_affinities(pod: &Pod, options: &Options, pick: Pick) -> Vec<(Dialect, PodAffinity)> {
    let spec = pod.spec.affinity.clone().and_then(pick);
    let noted = annotation(pod, options).and_then(pick);
    spec.map(|a| (Dialect::V1, a)).into_iter().chain(noted.map(|a| (Dialect::Proposal, a))).collect()
}

fn required(pod: &Pod, options: &Options, field: &str, pick: Pick) -> Vec<PodTerm> {
    let mut terms = Vec::new();
    for (dialect, affinity) in pod_affinities(pod, options, pick) {
        let place = format!("{}.{field}", place(dialect));
        let ignored = affinity.required_during_scheduling_ignored_during_execution.into_iter();
        for (i, term) in ignored.enumerate() {
            let path = format!("{place}.{IGNORED}[{i}]");
            terms.push(PodTerm { path, ..PodTerm::new(dialect, term, pod) });
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
        PodTerm { dialect, term, carrier_namespace, path: String::new(), executing: false, limit }
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
