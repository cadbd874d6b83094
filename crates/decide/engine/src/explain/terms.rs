//! Single terms: the number of nodes that each excludes, alone or with others, in which domains and because of which
//! pods.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::work::{TooMuchWork, WorkBudget};
use berth_input::config::Plugin;

use super::feasible::feasible;
use super::{DomainSummary, ExcludedNodes, Explanation, TermSummary};
use crate::cycle::context::NodeRef;
use crate::decision::Run;
use crate::plugins::Filters;
use crate::verdict::{Counts, TopologyPair, Verdict};

/// Number of pods that a bottleneck in short names.
const MAX_NAMED: usize = 3;
/// Steps of work that a verdict costs: its texts are written, compared and counted.
const VERDICT_STEPS: usize = 10;

/// A part of the keys of taints that keep nodes for the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/";
/// The field by which pods of DaemonSets are pinned to their nodes.
const NODE_NAME: &str = "metadata.name=";

type TermKey = (Plugin, String, String);

/// Every reason against a node; a term that the pod and existing pods have is one.
pub(crate) fn distinct_verdicts(
    filters: &Filters<'_>,
    node: NodeRef<'_>,
    budget: &WorkBudget,
) -> Result<Vec<Verdict>, TooMuchWork> {
    let mut verdicts = verdicts(filters, node, budget)?;
    verdicts.retain(|verdict| !verdict.repeats_own_term);
    Ok(verdicts)
}

/// Every single reason against a node.
pub(crate) fn verdicts(
    filters: &Filters<'_>,
    node: NodeRef<'_>,
    budget: &WorkBudget,
) -> Result<Vec<Verdict>, TooMuchWork> {
    let mut verdicts = Vec::new();
    for (_, filter) in filters {
        budget.spend(filter.n_compared(node))?;
        let of_filter = filter.verdicts(node);
        budget.spend(of_filter.len() * VERDICT_STEPS)?;
        verdicts.extend(of_filter);
    }
    Ok(verdicts)
}

impl Explanation {
    /// Adds the results of the rules for every node. With `only`, the groups of nodes contain only that node.
    pub(super) fn fill(&mut self, run: &Run<'_>, only: Option<&str>, budget: &WorkBudget) {
        let state = run.context.state;
        let mut summaries = Summaries::default();
        for (plugin, filter) in &run.filters {
            for info in filter.terms() {
                summaries.of((*plugin, info.term, info.detail));
            }
        }
        let mut groups: HashMap<(Vec<TermKey>, Vec<TermKey>), ExcludedNodes> = HashMap::new();
        let mut nodes: Vec<_> = state.nodes.iter().map(|(id, _)| (run.node_name(id), id)).collect();
        nodes.sort_unstable();
        for (i, (name, id)) in nodes.iter().enumerate() {
            let (name, node) = (*name, NodeRef::new(*id, state.nodes.get(*id)));
            let Ok(verdicts) = distinct_verdicts(&run.filters, node, budget) else {
                self.n_not_evaluated = nodes.len() - i;
                break;
            };
            if self.running_on.as_deref() == Some(name) {
                let filters = run.filters.iter();
                self.broken = filters.flat_map(|(_, filter)| filter.verdicts_for_running(node)).collect();
                self.broken.retain(|verdict| !verdict.repeats_own_term);
            }
            if verdicts.is_empty() {
                continue;
            }
            let keys = summaries.add(&verdicts);
            if only.is_some_and(|only| only != name) {
                continue;
            }
            // A node without a resource is not like one that has too little of it, nor are nodes with other devices.
            let mut lacks: Vec<_> =
                verdicts.iter().filter(|verdict| lacks_resource(verdict)).map(key).collect();
            lacks.extend(verdicts.iter().filter_map(devices_key));
            let group =
                groups.entry((keys, lacks)).or_insert_with(|| ExcludedNodes { nodes: Vec::new(), verdicts });
            group.nodes.push(name.to_owned());
        }

        self.terms = summaries.into_terms();
        // The bottleneck is the first.
        self.terms.sort_by(|a, b| b.by_rank(a));
        self.excluded = groups.into_values().collect();
        self.excluded.sort_by(|a, b| {
            let rank = |g: &ExcludedNodes| (g.verdicts.len(), std::cmp::Reverse(g.nodes.len()));
            rank(a).cmp(&rank(b)).then_with(|| a.nodes.cmp(&b.nodes))
        });
        self.feasible = feasible(run, only);
    }
}

pub(super) fn key(verdict: &Verdict) -> TermKey {
    (verdict.plugin, verdict.term.clone().unwrap_or_default(), verdict.detail.clone())
}

/// Whether the node has nothing at all of a resource.
fn lacks_resource(verdict: &Verdict) -> bool {
    matches!(verdict.counts, Some(Counts::Resource { allocatable: 0, .. }))
}

/// The number of terms against a node. Those that need another node count twice: it has nothing of a resource, is for the control plane, or
/// is not the one that the pod names.
pub(super) fn distance(verdicts: &[Verdict]) -> usize {
    let keys: HashSet<_> = verdicts
        .iter()
        .map(|verdict| (verdict.plugin, verdict.term.as_deref().unwrap_or_default(), &verdict.detail))
        .collect();
    let is_far = |verdict: &&Verdict| {
        lacks_resource(verdict)
            || verdict.plugin == Plugin::TaintToleration && verdict.detail.contains(CONTROL_PLANE)
            || verdict.plugin == Plugin::NodeAffinity && verdict.detail.contains(NODE_NAME)
    };
    keys.len() + verdicts.iter().filter(is_far).count()
}

/// What tells nodes apart whose devices fail for different reasons.
fn devices_key(verdict: &Verdict) -> Option<TermKey> {
    let counts = verdict.counts.as_ref().filter(|counts| matches!(counts, Counts::Devices { .. }))?;
    Some((verdict.plugin, verdict.term.clone().unwrap_or_default(), counts.text(None)))
}

/// The position of each domain in [`TermSummary::domains`].
type DomainIndex = HashMap<TopologyPair, usize>;

#[derive(Default)]
pub(super) struct Summaries(BTreeMap<TermKey, (TermSummary, DomainIndex)>);

impl Summaries {
    /// Counts a node; returns the terms that exclude it.
    pub(super) fn add(&mut self, verdicts: &[Verdict]) -> Vec<TermKey> {
        let mut keys: Vec<_> = verdicts.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let distance = distance(verdicts);
        for key in &keys {
            let summary = &mut self.of(key.clone()).0;
            summary.nearest = match summary.nearest {
                (known, n) if known == distance => (known, n + 1),
                (known, _) if known < distance => summary.nearest,
                _ => (distance, 1),
            };
            summary.excludes += 1;
            summary.excludes_alone += usize::from(keys.len() == 1);
        }
        for verdict in verdicts.iter().filter(|verdict| verdict.topology.is_some()) {
            let (summary, domains) = self.of(key(verdict));
            summary.add_domain(verdict, domains);
        }
        keys
    }

    pub(super) fn into_terms(self) -> Vec<TermSummary> {
        self.0.into_values().map(|(summary, _)| summary).collect()
    }

    fn of(&mut self, key: TermKey) -> &mut (TermSummary, DomainIndex) {
        self.0.entry(key).or_insert_with_key(|(plugin, term, detail)| {
            let summary = TermSummary {
                plugin: *plugin,
                term: term.clone(),
                detail: detail.clone(),
                excludes: 0,
                excludes_alone: 0,
                nearest: (usize::MAX, 0),
                domains: Vec::new(),
            };
            (summary, DomainIndex::new())
        })
    }
}

impl TermSummary {
    /// See [`Explanation::bottleneck`].
    pub(super) fn bottleneck(terms: &[TermSummary]) -> Option<&TermSummary> {
        terms.iter().filter(|t| t.excludes > 0).max_by(|a, b| a.by_rank(b))
    }

    /// The bottleneck is the greatest: the term that excludes most of the nearest nodes.
    fn by_rank(&self, other: &TermSummary) -> Ordering {
        let rank = |t: &TermSummary| (Reverse(t.nearest.0), t.nearest.1, t.excludes);
        let by_text = (&other.term, &other.detail).cmp(&(&self.term, &self.detail));
        rank(self).cmp(&rank(other)).then(by_text)
    }

    /// The term, the number of nodes that it excludes of those that were evaluated, and the first pods that cause this.
    pub(super) fn in_short(&self, n_evaluated: usize, n_nodes: usize) -> String {
        let alone = match self.excludes_alone {
            0 => String::new(),
            n => format!(" ({n} by this rule alone)"),
        };
        let nodes = match n_evaluated {
            n if n == n_nodes => format!("{n_nodes} nodes"),
            n => format!("{n} of {n_nodes} nodes"),
        };
        let mut text = format!("{} excludes {}/{nodes}{alone}", self.term, self.excludes);
        let mut named: Vec<String> = Vec::new();
        for witness in self.domains.iter().flat_map(|d| &d.witnesses) {
            let name = format!("{}/{} on {}", witness.namespace, witness.name, witness.node);
            if !named.contains(&name) {
                named.push(name);
            }
            if named.len() == MAX_NAMED {
                break;
            }
        }
        if let Some(first) = self.domains.first().filter(|_| !named.is_empty()) {
            // A pod is in one domain of each topology: the domains of one topology count all pods.
            let domains = self.domains.iter().filter(|d| d.topology.key == first.topology.key);
            let n_witnesses: usize = domains.map(|d| d.witnesses.len() + d.more_witnesses).sum();
            let rest = n_witnesses.saturating_sub(named.len());
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            text += &format!(" because of {}{more}", named.join(", "));
        }
        format!("{text}: {}", self.detail)
    }

    fn add_domain(&mut self, verdict: &Verdict, known: &mut DomainIndex) {
        let Some(topology) = &verdict.topology else { return };
        if let Some(i) = known.get(topology) {
            self.domains[*i].n_nodes += 1;
            return;
        }
        known.insert(topology.clone(), self.domains.len());
        self.domains.push(DomainSummary {
            topology: topology.clone(),
            n_nodes: 1,
            counts: verdict.counts.clone(),
            witnesses: verdict.witnesses.clone(),
            more_witnesses: verdict.more_witnesses,
        });
    }
}
