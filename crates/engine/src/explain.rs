//! Explanations: every rule and term evaluated individually, node by node.

mod feasible;
mod terms;

use std::collections::BTreeMap;

use berth_api::config::Plugin;
use berth_api::object::Pod;
use serde::Serialize;

use crate::context::{Context, CycleState};
use crate::decision::{Outcome, Run};
use crate::nomination::Nominations;
use crate::state::State;
use crate::state::prepared::PreparedPod;
use crate::verdict::{TopologyPair, Verdict, Witness, plugin_name};

/// This many of the groups of nodes that come nearest are told apart.
const MAX_NEAREST: usize = 3;

/// [`Cluster::bottleneck`](crate::Cluster::bottleneck) returns no longer texts, in bytes.
pub const MAX_BOTTLENECK: usize = 512;

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
    /// The decision now; as JSON the two members `node` and `message`.
    #[serde(flatten)]
    pub outcome: Outcome,
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

    /// The bottleneck as a text of at most [`MAX_BOTTLENECK`] bytes; none for a pod that fits.
    pub(crate) fn bottleneck_text(&self) -> Option<String> {
        let bottleneck = self.bottleneck().filter(|_| self.outcome.node().is_none())?;
        Some(shortened(bottleneck.in_short(self.n_nodes), MAX_BOTTLENECK))
    }
}

fn shortened(mut text: String, most: usize) -> String {
    const CUT: &str = "...";
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - CUT.len()));
        text.push_str(CUT);
    }
    text
}

/// Explains a pod that is not in the state; with a node, the groups of nodes hold that node alone.
pub(crate) fn explain(
    state: &mut State,
    nominations: &Nominations,
    pod: &Pod,
    prepared: &PreparedPod,
    node: Option<&str>,
) -> Explanation {
    let mut explanation = Explanation {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        running_on: (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.clone()),
        outcome: Outcome::Unschedulable { message: String::new() },
        n_nodes: state.nodes.len(),
        terms: Vec::new(),
        excluded: Vec::new(),
        feasible: Vec::new(),
        broken: Vec::new(),
    };
    explanation.outcome = prepared.held_back().unwrap_or_else(|| {
        let cycle = CycleState::new(state, nominations, prepared);
        match Context::new(state, &cycle).map(Run::new) {
            Some(run) => {
                explanation.fill(&run, node);
                run.outcome()
            }
            None => prepared.no_profile(),
        }
    });
    explanation
}
