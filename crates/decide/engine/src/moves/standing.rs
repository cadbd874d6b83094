//! How pods of a class stand on a node.

use berth_input::config::Plugin;
use smallvec::SmallVec;

use crate::cycle::context::{Context, CycleState};
use crate::cycle::what_if::RelevantMatchers;
use crate::plugins::{self, Filter, Reads};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::Likeness;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::{PreferredTerm, RuleAt};

/// The pods of a class on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) n_pods: u32,
    /// Whether the rest has been evaluated.
    pub(super) is_known: bool,
    /// Whether the filters would reject one of them there.
    pub(super) is_rejected: bool,
    /// Its own rules between pods that do not hold there.
    pub(super) broken: SmallVec<[RuleAt; 1]>,
    /// The weights of its preferred terms that are not met.
    pub(super) unmet: i64,
}

impl Place {
    /// Rejected pods, and weights that are not met.
    pub(super) fn sum(&self) -> (i64, i64) {
        let n_pods = i64::from(self.n_pods);
        (n_pods * i64::from(self.is_rejected), n_pods * self.unmet)
    }
}

/// The rules of pods of a class, prepared to be evaluated on nodes.
pub(super) struct Rules<'a> {
    context: Context<'a>,
    likeness: Likeness,
    filters: Vec<Box<dyn Filter + 'a>>,
    relevant: RelevantMatchers<'a>,
    between_pods: Vec<RuleAt>,
}

impl Rules<'_> {
    pub(super) fn of(state: &State, pod: &PreparedPod, evaluate: impl FnOnce(&Rules<'_>)) {
        let cycle = CycleState::without_nominated(state, pod);
        let Some(context) = Context::with_any_profile(state, &cycle) else { return };
        // Skew is a measure of its own, and what pods have got of resources, volumes and devices is theirs.
        let elsewhere = Reads::VOLUMES.and(Reads::VOLUMES_IN_USE).and(Reads::DEVICES);
        let rules = plugins::filtering(context.profile).filter(|rule| {
            !matches!(rule.plugin, Plugin::PodTopologySpread | Plugin::NodeResourcesFit)
                && !rule.reads.any_of(elsewhere)
        });
        let filters = rules.filter_map(|rule| (rule.filter)(context)).collect();
        let affinity = (0..context.rule_set.required_affinity.len() as u32).map(RuleAt::Affinity);
        let anti_affinity =
            (0..context.rule_set.required_anti_affinity.len() as u32).map(RuleAt::AntiAffinity);
        let likeness = Likeness { rule_set: cycle.rule_set, signature: cycle.signature };
        let relevant = RelevantMatchers::new(context);
        let between_pods = affinity.chain(anti_affinity).collect();
        evaluate(&Rules { context, likeness, filters, relevant, between_pods });
    }

    /// How `n_pods` of the class stand on a node, each without itself.
    pub(super) fn on(&self, node: NodeId, n_pods: u32) -> Place {
        let state = self.context.state;
        let is_rejected = !self.filters.is_empty() && {
            let mut without = self.relevant.on(node);
            without.change(self.likeness.rule_set, self.likeness.signature, None, None, -1);
            self.filters.iter().any(|filter| !filter.admits(without.node()))
        };
        let rules = self.between_pods.iter().copied();
        let broken = rules.filter(|rule| state.is_broken(self.likeness, node, *rule)).collect();
        Place { n_pods, is_known: true, is_rejected, broken, unmet: self.unmet(node) }
    }

    fn unmet(&self, node: NodeId) -> i64 {
        let Context { state, rule_set, profile, .. } = self.context;
        let record = state.nodes.get(node);
        let added = profile.added_preferred.iter().map(|(term, matcher)| (term, matcher));
        let own = rule_set.rules().preferred_node_affinity.iter().zip(&rule_set.preferred_node_affinity);
        let missed = added.chain(own).filter(|(_, matcher)| !matcher.matches(&state.symbols, record));
        let of_node: i64 = missed.map(|(term, _)| term.weight).sum();
        let between_pods = rule_set.preferred.iter().filter(|term| !self.meets(term, node));
        of_node + between_pods.map(|term| term.weight.abs()).sum::<i64>()
    }

    /// Whether another pod matches a preferred term in a domain of the node, or for anti-affinity none does.
    fn meets(&self, term: &PreferredTerm, node: NodeId) -> bool {
        let state = self.context.state;
        let matcher = state.matchers.get(term.matcher);
        let itself = i64::from(state.is_matched(self.likeness, term.matcher));
        let has_others = term.topologies.iter().any(|topology| {
            let domain = state.topologies.domain(*topology, node);
            domain.is_some_and(|domain| {
                matcher.matching_in(*topology).is_some_and(|counter| counter.get(domain).count > itself)
            })
        });
        has_others == (term.weight > 0)
    }
}
