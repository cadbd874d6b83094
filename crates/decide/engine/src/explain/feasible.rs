//! Feasible nodes in groups of equal scores, with the parts of the scores.

use std::collections::HashMap;

use super::{FeasibleNodes, PluginScore, ScorePart};
use crate::cycle::context::NodeRef;
use crate::decision::{Run, Scored};
use crate::state::node::NodeId;

/// Groups of feasible nodes, best first. With `only`, the group contains only that node.
pub(super) fn feasible(run: &Run<'_>, only: Option<&str>) -> Vec<FeasibleNodes> {
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
    let state = run.context.state;
    let node = NodeRef::new(id, state.nodes.get(id));
    let parts = scored.scorer.parts(node).into_iter().map(|(what, value)| ScorePart { what, value });
    PluginScore {
        plugin: scored.plugin,
        score,
        weight: scored.weight,
        raw: scored.scorer.score(node),
        parts: parts.collect(),
    }
}
