//! How long each plugin takes for a pod. The clock is passed in.
//!
//! Decisions come from views, which do not run plugins one by one. What is measured here is the decision by every rule on
//! every node: the same result, at the cost that each rule has.

use core::time::Duration;

use berth_input::config::Plugin;

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::Nominations;
use crate::plugins::{self, PreFilter};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;

/// A stage of a decision, named as in kube-scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Rules are prepared for the pod.
    PreFilter,
    /// Nodes are filtered.
    Filter,
    /// Scores are prepared for the pod.
    PreScore,
    /// Feasible nodes are scored.
    Score,
}

/// The time of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub stage: Stage,
    /// Whether it left a feasible node.
    pub is_success: bool,
    /// Its time for all nodes.
    pub total: Duration,
    /// The time of each plugin that took part: per node for [`Stage::Filter`] and [`Stage::Score`].
    pub plugins: Vec<(Plugin, Duration)>,
}

/// Measures the stages of a decision.
pub(crate) fn stage_times(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    clock: &mut dyn FnMut() -> Duration,
) -> Vec<StageTime> {
    let cycle = CycleState::new(state, nominations, pod);
    let Some(context) = Context::new(state, &cycle) else { return Vec::new() };
    let mut stages = Vec::new();
    let mut last = clock();
    let mut lap = || {
        let before = std::mem::replace(&mut last, clock());
        last.saturating_sub(before)
    };

    let rejected = matches!(plugins::pre_filter(context), PreFilter::Rejected(_));
    let mut stage = StageTime::new(Stage::PreFilter, lap(), !rejected);
    let mut filters = Vec::new();
    for plugin in context.profile.profile.filter.iter().filter(|_| !rejected) {
        let filter = plugins::filter(*plugin, context);
        let took = lap();
        stage.total += took;
        if let Some(filter) = filter {
            if context.profile.profile.pre_filter.contains(plugin) {
                stage.plugins.push((*plugin, took));
            }
            filters.push((*plugin, filter));
        }
    }
    stages.push(stage);
    if rejected {
        return stages;
    }

    let mut feasible: Vec<NodeId> = state.nodes.iter().map(|(id, _)| id).collect();
    let mut stage = StageTime::new(Stage::Filter, lap(), true);
    for (plugin, filter) in filters {
        let n = feasible.len();
        feasible.retain(|id| filter.admits(NodeRef::new(*id, state.nodes.get(*id))));
        stage.add_per_node(plugin, lap(), n);
    }
    stage.is_success = !feasible.is_empty();
    let is_success = stage.is_success;
    stages.push(stage);
    if !is_success {
        return stages;
    }

    let scorers = plugins::scorers(context, &feasible);
    stages.push(StageTime::new(Stage::PreScore, lap(), scorers.is_ok()));
    let mut stage = StageTime::new(Stage::Score, Duration::ZERO, true);
    for weighted in scorers.into_iter().flatten() {
        weighted.scores(state, &feasible);
        stage.add_per_node(weighted.plugin, lap(), feasible.len());
    }
    stages.push(stage);
    stages
}

impl StageTime {
    fn new(stage: Stage, total: Duration, is_success: bool) -> StageTime {
        StageTime { stage, is_success, total, plugins: Vec::new() }
    }

    fn add_per_node(&mut self, plugin: Plugin, took: Duration, n_nodes: usize) {
        self.total += took;
        if n_nodes > 0 {
            self.plugins.push((plugin, took / u32::try_from(n_nodes).unwrap_or(u32::MAX)));
        }
    }
}
