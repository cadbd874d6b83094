//! The next actions for a Job. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use berth_control::job::{self as control, Rank, rank};
use jiff::{SignedDuration, Timestamp};

use super::backoff::backoff_ends;
use super::count::{Tally, count, totals};
use super::outcome::{Outcome, index_of, is_tracked, outcome};
use super::per_index::{self, Failures};
use super::policy::{self, Failure};
use crate::events::Notice;
use crate::pod_control::BURST;
use crate::view::{Condition, Job, JobStatus, Pod, find_condition, set_condition};

/// The actions, executed in this order: write the status, release, delete, create.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) status: JobStatus,
    /// Counted pods: the controller removes their finalizer.
    pub(super) release: Vec<Arc<Pod>>,
    /// Pods to delete. The controller first removes the finalizer of `uncounted` ones, so they do not count as failed.
    pub(super) delete: Vec<(Arc<Pod>, Uncounted)>,
    /// Pods to create, with their completion indexes if the Job is indexed.
    pub(super) create: Vec<Option<i32>>,
    /// Failure counts that the new pods carry for their indexes; only with `backoffLimitPerIndex`.
    pub(super) failures: HashMap<i32, Failures>,
    /// When to sync again although nothing changes.
    pub(super) look_again: Option<Timestamp>,
    /// The TTL of the finished Job has expired.
    pub(super) expired: bool,
    /// Event to emit: whether it is a warning, the reason and the message.
    pub(super) event: Option<Notice>,
}

/// Whether a deleted pod is left out of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uncounted {
    Yes,
    No,
}

pub(super) fn plan(job: &Job, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let mut plan = Plan { status: job.status.clone(), ..Plan::default() };
    if job.status.is_finished() {
        // The other pods lack the finalizer of the Job.
        plan.release = pods.iter().filter(|pod| is_tracked(pod)).cloned().collect();
        plan.expire(job, now);
        return plan;
    }
    let counted = count(job, pods, &mut plan.status, !is_ending(&job.status));
    let active: Vec<Arc<Pod>> =
        pods.iter().filter(|pod| outcome(job, pod) == Outcome::Active).cloned().collect();
    let n_terminating = pods.iter().filter(|pod| pod.metadata.is_deleting() && !pod.is_terminal()).count();
    plan.status.active = number(active.len());
    plan.status.ready = number(active.iter().filter(|pod| pod.is_ready()).count());
    plan.status.terminating = number(n_terminating);

    plan.decide(job, pods, &active, &counted, now);
    let failing = plan.status.has("FailureTarget");
    if is_ending(&plan.status) {
        // The Job has ended: no pod waits for a replacement.
        plan.release = count(job, pods, &mut plan.status, false).release;
        let uncounted = if failing { Uncounted::No } else { Uncounted::Yes };
        plan.delete.extend(active.iter().map(|pod| (pod.clone(), uncounted)));
        if active.is_empty() && n_terminating == 0 {
            plan.finish(now);
        }
        return plan;
    }
    plan.release.clone_from(&counted.release);
    plan.suspend_or_resume(job, &active, now);
    if !job.spec.suspend && !job.metadata.is_deleting() {
        plan.manage(job, pods, active, &counted, now);
    }
    plan
}

/// Whether the Job has `SuccessCriteriaMet` or `FailureTarget`.
fn is_ending(status: &JobStatus) -> bool {
    status.has("FailureTarget") || status.has("SuccessCriteriaMet")
}

impl Plan {
    /// Sets the condition that announces success or failure, if one of them has happened.
    fn decide(&mut self, job: &Job, pods: &[Arc<Pod>], active: &[Arc<Pod>], counted: &Tally, now: Timestamp) {
        if is_ending(&self.status) {
            return;
        }
        let (succeeded, failed) = totals(&self.status);
        let failed = failed.saturating_add(counted.n_kept(job, &self.status));
        let started = self.status.start_time;
        let deadline = job
            .spec
            .active_deadline_seconds
            .zip(started)
            .and_then(|(seconds, start)| start.checked_add(SignedDuration::from_secs(seconds)).ok());
        let limit = job.spec.backoff_limit.unwrap_or(6);
        let failure = if let Some(message) = fails_job(job, pods) {
            Some(("PodFailurePolicy", message))
        } else if failed > limit || has_restarted_too_often(job, active, limit) {
            Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit".to_owned()))
        } else if deadline.is_some_and(|deadline| deadline <= now) && !job.spec.suspend {
            Some(("DeadlineExceeded", "Job was active longer than specified deadline".to_owned()))
        } else {
            fails_by_indexes(job, counted).map(|(reason, message)| (reason, message.to_owned()))
        };
        if let Some((reason, message)) = failure {
            set_condition(
                &mut self.status.conditions,
                condition("FailureTarget", "True", reason, &message, now),
            );
            self.event = Some(Notice::warning(reason, message));
            return;
        }
        let complete = match job.spec.completions {
            None => succeeded > 0 && active.is_empty(),
            Some(completions) => succeeded >= completions,
        };
        let success = if job.is_indexed() { policy::success(job, &counted.completed) } else { None };
        let success = match success {
            Some(message) => Some(("SuccessPolicy", message)),
            None => complete
                .then(|| ("CompletionsReached", "Reached expected number of succeeded pods".to_owned())),
        };
        if let Some((reason, message)) = success {
            set_condition(
                &mut self.status.conditions,
                condition("SuccessCriteriaMet", "True", reason, &message, now),
            );
            return;
        }
        if !job.spec.suspend {
            self.look_at(deadline);
        }
    }

    /// Ends the Job when all its pods have ended and are counted.
    fn finish(&mut self, now: Timestamp) {
        let uncounted = &self.status.uncounted_terminated_pods;
        if !uncounted.succeeded.is_empty() || !uncounted.failed.is_empty() {
            return;
        }
        let announced = ["FailureTarget", "SuccessCriteriaMet"];
        let Some(announced) =
            announced.into_iter().find_map(|kind| find_condition(&self.status.conditions, kind))
        else {
            return;
        };
        let kind = if announced.condition_type == "FailureTarget" { "Failed" } else { "Complete" };
        let end = condition(kind, "True", &announced.reason, &announced.message, now);
        set_condition(&mut self.status.conditions, end);
        if kind == "Complete" {
            self.status.completion_time = Some(now);
            self.event = Some(Notice::normal("Completed", "Job completed"));
        }
    }

    fn suspend_or_resume(&mut self, job: &Job, active: &[Arc<Pod>], now: Timestamp) {
        let was_suspended = self.status.has("Suspended");
        if job.spec.suspend {
            self.delete.extend(active.iter().map(|pod| (pod.clone(), Uncounted::Yes)));
            if !was_suspended {
                set_condition(
                    &mut self.status.conditions,
                    condition("Suspended", "True", "JobSuspended", "Job suspended", now),
                );
                self.event = Some(Notice::normal("Suspended", "Job suspended"));
            }
            // The active deadline counts from the resumption.
            self.status.start_time = None;
            return;
        }
        if was_suspended {
            set_condition(
                &mut self.status.conditions,
                condition("Suspended", "False", "JobResumed", "Job resumed", now),
            );
            self.event = Some(Notice::normal("Resumed", "Job resumed"));
        }
        if self.status.start_time.is_none() {
            self.status.start_time = Some(now);
            let seconds = job.spec.active_deadline_seconds;
            self.look_at(seconds.and_then(|s| now.checked_add(SignedDuration::from_secs(s)).ok()));
        }
    }

    /// Plans creations and deletions to reach the wanted number of active pods.
    fn manage(
        &mut self,
        job: &Job,
        pods: &[Arc<Pod>],
        mut active: Vec<Arc<Pod>>,
        counted: &Tally,
        now: Timestamp,
    ) {
        // The least useful pods come last, so a surplus is deleted from the end.
        active.sort_by(|a, b| rank_of(a).cmp(&rank_of(b)));
        let waits_for_end = job.spec.pod_replacement_policy == "Failed";
        let is_awaited = |pod: &&Arc<Pod>| waits_for_end && pod.metadata.is_deleting() && !pod.is_terminal();
        let awaited: Vec<_> = pods.iter().filter(is_awaited).map(|pod| index_of(pod)).collect();
        let indexes: Vec<_> = active.iter().map(|pod| index_of(pod)).collect();
        let next = control::Job {
            parallelism: job.parallelism(),
            completions: job.spec.completions,
            is_indexed: job.is_indexed(),
            succeeded: totals(&self.status).0,
            completed: &counted.completed,
            failed: &counted.failed,
            active: &indexes,
            awaited: &awaited,
        };
        let steps = next.steps();
        self.delete.extend(steps.delete.iter().map(|at| (active[*at].clone(), Uncounted::Yes)));
        let n = steps.n_missing.min(BURST);
        if n == 0 {
            return;
        }
        let per_index = job.is_indexed() && job.spec.backoff_limit_per_index.is_some();
        if let Some(at) = backoff_ends(pods).filter(|&at| at > now && !per_index) {
            self.look_at(Some(at));
            return;
        }
        if job.is_indexed() {
            let mut pauses = None;
            let free = next.free_indexes().filter(|index| {
                let last = counted.last.get(index).filter(|_| per_index);
                let pause = last.and_then(|last| per_index::backoff_ends(last)).filter(|&at| at > now);
                pauses = pauses.into_iter().chain(pause).min();
                pause.is_none()
            });
            self.create.extend(free.take(n).map(Some));
            self.look_at(pauses);
            if per_index {
                let next = |index: &i32| (*index, per_index::next(job, counted.last.get(index)));
                self.failures = self.create.iter().flatten().map(next).collect();
            }
        } else {
            self.create = vec![None; n];
        }
    }

    fn expire(&mut self, job: &Job, now: Timestamp) {
        let Some(ttl) = job.spec.ttl_seconds_after_finished else { return };
        let ended =
            ["Complete", "Failed"].into_iter().find_map(|kind| find_condition(&job.status.conditions, kind));
        let Some(ended) = ended.and_then(|condition| condition.last_transition_time) else { return };
        match ended.checked_add(SignedDuration::from_secs(i64::from(ttl))) {
            Ok(at) if at <= now => self.expired = true,
            at => self.look_at(at.ok()),
        }
    }

    fn look_at(&mut self, at: Option<Timestamp>) {
        self.look_again = self.look_again.into_iter().chain(at).min();
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    let mut condition = Condition::new(kind, status, reason, message, now);
    condition.last_probe_time = Some(now);
    condition
}

/// The reason if the policy fails the Job because of a pod.
fn fails_job(job: &Job, pods: &[Arc<Pod>]) -> Option<String> {
    let failed = pods.iter().filter(|pod| outcome(job, pod) == Outcome::Failed);
    failed.into_iter().find_map(|pod| match policy::failure(job, pod) {
        Failure::FailsJob(why) => Some(why),
        _ => None,
    })
}

/// The reason and message if the Job fails because of its indexes, with `backoffLimitPerIndex`.
fn fails_by_indexes(job: &Job, counted: &Tally) -> Option<(&'static str, &'static str)> {
    let n_failed = counted.failed.len();
    if job.spec.max_failed_indexes.is_some_and(|max| n_failed > max) {
        return Some((
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        ));
    }
    let all = job.spec.completions.unwrap_or(0);
    let over = n_failed.saturating_add(counted.completed.len()) >= all;
    (n_failed > 0 && over).then_some(("FailedIndexes", "Job has failed indexes"))
}

/// In-place container restarts count against the limit as well.
fn has_restarted_too_often(job: &Job, active: &[Arc<Pod>], limit: i32) -> bool {
    let policy = job.spec.template.pointer("/spec/restartPolicy").and_then(|policy| policy.as_str());
    if policy != Some("OnFailure") {
        return false;
    }
    let restarts = active.iter().map(|pod| pod.restarts()).fold(0, i64::saturating_add);
    restarts > 0 && restarts >= i64::from(limit)
}

fn rank_of(pod: &Pod) -> Rank<'_> {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    rank(pod.is_ready(), &pod.status.phase, &spec.node_name, metadata.creation_timestamp, &metadata.name)
}

fn number(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
