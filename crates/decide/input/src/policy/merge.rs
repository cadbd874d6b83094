//! The rules of one policy meet those of a pod: which are added, replaced or left out.

use std::collections::BTreeSet;

use super::{Mode, PlacementPolicy};
use berth_api::object::{
    Affinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PodSpec, SelectorRequirement,
    StringMap, Toleration,
};
use berth_api::work::WorkBudget;

/// The plugin `DefaultTolerationSeconds` adds these tolerations, with this time, before any policy sees the pod.
const DEFAULT_TOLERATIONS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

/// What happened to a rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Added,
    /// It replaces rules of the pod.
    Replaced,
    /// The pod has other rules about the same thing, or of the same sort.
    OwnWins,
    /// A policy that comes first has other rules about the same thing, or of the same sort.
    OtherWins(String),
}

/// Merges one policy into a pod.
pub(super) struct Merge<'a> {
    policy: &'a PlacementPolicy,
    /// The policies that come first. Rules of the pod that are equal to theirs count as theirs.
    earlier: &'a [&'a PlacementPolicy],
    /// The path in the policy, and what happened to the rule.
    pub(super) effects: Vec<(String, Effect)>,
    /// Comparisons of rules. When it is spent, nothing more is merged.
    budget: &'a WorkBudget,
    /// Entries of the policy: what all of its rules cost to be compared with one.
    n_entries: usize,
}

/// The rules that may be in the way of a policy's.
enum Rivals {
    None,
    Own,
    Other(String),
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        policy: &'a PlacementPolicy,
        earlier: &'a [&'a PlacementPolicy],
        budget: &'a WorkBudget,
    ) -> Merge<'a> {
        Merge { policy, earlier, effects: Vec::new(), budget, n_entries: policy.n_entries() }
    }

    pub(super) fn policy(&self) -> &'a PlacementPolicy {
        self.policy
    }

    /// Whether the budget has room for comparing some rules with a part of those of the policy.
    fn can_compare(&self, n_rules: usize, (part, of): (usize, usize)) -> bool {
        self.budget.spend(n_rules.saturating_mul(self.n_entries * part / of.max(1) + 1)).is_ok()
    }

    /// What happens to a rule at `path` with such rivals; whether it is put into the pod.
    fn decide(&mut self, path: String, rivals: Rivals) -> bool {
        let effect = match rivals {
            Rivals::None => Effect::Added,
            Rivals::Own if self.policy.spec.overrides => Effect::Replaced,
            Rivals::Own => Effect::OwnWins,
            Rivals::Other(name) => Effect::OtherWins(name),
        };
        let is_taken = matches!(effect, Effect::Added | Effect::Replaced);
        self.effects.push((path, effect));
        is_taken
    }

    /// Merges a list of rules. `of` is the list of a policy; `is_about_same` tells rules that exclude each other.
    fn list<T: Clone + PartialEq + 'a>(
        &mut self,
        path: &str,
        now: &mut Vec<T>,
        of: impl Fn(&'a PlacementPolicy) -> &'a [T],
        is_about_same: impl Fn(&T, &T) -> bool,
    ) {
        let items = of(self.policy);
        let is_default = self.policy.spec.mode == Mode::Default;
        if items.is_empty() || !self.can_compare(now.len(), (1, 1)) {
            return;
        }
        // Parallel to `now`: what the policy lists as well is no rival of its rules.
        let mut others: Vec<bool> = now.iter().map(|x| !items.contains(x)).collect();
        for (i, item) in items.iter().enumerate() {
            if !self.can_compare(now.len(), (1, items.len())) {
                return;
            }
            if now.contains(item) {
                continue;
            }
            let is_rival = |(x, other): (&T, &bool)| *other && (is_default || is_about_same(x, item));
            let is_rival: Vec<bool> = now.iter().zip(&others).map(is_rival).collect();
            let by = |x| {
                let lists = |policy: &&&'a PlacementPolicy| {
                    self.budget.spend(policy.n_entries()).is_ok() && of(policy).contains(x)
                };
                self.earlier.iter().find(lists)
            };
            let mut rivals = now.iter().zip(&is_rival).filter(|(_, is_rival)| **is_rival).map(|(x, _)| x);
            let rivals = match rivals.find_map(by) {
                Some(other) => Rivals::Other(other.to_string()),
                None if is_rival.contains(&true) => Rivals::Own,
                None => Rivals::None,
            };
            if self.decide(format!("{path}[{i}]"), rivals) {
                let mut kept = is_rival.iter().map(|is_rival| !is_rival);
                now.retain(|_| kept.next().unwrap_or(true));
                let mut kept = is_rival.iter().map(|is_rival| !is_rival);
                others.retain(|_| kept.next().unwrap_or(true));
                now.push(item.clone());
                others.push(false);
            }
        }
    }

    /// Merges the tolerations and spread constraints.
    pub(super) fn lists_of_spec(&mut self, spec: &mut PodSpec) {
        let is_default = |t: &Toleration| {
            t.toleration_seconds == Some(DEFAULT_TOLERATION_SECONDS)
                && DEFAULT_TOLERATIONS.contains(&t.key.as_str())
        };
        let (defaults, mut own) = std::mem::take(&mut spec.tolerations).into_iter().partition(is_default);
        self.list(
            "spec.tolerations",
            &mut own,
            |policy| &policy.spec.tolerations,
            |a, b| {
                let parts = |t: &Toleration| Toleration { toleration_seconds: None, ..t.clone() };
                parts(a) == parts(b)
            },
        );
        let replaces = |t: &Toleration, default: &Toleration| {
            (t.key == default.key || t.key.is_empty()) && (t.effect == default.effect || t.effect.is_empty())
        };
        let defaults: Vec<_> =
            defaults.into_iter().filter(|default| !own.iter().any(|t| replaces(t, default))).collect();
        own.extend(defaults);
        spec.tolerations = own.into();
        self.list(
            "spec.topologySpreadConstraints",
            &mut spec.topology_spread_constraints,
            |policy| &policy.spec.topology_spread_constraints,
            |a, b| a.topology_key == b.topology_key,
        );
    }

    /// Merges the affinity of the field `field` of policies, which `of` reads. `node_selector` is that of the pod, where
    /// it belongs to the same rules.
    pub(super) fn affinity(
        &mut self,
        field: &str,
        now: &mut Affinity,
        node_selector: Option<&mut StringMap>,
        of: fn(&PlacementPolicy) -> Option<&Affinity>,
    ) {
        let Some(affinity) = of(self.policy) else { return };
        let path = format!("spec.{field}");
        if affinity.node_affinity.is_some() {
            let now = now.node_affinity.get_or_insert_default();
            let node = |policy: &'a PlacementPolicy| of(policy).and_then(|a| a.node_affinity.as_ref());
            let path = format!("{path}.nodeAffinity");
            self.node_selector(
                format!("{path}.{IGNORED}"),
                &mut now.required_during_scheduling_ignored_during_execution,
                node_selector,
                |policy| node(policy)?.required_during_scheduling_ignored_during_execution.as_ref(),
            );
            self.node_selector(
                format!("{path}.{REQUIRED}"),
                &mut now.required_during_scheduling_required_during_execution,
                None,
                |policy| node(policy)?.required_during_scheduling_required_during_execution.as_ref(),
            );
            self.list(
                &format!("{path}.{PREFERRED}"),
                &mut now.preferred_during_scheduling_ignored_during_execution,
                |policy| {
                    node(policy).map_or(&[], |n| &n.preferred_during_scheduling_ignored_during_execution)
                },
                |a, b| a.preference == b.preference && a.match_expressions == b.match_expressions,
            );
        }
        type Read = fn(&Affinity) -> &Option<PodAffinity>;
        type Write = fn(&mut Affinity) -> &mut Option<PodAffinity>;
        let kinds: [(_, Read, Write); 2] = [
            ("podAffinity", |a| &a.pod_affinity, |a| &mut a.pod_affinity),
            ("podAntiAffinity", |a| &a.pod_anti_affinity, |a| &mut a.pod_anti_affinity),
        ];
        for (name, read, write) in kinds {
            if read(affinity).is_none() {
                continue;
            }
            let now = write(now).get_or_insert_default();
            let rules = |policy: &'a PlacementPolicy| of(policy).and_then(|a| read(a).as_ref());
            self.list(
                &format!("{path}.{name}.{IGNORED}"),
                &mut now.required_during_scheduling_ignored_during_execution,
                |policy| {
                    rules(policy).map_or(&[], |r| &r.required_during_scheduling_ignored_during_execution)
                },
                is_same_term,
            );
            self.list(
                &format!("{path}.{name}.{REQUIRED}"),
                &mut now.required_during_scheduling_required_during_execution,
                |policy| {
                    rules(policy).map_or(&[], |r| &r.required_during_scheduling_required_during_execution)
                },
                is_same_term,
            );
            self.list(
                &format!("{path}.{name}.{PREFERRED}"),
                &mut now.preferred_during_scheduling_ignored_during_execution,
                |policy| {
                    rules(policy).map_or(&[], |r| &r.preferred_during_scheduling_ignored_during_execution)
                },
                |a, b| is_same_term(&a.pod_affinity_term, &b.pod_affinity_term),
            );
        }
    }

    /// Merges a required node selector: it must hold together with the pod's own, unless one of its keys is a key there.
    fn node_selector(
        &mut self,
        path: String,
        now: &mut Option<NodeSelector>,
        node_selector: Option<&mut StringMap>,
        of: impl Fn(&'a PlacementPolicy) -> Option<&'a NodeSelector>,
    ) {
        let Some(added) = of(self.policy) else { return };
        let n_terms = now.as_ref().map_or(1, |now| now.node_selector_terms.len().max(1));
        let n_both = n_terms.saturating_mul(added.node_selector_terms.len());
        let n_rules = all_requirements(now.as_ref()).count() + n_terms;
        if !self.can_compare(n_rules, (1, 1)) || self.budget.spend(n_both.saturating_mul(n_both)).is_err() {
            return;
        }
        let is_default = self.policy.spec.mode == Mode::Default;
        let is_as_lasting =
            |now: &NodeSelector| now.relax_after.is_none() || now.relax_after == added.relax_after;
        if now.as_ref().is_some_and(|now| is_as_lasting(now) && implies(now, added)) {
            return;
        }
        let keys: BTreeSet<&str> = all_requirements(Some(added)).map(|r| r.key.as_str()).collect();
        let is_in_the_way = |key: &str| is_default || keys.contains(key);
        let by = |rival| {
            let lists = |policy: &&&'a PlacementPolicy| {
                self.budget.spend(policy.n_entries()).is_ok()
                    && all_requirements(of(policy)).any(|r| r == rival)
            };
            self.earlier.iter().find(lists)
        };
        let rivals: Vec<_> = all_requirements(now.as_ref()).filter(|r| is_in_the_way(&r.key)).collect();
        let is_selected = |labels: &StringMap| labels.keys().any(|key| is_in_the_way(key));
        let rivals = match rivals.iter().copied().find_map(by) {
            Some(other) => Rivals::Other(other.to_string()),
            None if !rivals.is_empty() || node_selector.as_deref().is_some_and(is_selected) => Rivals::Own,
            None => Rivals::None,
        };
        if !self.decide(path, rivals) {
            return;
        }
        if let Some(node_selector) = node_selector {
            node_selector.retain(|key, _| !is_in_the_way(key));
        }
        // Time relaxes what is both the pod's and the policy's only as far as both allow it.
        let relax_after = match now.as_ref() {
            Some(now) if now.relax_after != added.relax_after => None,
            _ => added.relax_after.clone(),
        };
        let mut before = now.take().map(|now| now.node_selector_terms).unwrap_or_default();
        // A term without requirements matches no node, and is left out of the alternatives.
        before.retain(|term| term.match_expressions.len() + term.match_fields.len() > 0);
        for term in &mut before {
            term.match_expressions.retain(|requirement| !is_in_the_way(&requirement.key));
            term.match_fields.retain(|requirement| !is_in_the_way(&requirement.key));
        }
        if before.is_empty() {
            before.push(NodeSelectorTerm::default());
        }
        let both = before.iter().flat_map(|a| added.node_selector_terms.iter().map(move |b| and(a, b)));
        let mut node_selector_terms: Vec<NodeSelectorTerm> = Vec::new();
        for term in both {
            if !node_selector_terms.contains(&term) {
                node_selector_terms.push(term);
            }
        }
        *now = Some(NodeSelector { node_selector_terms, relax_after });
    }
}

const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingRequiredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Whether two terms are about the same pods and topology. They may differ in namespaces and other details.
fn is_same_term(a: &PodAffinityTerm, b: &PodAffinityTerm) -> bool {
    a.topology_key == b.topology_key && a.label_selector == b.label_selector
}

fn all_requirements(selector: Option<&NodeSelector>) -> impl Iterator<Item = &SelectorRequirement> {
    let terms = selector.into_iter().flat_map(|selector| &selector.node_selector_terms);
    terms.flat_map(|term| term.match_expressions.iter().chain(&term.match_fields))
}

/// Whether each alternative of `now` contains one of `added`.
fn implies(now: &NodeSelector, added: &NodeSelector) -> bool {
    let contains = |a: &NodeSelectorTerm, b: &NodeSelectorTerm| {
        b.match_expressions.iter().all(|r| a.match_expressions.contains(r))
            && b.match_fields.iter().all(|r| a.match_fields.contains(r))
    };
    let one_of = |a| added.node_selector_terms.iter().any(|b| contains(a, b));
    !now.node_selector_terms.is_empty() && now.node_selector_terms.iter().all(one_of)
}

/// Both terms at once.
fn and(a: &NodeSelectorTerm, b: &NodeSelectorTerm) -> NodeSelectorTerm {
    let mut both = a.clone();
    for requirement in &b.match_expressions {
        if !both.match_expressions.contains(requirement) {
            both.match_expressions.push(requirement.clone());
        }
    }
    for requirement in &b.match_fields {
        if !both.match_fields.contains(requirement) {
            both.match_fields.push(requirement.clone());
        }
    }
    both
}
