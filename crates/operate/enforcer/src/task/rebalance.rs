//! Rebalancing: plans, and their steps one at a time.

use std::time::Duration;

use berth_api::object::placement::MOVE_CONDITION;
use berth_api::object::{NamespacedName, find_condition};
use berth_client::call::CallError;
use berth_rebalance::{Move, Request};
use jiff::Timestamp;
use tokio::time::Instant;

use super::enforcer::Enforcer;
use super::rebalancer::{MARKED_FOR, Phase};
use crate::completion::{Completion, Mark, Sent};
use crate::evict::{Eviction, EvictionOutcome};
use crate::evictions::Evictions;
use crate::limiter::Candidate;
use crate::limits::Limits;
use crate::rebalance::{Answer, Question, Replacement, Step, StepResult, is_ready};
use crate::time::Time;

/// What terms of the ledger begin with that belong to steps.
pub(crate) const TERM: &str = "rebalance/";
/// Until it is looked again whether the pods of a step that an earlier leader made are ready.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// With more pods, plans are made on another thread.
const PLANNED_AT_ONCE: usize = 2_000;
/// The moves whose controllers are looked up before a step: not each pod without one costs a plan.
const CHECKED_AT_ONCE: usize = 100;

fn eviction(step: &Step) -> Eviction {
    let Move { from, to, goal, .. } = &step.made;
    Eviction {
        namespace: step.pod.namespace().to_owned(),
        name: step.pod.name().to_owned(),
        uid: step.uid.clone(),
        message: format!("It moves from {from} to {} for the goal {goal}", step.targets.join(" or ")),
        moves_to: Some(to.clone()).filter(|_| step.follows),
        is_move: true,
    }
}

/// A step that is counted is not made.
fn cancel(limits: &mut Limits, evictions: &mut Evictions, step: &Step) {
    limits.cancel(&step.uid);
    evictions.unmark(eviction(step));
}

impl Enforcer {
    /// Makes the next step of the plan, or the next plan.
    pub(super) fn rebalance(&mut self, now: Instant) {
        if !self.may_evict() {
            return;
        }
        let Some(rebalancer) = &self.rebalancer else { return };
        match &rebalancer.phase {
            Phase::Idle if rebalancer.at <= now => self.look(now),
            Phase::Allowed(_) => self.mark_step(now),
            Phase::Marked(..) => self.check_marked(now),
            Phase::Sent(..) => self.observe_step(now),
            _ => {}
        }
        let Some(rebalancer) = &self.rebalancer else { return };
        self.reporter.current.n_moves_left = rebalancer.progress.n_left();
        self.metrics.rebalancing(&rebalancer.progress);
        if let Some(writer) = &rebalancer.writer {
            writer.set(&rebalancer.progress);
        }
    }

    /// Asks what is to be done.
    fn look(&mut self, now: Instant) {
        // Rules that are violated come first: their evictions change what a plan is made of.
        let waits = match self.evictions.len() + self.limits.n_reserved() {
            0 => self.unsettled().or_else(|| self.uncounted(now)),
            n => Some(format!("waits until {n} evicted pods are gone")),
        };
        let Some(rebalancer) = &mut self.rebalancer else { return };
        if let Some(waits) = waits {
            rebalancer.progress.doing(waits);
            rebalancer.at = now + LOOK_AGAIN;
            return;
        }
        // The check right before the eviction is the only one that a step of the plan needs, unless nodes have changed: it may wait long.
        let asks = std::mem::take(&mut rebalancer.has_other_nodes) || self.options.dry_run;
        let made = rebalancer.rest.first().filter(|_| !asks);
        let schedulers = &rebalancer.options.following_schedulers;
        match made.and_then(|made| Step::new(&rebalancer.objects, made, vec![made.to.clone()], schedulers)) {
            Some(step) => {
                rebalancer.phase = Phase::Allowed(Box::new(step));
                self.timer.set(now);
            }
            None => self.ask(None, now),
        }
    }

    /// Asks what is to be done, before the eviction of a step that is counted already, if there is one.
    fn ask(&mut self, counted: Option<Box<Step>>, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let request = Request { now: Timestamp::now(), ..rebalancer.options.request.clone() };
        let mut exceptions = rebalancer.exceptions.clone();
        let (late, objects) = (&mut rebalancer.late, &rebalancer.objects);
        late.retain(|step| step.replacement(objects) == Replacement::Awaited);
        exceptions.stay(objects, |pod| {
            let owner = pod.metadata.controller().map_or("", |owner| owner.uid.as_str());
            if let Some(why) = rebalancer.absent.get(owner) {
                return Some(why.clone());
            }
            let late = late.iter().find(|step| step.owner() == owner);
            if let Some(step) = late {
                return Some(format!("the replacement of {} is not ready", step.pod));
            }
            let is_exempt = self.violations.is_exempt(&pod.metadata.namespace);
            if is_exempt {
                return Some("its namespace is exempt from enforcement".to_owned());
            }
            // A plan would move it so that budgets allow the moves of others, and a replacement that is not ready ends a plan.
            let is_unready = !pod.spec.node_name.is_empty() && !is_ready(pod);
            is_unready.then(|| "it is not ready".to_owned())
        });
        let question = Question {
            objects: rebalancer.objects.clone(),
            cluster: self.cluster.clone(),
            request,
            rest: rebalancer.rest.clone(),
            exceptions,
            following_schedulers: rebalancer.options.following_schedulers.clone(),
        };
        rebalancer.phase = Phase::Asked(counted);
        if rebalancer.objects.n_pods() <= PLANNED_AT_ONCE {
            self.answered(question.answer(), now);
        } else {
            let completed = rebalancer.completed.clone();
            // The receiver is gone when the enforcer has ended.
            tokio::task::spawn_blocking(move || {
                _ = completed.send(Completion::Planned(Box::new(question.answer())))
            });
        }
    }

    /// What a step of an earlier leader waits for: the pods of the workload that was moved last are not all ready.
    fn unsettled(&self) -> Option<String> {
        let rebalancer = self.rebalancer.as_ref().filter(|rebalancer| !rebalancer.has_observed)?;
        let (workload, at) = self.limits.limiter.last_of(TERM)?;
        let timeout = rebalancer.options.step_timeout;
        let is_over = at.checked_add(timeout).is_ok_and(|end| end < Timestamp::now());
        let is_unsettled = !is_over && !rebalancer.objects.have_settled(workload, at);
        is_unsettled.then(|| format!("waits until the pods of {workload} are ready"))
    }

    /// What a plan and its next step wait for: a budget that has not counted the pods as they are now would end the plan, or hold its pods.
    fn uncounted(&self, now: Instant) -> Option<String> {
        let rebalancer = self.rebalancer.as_ref()?;
        if now >= rebalancer.moved_at + rebalancer.options.step_timeout {
            return None;
        }
        let budget = rebalancer.objects.uncounted_budget()?;
        Some(format!("waits until PodDisruptionBudget {budget} counts the pods as they are now"))
    }

    pub(super) fn answered(&mut self, answer: Answer, now: Instant) {
        let Some(rebalancer) = self.rebalancer.as_mut().filter(|r| matches!(r.phase, Phase::Asked(_))) else {
            return;
        };
        let Phase::Asked(counted) = std::mem::replace(&mut rebalancer.phase, Phase::Idle) else { return };
        let Answer { plan, step, held } = answer;
        if let Some(plan) = plan {
            self.reporter.current.n_plans += 1;
            let goals = &rebalancer.options.request.goals;
            rebalancer.progress.planned(goals, &plan, held, Timestamp::now());
            rebalancer.rest = plan.moves;
            rebalancer.exceptions.settled.clear();
            if self.options.dry_run {
                for Move { namespace, name, from, to, goal, .. } in &rebalancer.rest {
                    tracing::info!(pod = format!("{namespace}/{name}"), from, to, %goal, "would be moved");
                }
            }
        }
        let Some(next) = step.filter(|_| !self.options.dry_run) else {
            counted.iter().for_each(|step| cancel(&mut self.limits, &mut self.evictions, step));
            rebalancer.plan_later(now);
            return;
        };
        rebalancer.progress.checked(&next);
        let schedulers = &rebalancer.options.following_schedulers;
        let step = rebalancer
            .rest
            .first()
            .and_then(|made| Step::new(&rebalancer.objects, made, next.targets, schedulers));
        if let Some(counted) = counted {
            let is_alone = self.evictions.len() == 0;
            match step.as_ref().filter(|step| step.is_same(&counted)) {
                Some(step) if is_alone => return self.send_step(Box::new(step.clone()), now),
                _ => cancel(&mut self.limits, &mut self.evictions, &counted),
            }
            if !is_alone {
                rebalancer.at = now + LOOK_AGAIN;
                return;
            }
        }
        match step {
            Some(step) => rebalancer.phase = Phase::Allowed(Box::new(step)),
            // It has changed while the question was answered.
            None => rebalancer.at = now + LOOK_AGAIN,
        }
        self.timer.set(now);
    }

    /// Marks the pod of a step, when its eviction is counted. All changes of pods before the mark come before it in the watch.
    fn mark_step(&mut self, now: Instant) {
        let time = Time::at(now);
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Phase::Allowed(step) = &rebalancer.phase else { return };
        let facts = self.pods.get(step.pod.namespace(), step.pod.name());
        let Some(facts) = facts.filter(|_| step.is_possible(&rebalancer.objects)) else {
            // What is counted of it is cancelled by the next selection.
            rebalancer.phase = Phase::Idle;
            self.timer.set(now);
            return;
        };
        if step.is_being_placed(&rebalancer.objects, time.timestamp) {
            rebalancer
                .progress
                .doing(format!("{} waits until other pods of its workload are placed", step.pod));
            (rebalancer.phase, rebalancer.at) = (Phase::Idle, now + LOOK_AGAIN);
            self.timer.set(now);
            return;
        }
        let term = format!("{TERM}{}", step.made.goal);
        let candidate = Candidate {
            uid: &step.uid,
            node: &step.made.from,
            namespace: step.pod.namespace(),
            workload: &facts.workload.name,
            term: &term,
            seen_at: facts.seen_at,
            n_workload_pods: self.pods.n_of(&facts.workload),
        };
        let held = match self.evictions.waits(&step.uid, now) {
            Some((_, why, until)) => Some((why.to_owned(), until)),
            None => match self.limits.reserve(&candidate, time.timestamp) {
                Ok(()) => None,
                Err(throttled) => Some((throttled.to_string(), time.instant_of(throttled.until))),
            },
        };
        if let Some((why, until)) = held {
            rebalancer.progress.doing(format!("{} waits: {why}", step.pod));
            // By then the plan may not be right any more.
            (rebalancer.phase, rebalancer.at) = (Phase::Idle, until.min(now + rebalancer.options.interval));
            return;
        }
        if !self.limits.is_stored(&step.uid) {
            self.limits.sync(now);
            return;
        }
        let step = step.clone();
        let next = rebalancer.rest.iter().take(CHECKED_AT_ONCE);
        let pods =
            next.filter_map(|made| rebalancer.objects.pod(&NamespacedName::new(&made.namespace, &made.name)));
        let controllers =
            pods.filter_map(|pod| Some((pod.metadata.namespace.clone(), pod.metadata.controller()?.clone())));
        self.evictions.mark(eviction(&step), controllers.collect());
        rebalancer.phase = Phase::Marking(step);
    }

    /// A pod was marked, or not.
    pub(super) fn step_marked(&mut self, uid: &str, marked: Result<Mark, CallError>, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Phase::Marking(step) = &rebalancer.phase else { return };
        if step.uid != uid {
            return;
        }
        let step = step.clone();
        rebalancer.phase = match marked {
            Ok(Mark::Written(mark)) => Phase::Marked(step, mark, now),
            Ok(Mark::Absent(controllers)) => {
                self.limits.cancel(uid);
                rebalancer.absent.extend(controllers);
                rebalancer.rest.clear();
                rebalancer.at = now;
                self.timer.set(now);
                Phase::Idle
            }
            Err(error) => {
                tracing::debug!(pod = %step.pod, "a pod to be moved is not marked: {error}");
                self.limits.cancel(uid);
                self.evictions.retry(uid, &error, false);
                Phase::Allowed(step)
            }
        };
    }

    /// Checks a step again, when the watch of pods has its mark.
    fn check_marked(&mut self, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Phase::Marked(step, mark, since) = &rebalancer.phase else { return };
        let pod = rebalancer.objects.pod(&step.pod).filter(|pod| pod.metadata.uid == step.uid);
        let condition = pod.and_then(|pod| find_condition(&pod.status.conditions, MOVE_CONDITION));
        let step = step.clone();
        if condition.is_some_and(|condition| condition.message == *mark) {
            self.ask(Some(step), now);
        } else if pod.is_none() || now >= *since + MARKED_FOR {
            cancel(&mut self.limits, &mut self.evictions, &step);
            (rebalancer.phase, rebalancer.at) = (Phase::Idle, now + LOOK_AGAIN);
        }
    }

    /// Evicts the pod of a step.
    fn send_step(&mut self, step: Box<Step>, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Some(facts) = self.pods.get(step.pod.namespace(), step.pod.name()) else {
            self.limits.cancel(&step.uid);
            return;
        };
        let from = &step.made.from;
        let sent = Sent { eviction: eviction(&step), node: from.clone(), workload: facts.workload.clone() };
        rebalancer.progress.doing(format!("moves {} from {from} to {}", step.pod, step.targets.join(" or ")));
        self.evictions.add_without_rule(&step.uid);
        self.evictions.send(vec![sent], false);
        rebalancer.phase = Phase::Sent(step, now);
    }

    pub(super) fn step_sent(&mut self, uid: &str, outcome: &EvictionOutcome, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Phase::Sent(step, _) = &rebalancer.phase else { return };
        let is_evicted = matches!(outcome, EvictionOutcome::Evicted | EvictionOutcome::Unknown(_));
        if step.uid != uid || is_evicted {
            return;
        }
        let step = Step::clone(step);
        match outcome {
            // Another process leads, or a budget allows it later: the plan goes on.
            EvictionOutcome::NotSent | EvictionOutcome::Refused(_) | EvictionOutcome::Failed { .. } => {
                rebalancer.phase = Phase::Allowed(Box::new(step));
            }
            _ => {
                rebalancer.ended(step, StepResult::NotEvicted, None, now);
                self.metrics.moved(StepResult::NotEvicted);
            }
        }
    }

    /// Looks at what has become of a step.
    fn observe_step(&mut self, now: Instant) {
        let Some(rebalancer) = &mut self.rebalancer else { return };
        let Phase::Sent(step, since) = &rebalancer.phase else { return };
        let (result, replacement) = match step.replacement(&rebalancer.objects) {
            Replacement::Awaited if now < *since + rebalancer.options.step_timeout => return,
            Replacement::Awaited => (StepResult::TimedOut, None),
            Replacement::Ready { name, node } => (StepResult::Moved, Some((name, node))),
            Replacement::Elsewhere { name, node } => (StepResult::Elsewhere, Some((name, node))),
        };
        let step = Step::clone(step);
        if let (StepResult::Moved, Some((name, _))) = (result, &replacement) {
            rebalancer.rest.remove(0);
            let again = rebalancer.rest.iter_mut();
            for made in again
                .filter(|made| (&*made.namespace, &*made.name) == (step.pod.namespace(), step.pod.name()))
            {
                name.name().clone_into(&mut made.name);
            }
            rebalancer.exceptions.settled.insert(name.clone());
        }
        tracing::info!(pod = %step.pod, from = step.made.from, to = step.made.to, result = result.name(), "a move ended");
        if let (StepResult::Elsewhere, Some((name, node))) = (result, &replacement) {
            let pod = rebalancer.objects.pod(name);
            let uid = pod.map_or("", |pod| &pod.metadata.uid);
            self.events.moved_elsewhere(name, uid, &step.made, node);
        }
        if result == StepResult::TimedOut {
            rebalancer.late.push(step.clone());
        }
        self.metrics.moved(result);
        self.reporter.current.n_moved += u64::from(result == StepResult::Moved);
        rebalancer.ended(step, result, replacement.map(|(name, _)| name.name().to_owned()), now);
    }
}
