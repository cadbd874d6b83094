//! The lifecycle of a pod on its node, as a state machine. It does no I/O and reads no clock: callers pass the time in.
//!
//! All containers of a pod start and end together. Init containers run before them, one after the other; sidecars among
//! them keep running. A stage of zero length is passed within the same step, so its status is never written.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::plan::Plan;
use super::rejection::Rejection;
use super::resize::Resize;
use super::stage::{CompletedRun, InitRun, Outcome, Stage};
use super::view::PodView;

/// A start that takes longer than this always gets its own status (`ContainerCreating`).
const LONG_START: Duration = Duration::from_secs(2);
/// A start that takes at least this long gets one if writes are not too many.
const VISIBLE_START: Duration = Duration::from_millis(500);
/// A container that ran this long is not in a crash loop.
const STABLE_RUN: SignedDuration = SignedDuration::from_mins(10);

#[derive(Clone, Debug)]
pub(crate) struct PodLifecycle {
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    /// When the stage began.
    entered: Timestamp,
    pub(super) start_time: Timestamp,
    /// The init containers that have started.
    pub(super) init_runs: Vec<InitRun>,
    pub(super) initialized_at: Option<Timestamp>,
    pub(super) restarts: u32,
    /// Ends of the containers since the last run that was longer than [`STABLE_RUN`].
    pub(super) n_crashes: u32,
    /// Start of the latest run of the containers.
    pub(super) run_began: Option<Timestamp>,
    pub(super) last_end: Option<CompletedRun>,
    /// When the containers became ready or stopped being so.
    pub(super) ready_changed: Timestamp,
    pub(super) passes_readiness_gates: bool,
    pub(super) resize: Resize,
    /// The volumes are not mounted yet, so that no container can be created.
    awaits_volumes: bool,
    /// The pod is being deleted: the agent removes it from the API when it has ended.
    deleted: bool,
    /// Counts changes of the status.
    version: u32,
}

impl PodLifecycle {
    /// A pod that the node has just accepted.
    pub(crate) fn accept(plan: Plan, now: Timestamp) -> PodLifecycle {
        let announced = plan.start_after > LONG_START;
        PodLifecycle { version: u32::from(announced), ..PodLifecycle::new(plan, Stage::Creating, now) }
    }

    /// A pod that the node rejects: its phase is `Failed`.
    pub(crate) fn reject(plan: Plan, rejection: Rejection, now: Timestamp) -> PodLifecycle {
        PodLifecycle {
            version: 1,
            ..PodLifecycle::new(plan, Stage::Ended(Outcome::Rejected(rejection)), now)
        }
    }

    /// A pod that already runs or has ended according to its status. No status is written until that changes.
    pub(crate) fn resume(pod: &PodView, mut plan: Plan, now: Timestamp) -> PodLifecycle {
        // A resize that is pending has changed the spec only.
        for (plans, statuses) in [
            (&mut plan.containers, &pod.status.container_statuses),
            (&mut plan.init_containers, &pod.status.init_container_statuses),
        ] {
            for plan in plans {
                let status = statuses.iter().find(|status| status.name == plan.name);
                if let Some((allocated, status)) =
                    status.and_then(|s| Some((s.allocated_resources.as_ref()?, s)))
                {
                    plan.resources.requests.clone_from(allocated);
                    plan.resources.limits.clone_from(&status.resources.limits);
                }
            }
        }
        if pod.is_terminal() {
            let end = if pod.status.phase == "Succeeded" { Outcome::Succeeded } else { Outcome::Failed };
            return PodLifecycle::new(plan, Stage::Ended(end), now);
        }
        let start_time = pod.status.start_time.unwrap_or(now);
        let statuses = &pod.status.container_statuses;
        let began = statuses
            .iter()
            .find_map(|c| c.state.running.as_ref())
            .map(|r| r.started_at.unwrap_or(start_time));
        let restarts = statuses.iter().map(|c| c.restart_count.max(0) as u32).max().unwrap_or(0);
        let (stage, entered) = match began {
            // By its status the pod waits for a restart: its back-off starts again.
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
        PodLifecycle {
            init_runs: init_runs.map(|c| if c.is_sidecar { sidecar_run } else { init_run }).collect(),
            initialized_at: Some(pod.transition("Initialized").unwrap_or(start_time)),
            start_time,
            restarts,
            n_crashes: restarts,
            run_began: Some(began.unwrap_or(start_time)),
            ready_changed: pod.transition("ContainersReady").unwrap_or(start_time),
            passes_readiness_gates: pod.passes_readiness_gates(),
            ..PodLifecycle::new(plan, stage, entered)
        }
    }

    fn new(plan: Plan, stage: Stage, now: Timestamp) -> PodLifecycle {
        PodLifecycle {
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
            resize: Resize::default(),
            awaits_volumes: false,
            deleted: false,
            version: 0,
        }
    }

    /// When the next change is due; none if only an event can change the pod.
    pub(crate) fn due(&self) -> Option<Timestamp> {
        let due = self.stage_length().map(|length| later(self.entered, length));
        [due, self.deadline(), self.resize_due()].into_iter().flatten().min()
    }

    /// Makes every change that is due.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        // The clock may have been set back: what began in the future begins now.
        self.entered = self.entered.min(now);
        while self.due().is_some_and(|due| due <= now) {
            if self.resize_due().is_some_and(|due| due <= now) {
                self.end_resize();
            } else if self.deadline().is_some_and(|deadline| deadline <= now) {
                self.end_run(137, now);
                self.end(Outcome::DeadlineExceeded, now);
            } else {
                self.pass_stage(now);
            }
        }
    }

    /// Starts the deletion with a grace period. A later call may shorten the period.
    pub(crate) fn delete(&mut self, grace: Duration, now: Timestamp) {
        self.deleted = true;
        let (after, exit_code) = self.plan.stopping(grace);
        match self.stage {
            Stage::Ended(_) => {}
            // No container runs, so nothing delays the end.
            Stage::Creating => self.end_deleted(Outcome::Failed, now),
            Stage::BackOff => {
                let failed = self.last_end.is_some_and(|end| end.exit_code != 0);
                self.end_deleted(if failed { Outcome::Failed } else { Outcome::Succeeded }, now);
            }
            Stage::Stopping { after: before, .. } if before <= after => {}
            Stage::Stopping { .. } => self.stage = Stage::Stopping { after, exit_code },
            Stage::Initializing | Stage::Started | Stage::Ready => {
                self.enter(Stage::Stopping { after, exit_code }, now);
            }
        }
        self.advance(now);
    }

    /// No container is created until the volumes are mounted.
    pub(crate) fn await_volumes(&mut self) {
        self.awaits_volumes = self.stage == Stage::Creating;
    }

    pub(crate) fn awaits_volumes(&self) -> bool {
        self.awaits_volumes && self.stage == Stage::Creating
    }

    /// Whether the start takes long enough to be seen, and has no status of its own.
    pub(crate) fn may_be_announced(&self) -> bool {
        self.stage == Stage::Creating && self.version == 0 && self.plan.start_after >= VISIBLE_START
    }

    /// Reports the wait (`ContainerCreating`).
    pub(crate) fn announce(&mut self) {
        self.version = self.version.max(1);
    }

    /// The volumes are mounted: containers are created from now on.
    pub(crate) fn volumes_mounted(&mut self, now: Timestamp) {
        if std::mem::take(&mut self.awaits_volumes) && self.stage == Stage::Creating {
            self.entered = now;
        }
    }

    /// The node cannot attach the volumes: the phase is `Failed`.
    pub(crate) fn reject_mount(&mut self, rejection: Rejection, now: Timestamp) {
        self.change(Stage::Ended(Outcome::Rejected(rejection)), now);
    }

    /// Sets whether the conditions of the pod's readiness gates are true.
    pub(crate) fn set_readiness_gates(&mut self, passed: bool) {
        if self.passes_readiness_gates != passed {
            self.passes_readiness_gates = passed;
            if self.stage == Stage::Ready {
                self.version += 1;
            }
        }
    }

    /// The version of the status: it grows with every change, and is 0 while there is nothing to write.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Whether the pod has ended and the agent may remove it from the API.
    pub(crate) fn is_removable(&self) -> bool {
        self.deleted && self.has_ended()
    }

    /// How often its containers have been started.
    pub(crate) fn n_runs(&self) -> u32 {
        self.restarts + u32::from(self.run_began.is_some())
    }

    /// Whether its containers have ended and wait to be started again.
    pub(crate) fn backs_off(&self) -> bool {
        self.stage == Stage::BackOff
    }

    /// Whether its containers received SIGTERM and have not ended.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.stage, Stage::Stopping { .. })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether no container runs, and none will.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_))
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Started | Stage::Ready)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready && self.passes_readiness_gates
    }

    /// Whether its status has its own address.
    pub(crate) fn needs_pod_ip(&self) -> bool {
        !self.plan.host_network
    }

    fn stage_length(&self) -> Option<Duration> {
        let plan = &self.plan;
        match self.stage {
            Stage::Creating if self.awaits_volumes => None,
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
                self.end_deleted(if exit_code == 0 { Outcome::Succeeded } else { Outcome::Failed }, now);
            }
            Stage::Ended(_) => {}
        }
    }

    /// Starts the next init container and the sidecars before it; the containers when no init container is left.
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

    /// The containers end without being stopped.
    fn finish_run(&mut self, now: Timestamp) {
        let exit_code = self.plan.exit_code(self.restarts);
        let was_stable = self.run_began.is_some_and(|began| now.duration_since(began) >= STABLE_RUN);
        self.end_run(exit_code, now);
        if self.plan.restarts_after(exit_code) {
            self.n_crashes = if was_stable { 1 } else { self.n_crashes.saturating_add(1) };
            self.change(Stage::BackOff, now);
        } else {
            self.end(if exit_code == 0 { Outcome::Succeeded } else { Outcome::Failed }, now);
        }
    }

    fn end_run(&mut self, exit_code: i32, now: Timestamp) {
        if matches!(self.stage, Stage::Started | Stage::Ready | Stage::Stopping { .. })
            && let Some(began) = self.run_began
        {
            self.last_end = Some(CompletedRun { exit_code, began, ended: now });
            self.ready_changed = now;
        }
    }

    fn end(&mut self, end: Outcome, now: Timestamp) {
        for run in &mut self.init_runs {
            run.ended.get_or_insert(now);
        }
        self.change(Stage::Ended(end), now);
    }

    /// Ends a deleted pod. Its last status is written only if the plan says that a client reads it.
    fn end_deleted(&mut self, end: Outcome, now: Timestamp) {
        let version = self.version;
        self.end(end, now);
        if !self.plan.reports_end {
            self.version = version;
        }
    }

    /// The status has changed within a stage.
    pub(super) fn count_change(&mut self) {
        self.version += 1;
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

/// Saturates at the largest timestamp.
pub(super) fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
