//! One required rule of a running pod, and whether it holds where the pod runs.
//!
//! The evaluated pod is left out: its own match counts neither for it nor against it. All other
//! pods on known nodes count, those that are being deleted as well, as they do for the scheduler.

use berth_input::config::Plugin;

use crate::plugins::{
    REASON_AFFINITY, REASON_ANTI_AFFINITY, node_affinity_verdict, rejects, requires_together,
};
use crate::state::State;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::{Likeness, PodId};
use crate::state::rule_set::{RequiredTerm, RuleAt, RuleSet, anti_affinity};
use crate::verdict::witness::{DomainOf, WitnessCache, Witnesses};
use crate::verdict::{Counts, Status, Verdict};

impl State {
    /// Whether a rule of a pod that runs on a node does not hold there now.
    pub(crate) fn is_broken(&self, pod: Likeness, node: NodeId, rule: RuleAt) -> bool {
        let rule_set = self.rule_sets.get(pod.rule_set);
        match rule {
            RuleAt::Node(i) => {
                let (selector, node) = (&rule_set.required_node_affinity[i as usize], self.nodes.get(node));
                selector.is_known(node) && !selector.matches(&self.symbols, node)
            }
            RuleAt::Affinity(i) => !self.satisfies_affinity(pod, rule_set, i as usize, node),
            RuleAt::AntiAffinity(i) => {
                let term = &rule_set.required_anti_affinity[i as usize];
                self.conflicts(pod, term, node).next().is_some()
            }
        }
    }

    /// Whether a pod matches a question; as one that runs.
    pub(crate) fn is_matched(&self, pod: Likeness, matcher: MatcherId) -> bool {
        self.signatures.get(pod.signature).matched.binary_search(&matcher).is_ok()
    }

    /// The domains of a node in which more other pods match a term than its limit, and how many.
    fn conflicts<'a>(
        &'a self,
        pod: Likeness,
        term: &'a RequiredTerm,
        node: NodeId,
    ) -> impl Iterator<Item = (TopologyId, DomainId, i64)> + 'a {
        let itself = i64::from(self.is_matched(pod, term.matcher));
        let matcher = self.matchers.get(term.matcher);
        let in_domains = term.topologies.iter().filter_map(move |topology| {
            let domain = self.topologies.domain(*topology, node)?;
            let n_pods = matcher.matching_in(*topology)?.get(domain).count - itself;
            Some((*topology, domain, n_pods))
        });
        in_domains.filter(|(.., n_pods)| *n_pods > i64::from(term.limit))
    }

    /// Whether a term of affinity holds for a pod: there is a domain of the topology, and in it another pod that
    /// matches; or the pod is the first of its group.
    fn satisfies_affinity(&self, pod: Likeness, rule_set: &RuleSet, i: usize, node: NodeId) -> bool {
        let term = &rule_set.required_affinity[i];
        term.topologies.iter().any(|t| self.topologies.domain(*t, node).is_some())
            && (self.conflicts(pod, term, node).next().is_some()
                || self.is_first_of_group(pod, rule_set.affinity_requirement(i), node))
    }

    /// Whether a pod matches its own requirement and no other pod does.
    fn is_first_of_group(&self, pod: Likeness, requirement: &[RequiredTerm], node: NodeId) -> bool {
        requirement.iter().all(|term| {
            let matcher = self.matchers.get(term.matcher);
            let mut counters =
                term.group_topologies.iter().filter_map(|t| Some((*t, matcher.matching_in(*t)?)));
            self.is_matched(pod, term.matcher)
                && counters.all(|(topology, counter)| match self.topologies.domain(topology, node) {
                    Some(domain) => counter.n_domains() == 1 && counter.get(domain).count == 1,
                    None => counter.is_empty(),
                })
        })
    }

    /// Why a broken rule does not hold.
    pub(crate) fn verdict_of(&self, id: PodId, node: NodeId, rule: RuleAt, cache: &WitnessCache) -> Verdict {
        let pod = self.pods.get(id).likeness();
        let rule_set = self.rule_sets.get(pod.rule_set);
        match rule {
            RuleAt::Node(i) => node_affinity_verdict(&rule_set.rules().required_node_affinity[i as usize]),
            RuleAt::Affinity(i) => self.affinity_verdict(pod, rule_set, i as usize, node),
            RuleAt::AntiAffinity(i) => self.anti_affinity_verdict(id, rule_set, i, node, cache),
        }
    }

    fn affinity_verdict(&self, pod: Likeness, rule_set: &RuleSet, i: usize, node: NodeId) -> Verdict {
        let required = &rule_set.required_affinity[i];
        let term = &rule_set.rules().required_affinity[required.index];
        let matcher = self.matchers.get(required.matcher);
        let total = |topology| -> i64 {
            let counter = matcher.matching_in(topology);
            counter.map_or(0, |c| c.iter().map(|(_, tally)| tally.count).sum())
        };
        let counts_itself = |topology: &TopologyId| {
            self.topologies.domain(*topology, node).is_some() && self.is_matched(pod, required.matcher)
        };
        let others = |topology: &TopologyId| total(*topology) - i64::from(counts_itself(topology));
        let elsewhere = required.group_topologies.iter().map(others).max().unwrap_or(0);
        let first = required.topologies.first();
        let pair = first.and_then(|t| self.topology_pair(*t, self.topologies.domain(*t, node)));
        let detail = requires_together(term, rule_set.affinity_requirement(i).len());
        let (plugin, status) = (Plugin::InterPodAffinity, Status::UnschedulableAndUnresolvable);
        Verdict::new(plugin, status, REASON_AFFINITY, detail)
            .term(&term.path)
            .topology(pair)
            .counts(Counts::Affinity { matching: 0, elsewhere })
    }

    fn anti_affinity_verdict(
        &self,
        id: PodId,
        rule_set: &RuleSet,
        i: u32,
        node: NodeId,
        cache: &WitnessCache,
    ) -> Verdict {
        let pod = self.pods.get(id).likeness();
        let (compiled, term) = anti_affinity(rule_set, i);
        let detail = rejects(term);
        let verdict =
            Verdict::new(Plugin::InterPodAffinity, Status::Unschedulable, REASON_ANTI_AFFINITY, detail)
                .term(&term.path);
        let Some((topology, domain, n_pods)) = self.conflicts(pod, compiled, node).next() else {
            return verdict;
        };
        let matching = cache.pods_matching(self, compiled.matcher, DomainOf { topology, domain, node });
        verdict
            .topology(self.topology_pair(topology, Some(domain)))
            .counts(Counts::AntiAffinity { matching: n_pods, limit: compiled.limit })
            .witnesses(self.without(id, self.is_matched(pod, compiled.matcher), matching))
    }

    /// Witnesses without a pod that is counted among them.
    pub(super) fn without(&self, id: PodId, is_counted: bool, (mut named, more): Witnesses) -> Witnesses {
        if !is_counted {
            return (named, more);
        }
        let itself = self.witness(id);
        let n_named = named.len();
        named.retain(|witness| *witness != itself);
        let more = more - usize::from(named.len() == n_named && more > 0);
        (named, more)
    }
}
