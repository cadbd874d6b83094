//! Spread constraints: a pod's own, or the defaults of its profile.

use std::sync::Arc;

use berth_api::rules::{Selector, SpreadConstraint};
use smallvec::smallvec;

use super::State;
use super::intern::{Labels, Symbol};
use super::lease::Use;
use super::matcher::{MatcherId, NamespaceMatcher, PodQuery};
use super::prepared::PreparedPod;
use super::rule_set::{RuleSet, RuleSetId};
use super::selector::LabelMatcher;
use super::signature::{LabelSetId, PodLabels};
use super::table::{Id, Keyed};
use super::topology::TopologyId;

/// A compiled spread constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) constraint: Arc<SpreadConstraint>,
    pub(crate) topology: TopologyId,
    /// The pods counted; none for a selector that matches nothing or everything: kube-scheduler counts
    /// no pods for either.
    pub(crate) matcher: Option<MatcherId>,
    /// 1 if the pod itself would count, where a pod is given.
    pub(crate) self_match: i64,
}

pub(crate) type DefaultSpreadId = Id<DefaultSpread>;

/// The default constraints of pods without constraints, resolved against services and owners as they are now.
#[derive(Clone)]
pub(crate) struct DefaultSpread {
    of: (RuleSetId, LabelSetId),
    constraints: Box<[Spread]>,
    pub(super) uses: Vec<Use>,
}

impl Keyed for DefaultSpread {
    type Key = (RuleSetId, LabelSetId);

    fn key(&self) -> &(RuleSetId, LabelSetId) {
        &self.of
    }
}

impl State {
    /// The spread constraints of a pod, with whether it matches itself.
    pub(crate) fn spread_with_self(&self, pod: &PreparedPod) -> Vec<Spread> {
        let labels = &self.label_sets.get(pod.label_set).of.labels;
        let with_self = |spread: &Spread| {
            let self_match = i64::from(self.counts_itself(spread, labels));
            Spread { self_match, ..spread.clone() }
        };
        self.spread_of(pod).iter().map(with_self).collect()
    }

    /// The spread constraints of a pod.
    pub(crate) fn spread_of(&self, pod: &PreparedPod) -> &[Spread] {
        match pod.default_spread {
            Some(id) => &self.default_spreads.get(id).constraints,
            None => &self.rule_sets.get(pod.rule_set).spread,
        }
    }

    /// Whether the spread constraints of a pod are kube-scheduler's own defaults.
    pub(crate) fn has_system_spread(&self, pod: &PreparedPod) -> bool {
        let profile = self.rule_sets.get(pod.rule_set).key.profile.filter(|_| pod.default_spread.is_some());
        profile.is_some_and(|i| self.profiles[i].system_defaulted) && !self.spread_of(pod).is_empty()
    }

    /// The default constraints of pods with these rules and labels, with one more user; none if they have their own,
    /// or their profile has no defaults.
    pub(super) fn default_spread(
        &mut self,
        rule_set: RuleSetId,
        label_set: LabelSetId,
    ) -> Option<DefaultSpreadId> {
        let RuleSet { key, spread, .. } = self.rule_sets.get(rule_set);
        if !spread.is_empty() || self.profiles[key.profile?].default_constraints.is_empty() {
            return None;
        }
        let of = (rule_set, label_set);
        if let Some(id) = self.default_spreads.find(&of) {
            self.default_spreads.retain(id);
            return Some(id);
        }
        let (constraints, uses) = self.resolve_defaults(of);
        Some(self.default_spreads.insert(DefaultSpread { of, constraints, uses }))
    }

    /// Services or owners of a namespace have changed.
    pub(super) fn resolve_defaults_again(&mut self, namespace: Symbol) {
        let in_namespace =
            |spread: &DefaultSpread| self.label_sets.get(spread.of.1).of.namespace == namespace;
        let concerned: Vec<_> =
            self.default_spreads.iter().filter(|(_, s)| in_namespace(s)).map(|(id, s)| (id, s.of)).collect();
        for (id, of) in concerned {
            let (constraints, uses) = self.resolve_defaults(of);
            let spread = self.default_spreads.get_mut(id);
            spread.constraints = constraints;
            let before = std::mem::replace(&mut spread.uses, uses);
            self.release_all(before);
        }
    }

    fn resolve_defaults(
        &mut self,
        (rule_set, label_set): (RuleSetId, LabelSetId),
    ) -> (Box<[Spread]>, Vec<Use>) {
        let key = &self.rule_sets.get(rule_set).key;
        let PodLabels { namespace, labels, .. } = &self.label_sets.get(label_set).of;
        let selector = self.workloads.default_selector(&self.symbols, *namespace, labels, key.owner.as_ref());
        let Some(profile) = key.profile.filter(|_| !selector.is_everything()) else {
            return Default::default();
        };
        let namespace = *namespace;
        let defaults = self.profiles[profile].default_constraints.iter().enumerate();
        let parse = |(i, c)| {
            let path = format!("PodTopologySpreadArgs.defaultConstraints[{i}]");
            SpreadConstraint::parse(c, selector.clone(), path)
        };
        let defaults: Vec<_> = defaults.map(parse).collect();
        let mut uses = Vec::new();
        let compile = |constraint| self.compile_spread(namespace, constraint, &mut uses);
        (defaults.into_iter().map(compile).collect(), uses)
    }

    fn counts_itself(&self, spread: &Spread, labels: &Labels) -> bool {
        match spread.matcher {
            Some(matcher) => {
                let mut queries = self.matchers.get(matcher).queries.iter();
                queries.all(|query| query.labels.matches(&self.symbols, labels))
            }
            None => spread.constraint.selector.is_everything(),
        }
    }

    /// Compiles a constraint of pods in a namespace; adds what it uses to `uses`.
    pub(super) fn compile_spread(
        &mut self,
        namespace: Symbol,
        constraint: SpreadConstraint,
        uses: &mut Vec<Use>,
    ) -> Spread {
        let key = self.symbols.intern(&constraint.topology_key);
        let topology = self.topology([key].into(), uses);
        let counts =
            !matches!(constraint.selector, Selector::Nothing) && !constraint.selector.is_everything();
        let matcher = counts.then(|| {
            self.symbols.retain(namespace);
            let labels = LabelMatcher::compile(&mut self.symbols, &constraint.selector);
            let namespaces =
                NamespaceMatcher { names: [namespace].into(), selector: LabelMatcher::nothing() };
            let query = PodQuery { namespaces, labels, live_only: true, without_exempt: false };
            self.matcher(smallvec![query], [TopologyId::NODE], [], uses)
        });
        Spread { constraint: Arc::new(constraint), topology, matcher, self_match: 0 }
    }
}
