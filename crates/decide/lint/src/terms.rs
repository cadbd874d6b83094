//! The pod terms of a pod, parsed and as written.

use berth_api::object::{PodAffinityTerm, SelectorRequirement};
use berth_rules::{KnownNamespaces, NamespaceScope, PodSet, PodTerm, Selector, SpreadConstraint};

use crate::added_labels::is_of_one_workload;
use crate::subject::Subject;

pub(crate) const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(crate) const EXECUTING: &str = "requiredDuringSchedulingRequiredDuringExecution";
pub(crate) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A parsed pod term of a pod.
#[derive(Clone, Copy)]
pub(crate) struct Term<'a> {
    pub(crate) anti: bool,
    pub(crate) required: bool,
    pub(crate) term: &'a PodTerm,
}

impl Term<'_> {
    /// `required affinity`, `preferred anti-affinity`.
    pub(crate) fn shown(&self) -> String {
        let strength = if self.required { "required" } else { "preferred" };
        format!("{strength} {}", if self.anti { "anti-affinity" } else { "affinity" })
    }

    pub(crate) fn path(&self) -> String {
        let inner = if self.required { "" } else { ".podAffinityTerm" };
        format!("{}{inner}", self.term.path)
    }

    pub(crate) fn set(&self) -> PodSet {
        PodSet::of(self.term)
    }
}

impl Subject<'_> {
    pub(crate) fn terms(&self) -> impl Iterator<Item = Term<'_>> {
        let rules = &self.pod.rules;
        let required = |anti| move |term| Term { anti, required: true, term };
        rules
            .required_affinity
            .iter()
            .map(required(false))
            .chain(rules.required_anti_affinity.iter().map(required(true)))
            .chain(rules.preferred_affinity.iter().map(|p| Term {
                anti: false,
                required: false,
                term: &p.term,
            }))
            .chain(rules.preferred_anti_affinity.iter().map(|p| Term {
                anti: true,
                required: false,
                term: &p.term,
            }))
    }

    /// The terms of required anti-affinity, each with the pods that it selects.
    pub(crate) fn required_anti_affinity(&self) -> impl Iterator<Item = (&PodTerm, &PodSet)> {
        let terms = &self.pod.rules.required_anti_affinity;
        terms.iter().zip(self.anti_affinity_sets.get_or_init(|| terms.iter().map(PodSet::of).collect()))
    }

    /// The pod terms as written, each with its path in the pod.
    pub(crate) fn written_terms(&self) -> Vec<(String, PodAffinityTerm)> {
        let mut terms = Vec::new();
        for (path, affinity) in self.affinities() {
            let rules =
                [("podAffinity", &affinity.pod_affinity), ("podAntiAffinity", &affinity.pod_anti_affinity)];
            for (name, rules) in rules {
                let Some(rules) = rules else { continue };
                let path = format!("{path}.{name}");
                let required = [
                    (IGNORED, &rules.required_during_scheduling_ignored_during_execution),
                    (EXECUTING, &rules.required_during_scheduling_required_during_execution),
                ];
                for (field, list) in required {
                    let with_path =
                        |(i, term): (usize, &PodAffinityTerm)| (format!("{path}.{field}[{i}]"), term.clone());
                    terms.extend(list.iter().enumerate().map(with_path));
                }
                let preferred = rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate();
                terms.extend(preferred.map(|(i, weighted)| {
                    (format!("{path}.{PREFERRED}[{i}].podAffinityTerm"), weighted.pod_affinity_term.clone())
                }));
            }
        }
        terms
    }

    /// A key in the `matchLabelKeys` of a term whose values the controllers choose for each workload.
    pub(crate) fn own_match_label_key(&self, path: &str) -> Option<&'static str> {
        let own_keys = self.own_keys.get_or_init(|| {
            let keys: Vec<_> = self.added.keys.iter().filter(|key| is_of_one_workload(key)).collect();
            let terms = if keys.is_empty() { Vec::new() } else { self.written_terms() };
            let own = |(path, term): (String, PodAffinityTerm)| {
                let key =
                    keys.iter().find(|key| term.match_label_keys.iter().any(|listed| listed == **key))?;
                Some((path, **key))
            };
            terms.into_iter().filter_map(own).collect()
        });
        own_keys.get(path).copied()
    }

    /// The requirements of node terms on labels as written: path, whether the term is required, and the requirement.
    pub(crate) fn node_expressions(&self) -> Vec<(String, bool, SelectorRequirement)> {
        let mut all = Vec::new();
        let mut add = |path: String, required, expressions: &[SelectorRequirement]| {
            let with_path = |(i, r): (usize, &SelectorRequirement)| {
                (format!("{path}.matchExpressions[{i}]"), required, r.clone())
            };
            all.extend(expressions.iter().enumerate().map(with_path));
        };
        for (path, affinity) in self.affinities() {
            let Some(rules) = &affinity.node_affinity else { continue };
            let required = [
                (IGNORED, &rules.required_during_scheduling_ignored_during_execution),
                (EXECUTING, &rules.required_during_scheduling_required_during_execution),
            ];
            for (field, selector) in required {
                for (i, term) in
                    selector.iter().flat_map(|selector| &selector.node_selector_terms).enumerate()
                {
                    let path = format!("{path}.nodeAffinity.{field}.nodeSelectorTerms[{i}]");
                    add(path, true, &term.match_expressions);
                }
            }
            for (i, term) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
                let path = format!("{path}.nodeAffinity.{PREFERRED}[{i}]");
                add(path.clone(), false, &term.match_expressions);
                if let Some(preference) = &term.preference {
                    add(format!("{path}.preference"), false, &preference.match_expressions);
                }
            }
        }
        all
    }

    pub(crate) fn spread_set(&self, constraint: &SpreadConstraint) -> PodSet {
        PodSet { namespaces: NamespaceScope::only(self.namespace()), selector: constraint.selector.clone() }
    }

    /// Whether a set has the other pods of this subject, as seen from one of them.
    pub(crate) fn others_are_in(&self, set: &PodSet, namespaces: &KnownNamespaces) -> bool {
        set.contains(self.namespace(), &self.added.of_another(&self.pod.object.metadata.labels), namespaces)
    }

    /// Whether one of the pods that are created before any of them runs is in all sets, by the labels that single pods have.
    pub(crate) fn has_first_pod_in(&self, sets: &[PodSet], namespaces: &KnownNamespaces) -> bool {
        let first = self.added.of_first_pods(&self.pod.object.metadata.labels, self.object.name, sets);
        first.iter().any(|labels| sets.iter().all(|set| set.contains(self.namespace(), labels, namespaces)))
    }

    pub(crate) fn is_in(&self, set: &PodSet, namespaces: &KnownNamespaces) -> bool {
        set.contains(self.namespace(), &self.pod.object.metadata.labels, namespaces)
    }
}

/// A selector for messages.
pub(crate) fn shown(selector: &Selector) -> String {
    match selector {
        Selector::Nothing => "no labelSelector".to_owned(),
        selector if selector.is_everything() => "the empty selector".to_owned(),
        selector => selector.to_string(),
    }
}
