//! Spread constraints: a pod's own, or the defaults of its profile.

use berth_api::rules::SpreadConstraint;
use smallvec::smallvec;

use super::State;
use super::intern::{Labels, Symbol};
use super::matcher::{MatcherId, NamespaceMatcher, PodQuery};
use super::prepared::PreparedPod;
use super::rule_set::RuleSetId;
use super::selector::LabelMatcher;
use super::topology::TopologyId;

/// A compiled spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) constraint: SpreadConstraint,
    pub(crate) topology: TopologyId,
    /// The pods counted; none for a selector that matches nothing or everything: kube-scheduler counts
    /// no pods for either.
    pub(crate) matcher: Option<MatcherId>,
    /// 1 if the pod itself would count.
    pub(crate) self_match: i64,
}

impl State {
    /// The spread constraints of a pod, and whether they are kube-scheduler's defaults.
    pub(crate) fn spread_of(&mut self, pod: &PreparedPod) -> (Vec<Spread>, bool) {
        let (namespace, labels) = (pod.namespace, &pod.labels);
        let (constraints, system_spread) = self.spread_constraints(pod.rule_set, namespace, labels);
        let spread = constraints.into_iter().map(|c| self.compile_spread(namespace, labels, c)).collect();
        (spread, system_spread)
    }

    /// The pod's own spread constraints, or the profile's defaults for it.
    fn spread_constraints(
        &self,
        rule_set: RuleSetId,
        namespace: Symbol,
        labels: &Labels,
    ) -> (Vec<SpreadConstraint>, bool) {
        let key = &self.rule_sets.get(rule_set).key;
        let own = &key.rules.spread_constraints;
        let profile = key.profile.map(|i| &self.profiles[i]);
        let Some(profile) = profile.filter(|p| own.is_empty() && !p.default_constraints.is_empty()) else {
            return (own.clone(), false);
        };
        let selector = self.workloads.default_selector(&self.symbols, namespace, labels, key.owner.as_ref());
        if selector.is_everything() {
            return (Vec::new(), false);
        }
        let defaults = profile.default_constraints.iter().enumerate();
        let parse = |(i, c)| {
            SpreadConstraint::parse(
                c,
                selector.clone(),
                format!("PodTopologySpreadArgs.defaultConstraints[{i}]"),
            )
        };
        (defaults.map(parse).collect(), profile.system_defaulted)
    }

    fn compile_spread(
        &mut self,
        namespace: Symbol,
        pod_labels: &Labels,
        constraint: SpreadConstraint,
    ) -> Spread {
        let key = self.symbols.intern(&constraint.topology_key);
        let topology = self.topology(vec![key]);
        let labels = LabelMatcher::compile(&mut self.symbols, &constraint.selector);
        let counts = !labels.is_nothing() && !labels.is_everything();
        let self_match = i64::from(labels.matches(&self.symbols, pod_labels));
        let matcher = counts.then(|| {
            let namespaces =
                NamespaceMatcher { names: [namespace].into(), selector: LabelMatcher::nothing() };
            let query = PodQuery { namespaces, labels, live_only: true, without_exempt: false };
            self.matcher(smallvec![query], [TopologyId::NODE], [])
        });
        Spread { constraint, topology, matcher, self_match }
    }
}
