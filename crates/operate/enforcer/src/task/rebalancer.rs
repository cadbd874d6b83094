//! The state of rebalancing.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use berth_mirror::Change;
use berth_rebalance::Move;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::completion::Completion;
use crate::options::RebalanceOptions;
use crate::rebalance::{Exceptions, Objects, Progress, StatusWriter, Step, StepResult};

/// After a change of a node, until a plan is made: others may follow.
const AFTER_A_CHANGE: Duration = Duration::from_secs(2);

/// A mark that the watch does not show in this time is written again.
pub(super) const MARKED_FOR: Duration = Duration::from_secs(10);

pub(super) enum Phase {
    /// The rest of the plan, or a new one, is looked at when it is time.
    Idle,
    /// A question is being answered, the last one before a step that is counted, if there is one.
    Asked(Option<Box<Step>>),
    /// A step is to be made, when the limits allow it.
    Allowed(Box<Step>),
    /// It is counted, and its pod is being marked.
    Marking(Box<Step>),
    /// The watch is to show this mark.
    Marked(Box<Step>, String, Instant),
    /// A pod is evicted, and its replacement awaited.
    Sent(Box<Step>, Instant),
}

pub(super) struct Rebalancer {
    pub(super) options: RebalanceOptions,
    pub(super) objects: Arc<Objects>,
    pub(super) phase: Phase,
    /// When to look at the plan.
    pub(super) at: Instant,
    /// Whether a node has changed since the plan was looked at.
    pub(super) has_other_nodes: bool,
    /// What is left of the plan.
    pub(super) rest: Vec<Move>,
    pub(super) exceptions: Exceptions,
    /// Steps whose replacement was not ready in time: other pods of its workload stay until it is.
    pub(super) late: Vec<Step>,
    /// Controllers that were not there when a step was to be made, by uid, and why their pods stay until the next interval.
    pub(super) absent: HashMap<String, String>,
    /// Whether the last step ended in this leadership.
    pub(super) has_observed: bool,
    /// When the last step ended, or this began: budgets may not be counted since then.
    pub(super) moved_at: Instant,
    pub(super) progress: Progress,
    pub(super) writer: Option<StatusWriter>,
    pub(super) completed: mpsc::UnboundedSender<Completion>,
}

impl Rebalancer {
    pub(super) fn new(
        options: RebalanceOptions,
        writer: Option<StatusWriter>,
        completed: mpsc::UnboundedSender<Completion>,
    ) -> Rebalancer {
        Rebalancer {
            options,
            objects: Arc::default(),
            phase: Phase::Idle,
            at: Instant::now(),
            has_other_nodes: false,
            rest: Vec::new(),
            exceptions: Exceptions::default(),
            late: Vec::new(),
            absent: HashMap::new(),
            has_observed: false,
            moved_at: Instant::now(),
            progress: Progress::default(),
            writer,
            completed,
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        if Arc::make_mut(&mut self.objects).apply(change) {
            self.has_other_nodes = true;
            self.at = self.at.min(Instant::now() + AFTER_A_CHANGE);
        }
        // The next step may wait for it.
        if matches!(change, Change::BudgetApplied(_)) && !self.rest.is_empty() {
            self.at = self.at.min(Instant::now());
        }
    }

    /// Another process leads, or may lead.
    pub(super) fn reset(&mut self) {
        self.phase = Phase::Idle;
        self.rest.clear();
        self.exceptions = Exceptions::default();
        self.has_observed = false;
        (self.at, self.moved_at) = (Instant::now(), Instant::now());
    }

    /// The pod whose eviction is counted before it is sent.
    pub(super) fn counted(&self) -> Option<&str> {
        match &self.phase {
            Phase::Allowed(step)
            | Phase::Marking(step)
            | Phase::Marked(step, ..)
            | Phase::Asked(Some(step)) => Some(&step.uid),
            _ => None,
        }
    }

    /// When there is something to do although nothing happens.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.phase {
            Phase::Idle => Some(self.at),
            Phase::Sent(_, since) => Some(since + self.options.step_timeout),
            Phase::Marked(_, _, since) => Some(since + MARKED_FOR),
            // An answer, or that of the ledger, wakes the task.
            Phase::Asked(_) | Phase::Allowed(_) | Phase::Marking(_) => None,
        }
    }

    /// Nothing is done until the next plan, which is made after the interval.
    pub(super) fn plan_later(&mut self, now: Instant) {
        self.absent.clear();
        self.rest.clear();
        self.at = now + self.options.interval;
        let at = Timestamp::now().saturating_add(self.options.interval);
        let text = at.map_or_else(|_| String::new(), |at| format!("plans again at {at:.0}"));
        self.progress.doing(text);
    }

    /// A step has ended. After a move the plan goes on; if not, another plan is made later.
    pub(super) fn ended(
        &mut self,
        step: Step,
        result: StepResult,
        replacement: Option<String>,
        now: Instant,
    ) {
        self.phase = Phase::Idle;
        self.has_observed = true;
        self.moved_at = now;
        self.at = now;
        let Step { made, .. } = step;
        if result != StepResult::Moved {
            self.plan_later(now);
        }
        self.progress.left(&self.rest);
        self.progress.ended(made, result, replacement);
    }
}
