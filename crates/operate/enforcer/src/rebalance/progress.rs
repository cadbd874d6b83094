//! The plan and how far it is, for the ConfigMap and the metrics.

use std::collections::BTreeMap;

use berth_rebalance::{Goal, Immovable, Move, NextStep, Plan};
use jiff::Timestamp;
use serde::Serialize;

/// The most moves and pods that are listed: a ConfigMap holds 1 MiB.
const MOST_LISTED: usize = 500;

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(crate) enum StepResult(name) {
        /// The replacement is ready on its target.
        Moved = "moved",
        /// The replacement is on another node.
        Elsewhere = "elsewhere",
        /// The replacement was not ready in time.
        TimedOut = "timed_out",
        /// The pod was not evicted.
        NotEvicted = "not_evicted",
    }
}

/// A move, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    #[serde(flatten)]
    made: Move,
    result: StepResult,
    /// What came in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    replacement: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Progress {
    planned_at: Option<Timestamp>,
    /// In their order.
    goals: Vec<Goal>,
    /// The values before the plan, as they are, and after the plan.
    before: BTreeMap<Goal, f64>,
    pub(crate) now: BTreeMap<Goal, f64>,
    after: BTreeMap<Goal, f64>,
    /// What is done at the moment.
    doing: String,
    /// The steps of the plan that have ended.
    done: Vec<Done>,
    /// The moves that are left, the next one first.
    left: Vec<Move>,
    n_left: usize,
    /// The pods that would help and stay.
    held: Vec<Immovable>,
    n_held: usize,
}

impl Progress {
    pub(crate) fn planned(&mut self, goals: &[Goal], plan: &Plan, held: Vec<Immovable>, now: Timestamp) {
        let mut all = held;
        all.extend(plan.immovable.iter().cloned());
        let n_held = all.len();
        all.truncate(MOST_LISTED);
        // What is done stays until there is something else to do.
        let done = if plan.moves.is_empty() { std::mem::take(&mut self.done) } else { Vec::new() };
        *self = Progress {
            planned_at: Some(now),
            goals: goals.to_vec(),
            before: plan.before.clone(),
            now: plan.before.clone(),
            after: plan.after.clone(),
            done,
            held: all,
            n_held,
            ..Progress::default()
        };
        self.left(&plan.moves);
    }

    /// The rest of the plan is checked.
    pub(crate) fn checked(&mut self, step: &NextStep) {
        self.now.clone_from(&step.before);
        self.after.clone_from(&step.after);
    }

    pub(crate) fn left(&mut self, rest: &[Move]) {
        self.n_left = rest.len();
        self.left = rest.iter().take(MOST_LISTED).cloned().collect();
    }

    pub(crate) fn n_left(&self) -> usize {
        self.n_left
    }

    /// Says what is done at the moment.
    pub(crate) fn doing(&mut self, what: impl Into<String>) {
        self.doing = what.into();
    }

    pub(crate) fn ended(&mut self, made: Move, result: StepResult, replacement: Option<String>) {
        if self.done.len() == MOST_LISTED {
            self.done.remove(0);
        }
        self.done.push(Done { made, result, replacement });
    }
}
