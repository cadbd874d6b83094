//! Explanations: every rule and term evaluated individually, node by node.

pub(crate) mod blast_radius;
mod feasible;
pub(crate) mod opportunity_cost;
pub(crate) mod terms;

use std::collections::HashMap;

use berth_api::object::Pod;
use berth_api::work::WorkBudget;
use berth_input::config::Plugin;
use serde::Serialize;

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::Nominations;
use crate::decision::{Outcome, Run};
use crate::explain::blast_radius::BlastRadius;
use crate::plugins::{self, PreFilter};
use crate::state::State;
use crate::state::pod::prepared::PreparedPod;
use crate::verdict::{Counts, TopologyPair, Verdict, Witness, is_zero, plugin_name};

/// Number of groups in [`Explanation::nearest`].
const MAX_NEAREST: usize = 3;

/// Number of nodes that [`bottleneck`] looks at.
const MAX_SAMPLED: usize = 1000;

/// Maximum length of the text of [`Cluster::bottleneck`](crate::Cluster::bottleneck), in bytes.
pub const MAX_BOTTLENECK: usize = 512;

/// Why a pod fits where it fits, or is unschedulable.
///
/// ```
/// # use berth_input::inventory::Inventory;
/// # use berth_api::work::WorkBudget;
/// # use berth_engine::{Cluster, Settings};
/// # let objects = Inventory::from_text(
/// #     "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
/// # ---
/// # {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [
/// #   {name: web, image: web, resources: {requests: {cpu: 5}}}]}}",
/// # )?;
/// # let mut cluster = Cluster::new(Settings::default());
/// # cluster.set_node(&objects.nodes[0].object);
/// # let pod = &objects.pods[0].object;
/// let prepared = cluster.prepare(pod);
/// let explanation = cluster.explain(pod, &prepared, None, &WorkBudget::unlimited());
/// assert_eq!(explanation.outcome.message(), "0/1 nodes are available: 1 Insufficient cpu.");
/// let term = explanation.bottleneck().expect("a rule excludes the node");
/// assert_eq!((term.excludes, term.excludes_alone), (1, 1));
/// assert_eq!(term.detail, "requests 5 cpu");
/// # Ok::<(), berth_input::inventory::InputError>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// The node of a running pod.
    pub running_on: Option<String>,
    /// The decision now; as JSON the two members `node` and `message`.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Number of nodes of the cluster.
    pub n_nodes: usize,
    /// Number of nodes for which the rules were not evaluated one by one, because that is more work than allowed: terms and
    /// excluded nodes are without them.
    #[serde(skip_serializing_if = "is_zero")]
    pub n_not_evaluated: usize,
    /// Every term of every rule, those that exclude most nodes first.
    pub terms: Vec<TermSummary>,
    /// Nodes that are excluded, grouped by the terms that exclude them; fewest terms first.
    pub excluded: Vec<ExcludedNodes>,
    /// Feasible nodes, grouped by equal scores; best first.
    pub feasible: Vec<FeasibleNodes>,
    /// For a running pod: the rules that reject its own node now, without those that only keep new pods away.
    pub broken: Vec<Verdict>,
    /// What its anti-affinity blocks or makes worse for other pods; none if measuring it is more work than allowed.
    #[serde(skip_serializing_if = "has_no_radius")]
    pub blast_radius: Option<BlastRadius>,
}

fn has_no_radius(radius: &Option<BlastRadius>) -> bool {
    radius.as_ref().is_none_or(BlastRadius::is_empty)
}

/// One term, evaluated individually.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TermSummary {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// Its path in the pod, or in the existing pod that it belongs to.
    pub term: String,
    /// What it requires, in short.
    pub detail: String,
    /// Number of nodes it excludes.
    pub excludes: usize,
    /// Number of nodes that this term alone excludes.
    pub excludes_alone: usize,
    /// The distance of the nearest nodes that it excludes, and their number.
    #[serde(skip)]
    pub(crate) nearest: (usize, usize),
    /// The topology domains in which it excludes nodes.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Pods that cause the exclusion, a few at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// Number of further pods.
    pub more_witnesses: usize,
}

/// Nodes that the same terms exclude.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedNodes {
    /// Their names.
    pub nodes: Vec<String>,
    /// All verdicts against the first node; those of the other nodes differ only in topology domain and numbers.
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
    /// Scores by plugin, for the first node.
    pub scores: Vec<PluginScore>,
}

/// The score of one plugin, with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// The normalized score (0 to 100) times the weight.
    pub score: i64,
    /// The weight.
    pub weight: i64,
    /// The score before normalization, in the unit of the plugin.
    pub raw: i64,
    /// The parts of the raw score.
    pub parts: Vec<ScorePart>,
}

/// A part of a raw score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScorePart {
    /// The name of the part.
    pub what: String,
    /// Its value.
    pub value: i64,
}

impl Explanation {
    /// The nodes nearest to being feasible: those that the fewest terms exclude.
    pub fn nearest(&self) -> &[ExcludedNodes] {
        &self.excluded[..self.excluded.len().min(MAX_NEAREST)]
    }

    /// The term that excludes most of the nodes that are nearest to feasible: those with the fewest terms against them. A node that has
    /// nothing of a resource, and a node of the control plane, is farther than its terms say.
    pub fn bottleneck(&self) -> Option<&TermSummary> {
        TermSummary::bottleneck(&self.terms)
    }
}

impl ExcludedNodes {
    /// How far the nodes are from feasible; see [`Explanation::bottleneck`].
    pub fn distance(&self) -> usize {
        terms::distance(&self.verdicts)
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

/// The terms against an unschedulable pod on some of the nodes, where there are many, and on those before the budget was spent, with
/// the number of these nodes. `each` gets the verdicts. None if there are no terms.
fn sampled(
    state: &State,
    nominations: &Nominations,
    prepared: &PreparedPod,
    budget: &WorkBudget,
    mut each: impl FnMut(&[Verdict]),
) -> Option<(Vec<TermSummary>, usize)> {
    let cycle = CycleState::new(state, nominations, prepared);
    let context = Context::new(state, &cycle).filter(|_| prepared.held_back().is_none())?;
    if matches!(plugins::pre_filter(context), PreFilter::Rejected(_)) {
        return None;
    }
    let filters = plugins::filters(context);
    let (mut summaries, mut n_evaluated) = (terms::Summaries::default(), 0);
    for (id, record) in state.nodes.iter().step_by(state.nodes.len().div_ceil(MAX_SAMPLED).max(1)) {
        let Ok(verdicts) = terms::distinct_verdicts(&filters, NodeRef::new(id, record), budget) else {
            break;
        };
        each(&verdicts);
        summaries.add(&verdicts);
        n_evaluated += 1;
    }
    Some((summaries.into_terms(), n_evaluated))
}

/// The bottleneck of an unschedulable pod as a text of at most [`MAX_BOTTLENECK`] bytes, from some of the nodes where there are
/// many, and from those before the budget was spent. None if that were none.
pub(crate) fn bottleneck(
    state: &State,
    nominations: &Nominations,
    prepared: &PreparedPod,
    budget: &WorkBudget,
) -> Option<String> {
    let (terms, n_evaluated) = sampled(state, nominations, prepared, budget, |_| ())?;
    let text = TermSummary::bottleneck(&terms)?.in_short(n_evaluated, state.nodes.len());
    Some(shortened(text, MAX_BOTTLENECK))
}

pub(crate) fn bottleneck_verdict(
    state: &State,
    nominations: &Nominations,
    prepared: &PreparedPod,
    budget: &WorkBudget,
) -> Option<Verdict> {
    let mut known = HashMap::new();
    let (terms, _) = sampled(state, nominations, prepared, budget, |verdicts| {
        for verdict in verdicts {
            known.entry(terms::key(verdict)).or_insert_with(|| verdict.clone());
        }
    })?;
    let TermSummary { plugin, term, detail, .. } = TermSummary::bottleneck(&terms)?;
    known.remove(&(*plugin, term.clone(), detail.clone()))
}

/// Explains a pod that is not in the state. With `node`, the groups of nodes contain only that node.
pub(crate) fn explain(
    state: &State,
    nominations: &Nominations,
    pod: &Pod,
    prepared: &PreparedPod,
    node: Option<&str>,
    budget: &WorkBudget,
) -> Explanation {
    let mut explanation = Explanation {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        running_on: (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.clone()),
        outcome: Outcome::Unschedulable { message: String::new(), plugins: Vec::new() },
        n_nodes: state.nodes.len(),
        n_not_evaluated: 0,
        terms: Vec::new(),
        excluded: Vec::new(),
        feasible: Vec::new(),
        broken: Vec::new(),
        blast_radius: None,
    };
    explanation.outcome = prepared.held_back().unwrap_or_else(|| {
        let cycle = CycleState::new(state, nominations, prepared);
        match Context::new(state, &cycle).map(Run::new) {
            Some(run) => {
                explanation.fill(&run, node, budget);
                run.outcome()
            }
            None => prepared.no_profile(),
        }
    });
    explanation.blast_radius = blast_radius::within(state, prepared, explanation.outcome.node(), budget);
    explanation
}
