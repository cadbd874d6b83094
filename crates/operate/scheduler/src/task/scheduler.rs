//! The loop of the task: events, completions and timers, and then a turn.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_client::WatchFailure;
use berth_client::component::Sidecars;
use berth_client::lease::Leadership;
use berth_mirror::WatchEvent;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::binding::{BindWorkers, PreBind};
use crate::completion::{BindResult, Completion, Completions};
use crate::context::Context;
use crate::device_turns::DeviceTurns;
use crate::instruments::Instruments;
use crate::metrics::{COMPLETIONS, EVENTS, Metrics};
use crate::moves::ExpectedReplacements;
use crate::pending::PendingPods;
use crate::pod_groups::PodGroups;
use crate::relaxation::Relaxation;
use crate::reporter::Reporter;
use crate::resizes::DeferredResizes;
use crate::wake::Waker;

/// Watch events applied before pods are decided again.
const EVENTS_AT_ONCE: usize = 512;
/// Maximum decisions before the loop reads watch events again, and the longest that they take together: the first decision for each
/// kind of pods looks at all nodes.
const DECISIONS_AT_ONCE: usize = 128;
const LONGEST_TURN: Duration = Duration::from_millis(20);
/// The longest time between two turns of the loop.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The task, and the parts that it owns.
pub(super) struct Scheduler {
    pub(super) context: Context,
    pub(super) groups: PodGroups,
    pub(super) binds: BindWorkers,
    pub(super) pre_bind: PreBind,
    pub(super) device_turns: DeviceTurns,
    pub(super) waker: Waker,
    pub(super) relaxation: Relaxation,
    pub(super) replacements: ExpectedReplacements,
    pub(super) resizes: DeferredResizes,
    pub(super) instruments: Instruments,
    pub(super) reporter: Reporter,
    pub(super) metrics: Arc<Metrics>,
    pub(super) leadership: Leadership,
    pub(super) led_before: bool,
    pub(super) failure: Option<WatchFailure>,
    pub(super) flush_after: Duration,
    pub(super) stop_timeout: Duration,
}

impl Scheduler {
    pub(super) async fn run(
        mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut completions: Completions,
        stop: CancellationToken,
        sidecars: Sidecars,
    ) -> Result<(), WatchFailure> {
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut has_more = false;
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        let mut timer = pin!(tokio::time::sleep(LONGEST_PAUSE));
        loop {
            let wake_at = self.next_wake(Instant::now());
            // Setting the timer costs as much as a turn; a turn too early does no harm.
            if wake_at < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(wake_at);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completion) = completions.recv() => COMPLETIONS.run(|| self.completed(completion)),
                n = watch_events.recv_many(&mut batch, EVENTS_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = std::future::ready(()), if has_more => {}
                () = &mut timer => {}
            }
            while let Ok(completion) = completions.try_recv() {
                COMPLETIONS.run(|| self.completed(completion));
            }
            // The branches are tried in order: watch events must not wait until there are no completions.
            while batch.len() < EVENTS_AT_ONCE
                && let Ok(event) = watch_events.try_recv()
            {
                batch.push(event);
            }
            for event in batch.drain(..) {
                EVENTS.run(|| self.apply(event));
            }
            if self.failure.is_some() {
                break;
            }
            has_more = self.turn();
            if has_more {
                tokio::task::yield_now().await;
            }
        }
        self.stop(&mut completions).await;
        sidecars.stop().await;
        self.failure.map_or(Ok(()), Err)
    }

    /// One turn, after all events that have arrived are applied. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.context.state.cluster.set_now(jiff::Timestamp::now().as_second());
        self.observe_leadership();
        self.groups.update_hierarchies(&mut self.context);
        for _ in 0..self.context.pending.queue.end_backoffs(now) {
            self.metrics.queued("active", "BackoffComplete");
        }
        self.relaxation.expire(&mut self.context.pending, now);
        while let Some(outcome) = self.pre_bind.expire(now, self.leadership.leads()) {
            self.pre_bind_ended(outcome);
        }
        for entry in self.groups.expire(&mut self.context, now) {
            self.take_back(entry, Some("volumes of members are not bound in time"));
        }
        self.wake_unschedulable(now);
        self.waker.flush(&mut self.context.pending, now);
        self.context.state.mirror.read_node_attributes(&self.context.state.cluster, now);
        let has_more = self.decide_some();
        if self.may_decide() {
            self.resizes.preempt(&mut self.context, now);
        }
        let PendingPods { queue, pods, statuses, events, .. } = &mut self.context.pending;
        statuses.write_some(pods);
        self.groups.write_statuses(statuses);
        events.explain_one(queue, pods, &self.context.state.cluster);
        self.context.state.mirror.check_if_due(now);
        self.instruments.count_if_due(&self.context, self.binds.n_in_flight(), now);
        let leads = self.leadership.leads();
        self.reporter.report_if_due(&self.context, leads, now);
        has_more
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let times = [
            self.context.pending.queue.next_due(),
            self.waker.next_due(),
            self.context.pending.events.next_due(),
            self.relaxation.next_due(),
            self.reporter.next_due(),
            self.pre_bind.next_due(),
            self.groups.next_due(),
        ];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    /// Events of what another leader did a moment ago may not have arrived yet: pods and claims of devices are
    /// listed again before the first decision as a leader.
    fn observe_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads != self.led_before {
            self.groups.reset_reservations(&mut self.context);
        }
        if leads && !self.led_before {
            self.context.state.mirror.relist_pods();
            self.context.state.mirror.relist_device_claims();
            self.groups.forget_victims();
        }
        self.led_before = leads;
    }

    fn may_decide(&self) -> bool {
        self.binds.has_room() && self.context.state.mirror.is_complete() && self.leadership.leads()
    }

    /// Decides pods while they can be bound. Returns whether there are more.
    fn decide_some(&mut self) -> bool {
        let begun = Instant::now();
        for _ in 0..DECISIONS_AT_ONCE {
            if begun.elapsed() > LONGEST_TURN {
                break;
            }
            if !self.may_decide() {
                return false;
            }
            let Some(popped) = self.context.pending.queue.pop() else { return false };
            if popped.was_in_backoff {
                self.metrics.queued("active", "PopFromBackoffQ");
            }
            let (id, now) = (popped.id, Instant::now());
            let waits = self.context.pending.queue.waits_for_turn(id);
            let work = self.context.state.cluster.device_work().clone();
            match self.device_turns.steps(waits, now) {
                Ok(steps) => work.allow(steps, steps),
                Err(next) => {
                    self.context.pending.queue.postpone(id, next);
                    continue;
                }
            }
            let n_before = work.n_spent();
            if self.groups.is_entry(popped.id) {
                self.decide_group(popped.id);
            } else {
                self.decide(popped.id);
            }
            self.device_turns.took(waits, work.n_spent() - n_before, now, Instant::now());
        }
        true
    }

    /// Wakes the pods that changes since the last call help.
    pub(super) fn wake_unschedulable(&mut self, now: Instant) {
        self.waker.wake(&mut self.context, &self.groups, now);
    }

    /// Waits for bindings in flight, within limits.
    async fn stop(&mut self, completions: &mut Completions) {
        let deadline = Instant::now() + self.stop_timeout;
        for binding in self.binds.close() {
            self.completed(Completion::Binding {
                binding,
                result: BindResult::NotSent,
                took: Duration::ZERO,
            });
        }
        while self.binds.n_in_flight() > 0 {
            match tokio::time::timeout_at(deadline, completions.recv()).await {
                Ok(Some(completion)) => self.completed(completion),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.binds.n_in_flight(), "stopping with bindings in flight");
                    break;
                }
            }
        }
        self.binds.abandon_lookups();
        self.reporter.report(&self.context, self.leadership.leads());
    }
}
