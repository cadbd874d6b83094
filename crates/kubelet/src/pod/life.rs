//! The life of a pod on its node, as a state machine: no I/O, and the time is handed in.
//!
//! The containers of a pod start and end together; init containers run before them in turn, sidecars among those
//! stay. A stage that takes no time is passed within the same step, so that its status is never written.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::plan::Plan;
use super::view::PodView;

/// A start that takes longer than this is announced by a status of its own (`ContainerCreating`).
const WORTH_ANNOUNCING: Duration = Duration::from_secs(2);
/// A container that ran this long is not in a crash loop.
const CALM: SignedDuration = SignedDuration::from_mins(10);

/// A pod on its node.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    /// When the stage began.
    entered: Timestamp,
    /// When the node accepted the pod.
    pub(super) start_time: Timestamp,
    /// The init containers that have begun.
    pub(super) init_runs: Vec<InitRun>,
    pub(super) initialized_at: Option<Timestamp>,
    pub(super) restarts: u32,
    /// Ends since the last calm run.
    pub(super) n_crashes: u32,
    /// Begin of the latest run of the containers.
    pub(super) run_began: Option<Timestamp>,
    pub(super) last_end: Option<Ending>,
    /// When the containers became ready or stopped being so.
    pub(super) ready_changed: Timestamp,
    pub(super) passes_readiness_gates: bool,
    /// The pod is to be removed from the API when it has ended.
    deleted: bool,
    /// Counts changes of the status.
    version: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Accepted; no container runs.
    Creating,
    /// The last of `init_runs` that is no sidecar runs.
    Initializing,
    /// Containers run and are not ready.
    Started,
    /// Containers are ready.
    Ready,
    /// Containers have ended and will be restarted.
    BackOff,
    /// Containers have been told to end.
    Stopping { after: Duration, exit_code: i32 },
    /// Nothing runs any more.
    Ended(End),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
    /// `activeDeadlineSeconds` passed.
    DeadlineExceeded,
    /// The node refused the pod.
    Rejected(Refusal),
}

/// Why a node refuses a pod: what becomes `status.reason` and `status.message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// One word, such as `NodeAffinity` or `OutOfcpu`.
    pub(crate) reason: String,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitRun {
    pub(super) began: Timestamp,
    /// None while it runs; sidecars run until the pod ends.
    pub(super) ended: Option<Timestamp>,
}

/// The end of a run of the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) exit_code: i32,
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
}

impl Life {
    /// A pod the node has just accepted.
    pub(crate) fn accept(plan: Plan, now: Timestamp) -> Life {
        let announced = plan.start_after > WORTH_ANNOUNCING;
        Life { version: u32::from(announced), ..Life::new(plan, Stage::Creating, now) }
    }

    /// A pod the node refuses: it has failed.
    pub(crate) fn reject(plan: Plan, refusal: Refusal, now: Timestamp) -> Life {
        Life { version: 1, ..Life::new(plan, Stage::Ended(End::Rejected(refusal)), now) }
    }

    /// A pod that runs already, or has ended, according to its status: nothing is written until that changes.
    pub(crate) fn resume(pod: &PodView, plan: Plan, now: Timestamp) -> Life {
        if pod.is_terminal() {
            let end = if pod.status.phase == "Succeeded" { End::Succeeded } else { End::Failed };
            return Life::new(plan, Stage::Ended(end), now);
        }
        let start_time = pod.status.start_time.unwrap_or(now);
        let statuses = &pod.status.container_statuses;
        let began = statuses
            .iter()
            .find_map(|c| c.state.running.as_ref())
            .map(|r| r.started_at.unwrap_or(start_time));
        let restarts = statuses.iter().map(|c| c.restart_count.max(0) as u32).max().unwrap_or(0);
        let (stage, entered) = match began {
            // Waiting for a restart, or so the status says: the back-off begins anew.
            None if !statuses.is_empty() => (Stage::BackOff, now),
            None => (Stage::Ready, start_time),
            Some(began) if pod.has_condition("ContainersReady") || pod.has_condition("Ready") => {
                (Stage::Ready, later(began, plan.ready_after))
            }
            Some(began) => (Stage::Started, began),
        };
        let init_run = InitRun { began: start_time, ended: Some(start_time) };
        let sidecar_run = InitRun { began: start_time, ended: None };
        let init_runs = plan.init_containers.iter();
        Life {
            init_runs: init_runs.map(|c| if c.is_sidecar { sidecar_run } else { init_run }).collect(),
            initialized_at: Some(pod.transition("Initialized").unwrap_or(start_time)),
            start_time,
            restarts,
            n_crashes: restarts,
            run_began: Some(began.unwrap_or(start_time)),
            ready_changed: pod.transition("ContainersReady").unwrap_or(start_time),
            passes_readiness_gates: pod.passes_readiness_gates(),
            ..Life::new(plan, stage, entered)
        }
    }

    fn new(plan: Plan, stage: Stage, now: Timestamp) -> Life {
        Life {
            plan,
            stage,
            entered: now,
            start_time: now,
            init_runs: Vec::new(),
            initialized_at: None,
            restarts: 0,
            n_crashes: 0,
            run_began: None,
            last_end: None,
            ready_changed: now,
            passes_readiness_gates: true,
            deleted: false,
            version: 0,
        }
    }

    /// When the next change is due; none if only an event from outside changes anything.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let due = self.stage_length().map(|length| later(self.entered, length));
        match (due, self.deadline()) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (due, deadline) => due.or(deadline),
        }
    }

    /// Makes every change that is due.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        while self.due().is_some_and(|due| due <= now) {
            if self.deadline().is_some_and(|deadline| deadline <= now) {
                self.end_run(137, now);
                self.end(End::DeadlineExceeded, now);
            } else {
                self.pass_stage(now);
            }
        }
    }

    /// The pod is being deleted, with so much time to end in. May be told again with less.
    pub(crate) fn delete(&mut self, grace: Duration, now: Timestamp) {
        self.deleted = true;
        let (after, exit_code) = self.plan.stopping(grace);
        match self.stage {
            Stage::Ended(_) => {}
            // Nothing runs that could take its time.
            Stage::Creating => self.end_deleted(End::Failed, now),
            Stage::BackOff => {
                let failed = self.last_end.is_some_and(|end| end.exit_code != 0);
                self.end_deleted(if failed { End::Failed } else { End::Succeeded }, now);
            }
            Stage::Stopping { after: before, .. } if before <= after => {}
            Stage::Stopping { .. } => self.stage = Stage::Stopping { after, exit_code },
            Stage::Initializing | Stage::Started | Stage::Ready => {
                self.enter(Stage::Stopping { after, exit_code }, now);
            }
        }
        self.advance(now);
    }

    /// Whether the conditions of the pod's readiness gates are true.
    pub(crate) fn set_readiness_gates(&mut self, passed: bool) {
        if self.passes_readiness_gates != passed {
            self.passes_readiness_gates = passed;
            if self.stage == Stage::Ready {
                self.version += 1;
            }
        }
    }

    /// Changes with every change of the status; 0 while there is nothing to write.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Whether the pod has ended and is to be removed from the API.
    pub(crate) fn is_removable(&self) -> bool {
        self.deleted && self.has_ended()
    }

    /// Whether nothing of it runs any more, or ever will.
    /// How often its containers have been started.
    pub(crate) fn n_runs(&self) -> u32 {
        self.restarts + u32::from(self.run_began.is_some())
    }

    /// Whether its containers have ended and wait to be started again.
    pub(crate) fn backs_off(&self) -> bool {
        self.stage == Stage::BackOff
    }

    /// Whether its containers have been told to end.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. })
    }

    /// What it was going to do.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether nothing of it runs any more, or ever will.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    /// Whether its containers run.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Started | Stage::Ready)
    }

    /// Whether it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready && self.passes_readiness_gates
    }

    /// Whether its status has an address of its own.
    pub(crate) fn needs_pod_ip(&self) -> bool {
        !self.plan.host_network
    }

    fn stage_length(&self) -> Option<Duration> {
        let plan = &self.plan;
        match self.stage {
            Stage::Creating => Some(plan.start_after),
            Stage::Initializing => Some(plan.init_run_for),
            Stage::Started => Some(plan.ready_after.min(plan.run_for.unwrap_or(Duration::MAX))),
            Stage::Ready => plan.run_for.map(|run_for| run_for.saturating_sub(plan.ready_after)),
            Stage::BackOff => Some(plan.backoff(self.n_crashes)),
            Stage::Stopping { after, .. } => Some(after),
            Stage::Ended(_) => None,
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Stopping { .. } | Stage::Ended(_) => None,
            _ => self.plan.active_deadline.map(|deadline| later(self.start_time, deadline)),
        }
    }

    fn pass_stage(&mut self, now: Timestamp) {
        match self.stage {
            Stage::Creating => self.begin_init_container(now),
            Stage::Initializing => {
                if let Some(run) = self.init_runs.last_mut() {
                    run.ended = Some(now);
                }
                self.begin_init_container(now);
            }
            Stage::Started if self.plan.run_for.is_some_and(|run_for| run_for <= self.plan.ready_after) => {
                self.finish_run(now);
            }
            Stage::Started => {
                self.ready_changed = now;
                self.change(Stage::Ready, now);
            }
            Stage::Ready => self.finish_run(now),
            Stage::BackOff => {
                self.restarts += 1;
                self.begin_run(now);
            }
            Stage::Stopping { exit_code, .. } => {
                self.end_run(exit_code, now);
                self.end_deleted(if exit_code == 0 { End::Succeeded } else { End::Failed }, now);
            }
            Stage::Ended(_) => {}
        }
    }

    /// Begins the next init container that has to end, and the sidecars before it; else the containers.
    fn begin_init_container(&mut self, now: Timestamp) {
        while let Some(next) = self.plan.init_containers.get(self.init_runs.len()) {
            self.init_runs.push(InitRun { began: now, ended: None });
            if !next.is_sidecar {
                return self.change(Stage::Initializing, now);
            }
        }
        self.initialized_at = Some(now);
        self.begin_run(now);
    }

    fn begin_run(&mut self, now: Timestamp) {
        self.run_began = Some(now);
        self.change(Stage::Started, now);
    }

    /// The containers end by themselves.
    fn finish_run(&mut self, now: Timestamp) {
        let exit_code = self.plan.exit_code(self.restarts);
        let was_calm = self.run_began.is_some_and(|began| now.duration_since(began) >= CALM);
        self.end_run(exit_code, now);
        if self.plan.restarts_after(exit_code) {
            self.n_crashes = if was_calm { 1 } else { self.n_crashes.saturating_add(1) };
            self.change(Stage::BackOff, now);
        } else {
            self.end(if exit_code == 0 { End::Succeeded } else { End::Failed }, now);
        }
    }

    fn end_run(&mut self, exit_code: i32, now: Timestamp) {
        if matches!(self.stage, Stage::Started | Stage::Ready | Stage::Stopping { .. })
            && let Some(began) = self.run_began
        {
            self.last_end = Some(Ending { exit_code, began, ended: now });
            self.ready_changed = now;
        }
    }

    fn end(&mut self, end: End, now: Timestamp) {
        for run in &mut self.init_runs {
            run.ended.get_or_insert(now);
        }
        self.change(Stage::Ended(end), now);
    }

    /// Ends for removal: the status is told only if somebody will see it.
    fn end_deleted(&mut self, end: End, now: Timestamp) {
        let version = self.version;
        self.end(end, now);
        if !self.plan.reports_end {
            self.version = version;
        }
    }

    fn change(&mut self, stage: Stage, now: Timestamp) {
        self.version += 1;
        self.enter(stage, now);
    }

    fn enter(&mut self, stage: Stage, now: Timestamp) {
        self.stage = stage;
        self.entered = now;
    }
}

/// Saturates at the end of time.
fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
