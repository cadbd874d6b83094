//! Explanations: every rule and term on its own, node by node, and what would help.

use std::collections::{BTreeMap, HashMap};

use berth_api::config::Plugin;
use berth_api::object::Pod;
use berth_api::rules::dialect_notes;
use serde::Serialize;

use crate::decision::{Outcome, Run, Scored};
use crate::plugins::{NodeRef, with_unit};
use crate::state::cluster::Cluster;
use crate::state::intern::Symbol;
use crate::state::node::NodeId;
use crate::verdict::{Status, TopologyPair, Verdict, Witness, plugin_name};

/// This many of the groups of nodes that come nearest are told apart.
const MAX_NEAREST: usize = 3;

/// This many pods are named where a bottleneck is told in short.
const MAX_NAMED: usize = 3;

/// Why a pod goes where it goes, or nowhere.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// The node it runs on already, if it does.
    pub running_on: Option<String>,
    /// Where it would go now; none when nowhere.
    pub node: Option<String>,
    /// kube-scheduler's message when it would go nowhere.
    pub message: String,
    /// Number of nodes looked at.
    pub n_nodes: usize,
    /// Every term of every rule, those that exclude most first.
    pub terms: Vec<TermSummary>,
    /// Nodes that are excluded, grouped by the terms that exclude them; fewest terms first.
    pub excluded: Vec<ExcludedNodes>,
    /// Feasible nodes, grouped by equal scores; best first.
    pub feasible: Vec<FeasibleNodes>,
    /// For a running pod: what speaks against the node it is on, now.
    pub broken: Vec<Verdict>,
    /// Places in the pod that Kubernetes' v1 fields and the proposals' fields read differently.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialect_notes: Vec<String>,
    /// What would help a pod that goes nowhere.
    pub hints: Vec<String>,
}

/// One term on its own.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermSummary {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// Where it stands.
    pub term: String,
    /// What it asks.
    pub detail: String,
    /// Number of nodes it excludes.
    pub excludes: usize,
    /// Number of nodes that nothing else excludes.
    pub excludes_alone: usize,
    /// Where the exclusion comes from, by topology domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainSummary>,
}

/// A domain in which a term excludes nodes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSummary {
    /// The domain.
    pub topology: TopologyPair,
    /// Number of nodes excluded in it.
    pub n_nodes: usize,
    /// The numbers behind it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, i64>,
    /// Pods that are the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// How many more there are.
    pub more_witnesses: usize,
}

/// Nodes that the same terms exclude.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNodes {
    /// Their names.
    pub nodes: Vec<String>,
    /// All verdicts against the first of them; the others' differ in topology domain and numbers only.
    pub verdicts: Vec<Verdict>,
}

/// Feasible nodes with the same scores.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeasibleNodes {
    /// Their names.
    pub nodes: Vec<String>,
    /// Sum of the weighted scores.
    pub total: i64,
    /// Score by plugin, for the first of them.
    pub scores: Vec<PluginScore>,
}

/// A plugin's score and what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// As it goes into the total: normalized (0 to 100) times weight.
    pub score: i64,
    /// The weight.
    pub weight: i64,
    /// Before normalization.
    pub raw: i64,
    /// What the raw score is made of.
    pub parts: Vec<ScorePart>,
}

/// A part of a raw score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScorePart {
    /// What it is.
    pub what: String,
    /// How much.
    pub value: i64,
}

impl Explanation {
    /// The nodes that come nearest to being feasible: those with the fewest terms against them.
    pub fn nearest(&self) -> &[ExcludedNodes] {
        &self.excluded[..self.excluded.len().min(MAX_NEAREST)]
    }

    /// The term that stands most in the way: the one whose removal alone frees most nodes, or if none does,
    /// the one that excludes most.
    pub fn bottleneck(&self) -> Option<&TermSummary> {
        self.terms.iter().filter(|t| t.excludes > 0).max_by(|a, b| {
            let rank = |t: &TermSummary| (t.excludes_alone, t.excludes);
            rank(a).cmp(&rank(b)).then_with(|| b.term.cmp(&a.term)).then_with(|| b.detail.cmp(&a.detail))
        })
    }
}

impl Cluster {
    /// Explains a pod: a pending one, or one that is assigned already, which is then looked at as if it
    /// were not there.
    pub fn explain(&mut self, pod: &Pod) -> Explanation {
        self.explain_on(pod, None)
    }

    /// As [`Cluster::explain`]; with a node, the groups of nodes hold that node alone. Terms are told for all
    /// nodes either way.
    pub fn explain_on(&mut self, pod: &Pod, node: Option<&str>) -> Explanation {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        // The pod comes back in the end: nobody need be told.
        let noted = self.noted.take();
        let mut prepared = self.prepare(pod);
        let running_on = prepared.node_name.take().map(|node| self.symbols.text(node).to_owned());
        let assigned = self.assigned_node(&namespace, &name);
        self.remove_pod(&namespace, &name);

        let notes = dialect_notes(pod, self.settings.extensions);
        let mut explanation = Explanation {
            namespace,
            name,
            running_on,
            node: None,
            message: String::new(),
            n_nodes: self.n_nodes(),
            terms: Vec::new(),
            excluded: Vec::new(),
            feasible: Vec::new(),
            broken: Vec::new(),
            dialect_notes: notes.iter().map(|n| format!("{}: {}", n.path, n.text)).collect(),
            hints: Vec::new(),
        };
        let outcome = match prepared.held_back() {
            Some(outcome) => outcome,
            None => {
                let incoming = self.incoming(&prepared);
                match self.run(&incoming) {
                    Some(run) => {
                        explanation.fill(&run, node);
                        run.outcome()
                    }
                    None => prepared.no_profile(),
                }
            }
        };
        explanation.node = outcome.node().map(str::to_owned);
        explanation.message = outcome.message().into_owned();
        if explanation.node.is_none() && explanation.running_on.is_none() {
            explanation.hints = hints(&explanation, &outcome);
            let own_update = self.waits_for_own_update(&prepared, &explanation);
            explanation.hints.splice(0..0, own_update);
        }

        if let Some(node) = assigned {
            self.assign(&prepared, node);
        }
        self.noted = noted;
        explanation
    }

    fn assigned_node(&self, namespace: &str, name: &str) -> Option<Symbol> {
        let pod = self.pods.find(self.symbols.get(namespace)?, name)?;
        Some(self.pods.get(pod).node_name)
    }
}

type TermKey = (Plugin, String, String);

impl Explanation {
    fn fill(&mut self, run: &Run<'_>, only: Option<&str>) {
        let cluster = run.context.cluster;
        let mut summaries = Summaries::default();
        for (plugin, filter) in &run.filters {
            for asked in filter.terms() {
                summaries.of((*plugin, asked.term, asked.detail));
            }
        }
        let mut groups: HashMap<Vec<TermKey>, ExcludedNodes> = HashMap::new();
        let mut nodes: Vec<_> = cluster.nodes.iter().map(|(id, _)| (run.node_name(id), id)).collect();
        nodes.sort_unstable();
        for (name, id) in nodes {
            let node = NodeRef::new(id, cluster.nodes.get(id));
            let verdicts: Vec<_> = run.filters.iter().flat_map(|(_, f)| f.verdicts(node)).collect();
            if self.running_on.as_deref() == Some(name) {
                self.broken = verdicts.clone();
            }
            if verdicts.is_empty() {
                continue;
            }
            let mut keys: Vec<_> = verdicts.iter().map(key).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in &keys {
                let summary = &mut summaries.of(key.clone()).0;
                summary.excludes += 1;
                summary.excludes_alone += usize::from(keys.len() == 1);
            }
            for verdict in &verdicts {
                let (summary, domains) = summaries.of(key(verdict));
                summary.add_domain(verdict, domains);
            }
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let group = groups.entry(keys).or_insert_with(|| ExcludedNodes { nodes: Vec::new(), verdicts });
            group.nodes.push(name.to_owned());
        }

        self.terms = summaries.0.into_values().map(|(summary, _)| summary).collect();
        self.terms.sort_by(|a, b| {
            let rank = |t: &TermSummary| (t.excludes_alone, t.excludes);
            rank(b).cmp(&rank(a))
        });
        self.excluded = groups.into_values().collect();
        self.excluded.sort_by(|a, b| {
            let rank = |g: &ExcludedNodes| (g.verdicts.len(), std::cmp::Reverse(g.nodes.len()));
            rank(a).cmp(&rank(b)).then_with(|| a.nodes.cmp(&b.nodes))
        });
        self.feasible = feasible(run, only);
    }
}

fn key(verdict: &Verdict) -> TermKey {
    (verdict.plugin, verdict.term.clone().unwrap_or_default(), verdict.detail.clone())
}

/// Where a domain stands in a summary.
type DomainIndex = HashMap<TopologyPair, usize>;

/// All summaries so far.
#[derive(Default)]
struct Summaries(BTreeMap<TermKey, (TermSummary, DomainIndex)>);

impl Summaries {
    fn of(&mut self, key: TermKey) -> &mut (TermSummary, DomainIndex) {
        self.0.entry(key).or_insert_with_key(|(plugin, term, detail)| {
            let summary = TermSummary {
                plugin: *plugin,
                term: term.clone(),
                detail: detail.clone(),
                excludes: 0,
                excludes_alone: 0,
                domains: Vec::new(),
            };
            (summary, DomainIndex::new())
        })
    }
}

impl TermSummary {
    /// The term, how many nodes it excludes, and the first pods that are the reason.
    pub(crate) fn in_short(&self, n_nodes: usize) -> String {
        let alone = match self.excludes_alone {
            0 => String::new(),
            n if n == self.excludes => ", alone".to_owned(),
            n => format!(", {n} of them alone"),
        };
        let mut text = format!("{} excludes {}/{n_nodes} nodes{alone}", self.term, self.excludes);
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
            // A pod is in one domain of each topology: those of one are enough to count all.
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

fn feasible(run: &Run<'_>, only: Option<&str>) -> Vec<FeasibleNodes> {
    let mut groups: HashMap<(i64, Vec<i64>), FeasibleNodes> = HashMap::new();
    let wanted = |id: NodeId| only.is_none_or(|only| only == run.node_name(id));
    for (i, id) in run.feasible.iter().enumerate().filter(|(_, id)| wanted(**id)) {
        let scores = run.scorers.iter().flatten().map(|s| s.scores[i]).collect();
        let total = run.totals[i];
        let group = groups.entry((total, scores)).or_insert_with(|| FeasibleNodes {
            nodes: Vec::new(),
            total,
            scores: run.scorers.iter().flatten().map(|s| plugin_score(run, s, *id, s.scores[i])).collect(),
        });
        group.nodes.push(run.node_name(*id).to_owned());
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().for_each(|g| g.nodes.sort_unstable());
    groups.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.nodes.cmp(&b.nodes)));
    groups
}

fn plugin_score(run: &Run<'_>, scored: &Scored<'_>, id: NodeId, score: i64) -> PluginScore {
    let cluster = run.context.cluster;
    let node = NodeRef::new(id, cluster.nodes.get(id));
    let parts = scored.scorer.parts(node).into_iter().map(|(what, value)| ScorePart { what, value });
    PluginScore {
        plugin: scored.plugin,
        score,
        weight: scored.weight,
        raw: scored.scorer.score(node),
        parts: parts.collect(),
    }
}

/// What would help, from the terms against the nodes that come nearest.
fn hints(explanation: &Explanation, outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Gated { gates } => return vec![format!("remove the scheduling gates {}", gates.join(", "))],
        Outcome::Failed { .. } | Outcome::Placed { .. } => return Vec::new(),
        Outcome::Unschedulable { .. } if explanation.n_nodes == 0 => {
            return vec!["add nodes: the cluster has none".to_owned()];
        }
        Outcome::Unschedulable { .. } => {}
    }
    let mut hints = Vec::new();
    for group in explanation.nearest() {
        let first = &group.nodes[0];
        let place = match group.nodes.len() {
            1 => format!("on {first}"),
            n => format!("on {first} and {} more like it", n - 1),
        };
        let helps: Vec<_> = group.verdicts.iter().map(hint).collect();
        hints.push(format!("{place}: {}", helps.join("; and ")));
    }
    hints
}

fn hint(verdict: &Verdict) -> String {
    let count = |name| verdict.counts.get(name).copied().unwrap_or(0);
    let domain = || verdict.topology.as_ref().map(ToString::to_string).unwrap_or_default();
    let pods = || {
        let n = verdict.witnesses.len() + verdict.more_witnesses;
        let names: Vec<_> = verdict.witnesses.iter().map(|w| format!("{}/{}", w.namespace, w.name)).collect();
        let more = if verdict.more_witnesses > 0 {
            format!(" and {} more", verdict.more_witnesses)
        } else {
            String::new()
        };
        if n == 0 { "the pods".to_owned() } else { format!("{}{more}", names.join(", ")) }
    };
    let resource = verdict.reason.strip_prefix("Insufficient ").unwrap_or("pods");
    let amount = |n| with_unit(resource, n);
    match verdict.plugin {
        Plugin::NodeUnschedulable => "uncordon the node".to_owned(),
        Plugin::NodeName => "change spec.nodeName".to_owned(),
        Plugin::TaintToleration => format!("tolerate it, or remove it: {}", verdict.detail),
        Plugin::NodeAffinity => format!("change the node's labels or the rule: {}", verdict.detail),
        Plugin::NodePorts => format!("{} would have to go: {}", pods(), verdict.detail),
        Plugin::NodeResourcesFit if verdict.status == Status::UnschedulableAndUnresolvable => {
            format!(
                "ask for less, or add a larger node: {}, and the node has {} in all",
                verdict.detail,
                amount(count("allocatable"))
            )
        }
        Plugin::NodeResourcesFit => {
            let missing = count("requested") + count("used") - count("allocatable");
            format!("free {} more: {}", amount(missing), verdict.detail)
        }
        Plugin::PodTopologySpread if verdict.counts.is_empty() => {
            format!("label the node ({}): {}", domain(), verdict.detail)
        }
        Plugin::PodTopologySpread => {
            format!(
                "place matching pods elsewhere first ({} has {}, the fewest is {})",
                domain(),
                count("matching"),
                count("minimum")
            )
        }
        Plugin::InterPodAffinity if !verdict.witnesses.is_empty() => {
            format!("{} in {} would have to go, or the rule ({})", pods(), domain(), verdict.detail)
        }
        Plugin::InterPodAffinity => format!("start a matching pod in {}: {}", domain(), verdict.detail),
        _ => verdict.detail.clone(),
    }
}
