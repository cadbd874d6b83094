//! Records the decisions of another scheduler, such as kube-scheduler, as a client of the API server sees them.
//!
//! A pod that gets a node was decided, and so was one whose condition `PodScheduled` has the reason `Unschedulable`. The state
//! is that which the watches had reported until then; the other scheduler may have known of earlier or later changes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::object::{NamespacedName, Pod, find_condition};
use berth_api::resource::PODS;
use berth_client::connect::Connection;
use berth_client::{Event, WatchOptions};
use berth_engine::{Cluster, Journal, Settings};
use berth_input::journal::{Entry, Header, OTHER_SCHEDULER, RecordedDecision, RecordedSettings};
use berth_mirror::{Change, Mirror, MirrorOptions, Source};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::options::{SchedulerError, SchedulerOptions};
use crate::recorder::{RecordOptions, Recorder};
use crate::state::is_pending;

/// The pods to be scheduled, and why they were not, as far as that is recorded.
type Queue = Arc<Mutex<HashMap<NamespacedName, String>>>;

/// Records until `stop`. The profiles of `settings` name the schedulers whose pods are recorded.
///
/// # Errors
/// The connection is not valid, or the directory cannot be written. A server that does not answer is no error.
pub async fn observe(
    connection: impl Into<Connection>,
    settings: Settings,
    record: &RecordOptions,
    stop: CancellationToken,
) -> Result<(), SchedulerError> {
    let client = berth_client::connect::client(connection.into())?;
    let header = Header {
        scheduler: OTHER_SCHEDULER.to_owned(),
        identity: SchedulerOptions::default().identity,
        settings: RecordedSettings::from(&settings),
        ..Header::default()
    };
    let recorder = Recorder::start(record, header)?;
    let config = settings.config.clone();
    let mut cluster = Cluster::new(Settings { all_node_attributes: false, ..settings });
    let queue = Queue::default();
    cluster.set_journal(journal(&recorder, queue.clone()));
    let (mut mirror, mut events) = Mirror::start(client.clone(), MirrorOptions::new(Source::ALL));
    // The mirror does not report conditions.
    let mut unscheduled =
        berth_client::watch::<Pod>(client, WatchOptions::new(PODS.path("")).fields("spec.nodeName="));
    // Pods that this watch reported before the mirror did.
    let mut unknown: HashMap<NamespacedName, Pod> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            Some(event) = events.recv() => {
                for change in mirror.apply(&mut cluster, event, |_| false) {
                    if let Change::Failed(failure) = change {
                        return Err(SchedulerError::Broken(failure.into()));
                    }
                    observed(change, &recorder, &queue, |pod| is_pending(&config, pod));
                }
                mirror.check_if_due(Instant::now());
            }
            Some(event) = unscheduled.next() => match event {
                Event::Applied(pod) => _ = unknown.insert(pod.metadata.namespaced_name(), pod),
                Event::Restarted(pods) => {
                    unknown = pods.into_iter().map(|pod| (pod.metadata.namespaced_name(), pod)).collect();
                }
                Event::Deleted(pod) => _ = unknown.remove(&pod.metadata.namespaced_name()),
            }
        }
        unknown.retain(|_, pod| is_pending(&config, pod) && !is_recorded(pod, &recorder, &queue));
    }
}

/// Records the updates of the cluster. The binding of a pod in the queue is a decision in the state before.
fn journal(recorder: &Recorder, queue: Queue) -> Journal {
    let mut record = recorder.journal();
    Box::new(move |entry| {
        let bound = match &entry {
            Entry::Pod(pod) => {
                let name = pod.metadata.namespaced_name();
                let was_queued = queue.lock().unwrap_or_else(PoisonError::into_inner).remove(&name).is_some();
                was_queued.then(|| (name, pod.spec.node_name.clone()))
            }
            _ => None,
        };
        let Some((pod, node)) = bound else { return record(entry) };
        let decision = RecordedDecision { pod: pod.clone(), node: Some(node), ..RecordedDecision::default() };
        [Entry::Decision(Box::new(decision)), entry, Entry::Dequeue(pod)].into_iter().for_each(&mut record);
    })
}

fn observed(change: Change, recorder: &Recorder, queue: &Queue, is_pending: impl Fn(&Pod) -> bool) {
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    match change {
        Change::PodApplied { pod, .. } if is_pending(&pod) => {
            queue.entry(pod.metadata.namespaced_name()).or_default();
            recorder.record(|| Entry::Queue(pod));
        }
        Change::PodApplied { pod, .. } => dequeue(&mut queue, pod.metadata.namespaced_name(), recorder),
        Change::PodDeleted { pod, .. } => dequeue(&mut queue, pod, recorder),
        Change::BudgetApplied(budget) => recorder.record(|| Entry::Budget(budget)),
        Change::BudgetDeleted(name) => recorder.record(|| Entry::RemoveBudget(name)),
        Change::Complete => recorder.record(|| Entry::Complete {}),
        _ => {}
    }
}

fn dequeue(queue: &mut HashMap<NamespacedName, String>, pod: NamespacedName, recorder: &Recorder) {
    if queue.remove(&pod).is_some() {
        recorder.record(|| Entry::Dequeue(pod));
    }
}

/// The message of a decision without what PostFilter adds: that is another question. kube-scheduler's plugin DynamicResources adds a
/// text also for pods without claims.
fn without_post_filter(message: &str) -> &str {
    let message = message.split(" preemption: ").next().unwrap_or_default();
    let of_claims = [" no new claims to deallocate,", " still not schedulable,"];
    of_claims.iter().find_map(|text| message.strip_suffix(text)).unwrap_or(message)
}

/// Records why a pod in the queue was not scheduled, if that is new. False if the pod is not in the queue.
fn is_recorded(pod: &Pod, recorder: &Recorder, queue: &Queue) -> bool {
    let condition = find_condition(&pod.status.conditions, "PodScheduled");
    let Some(condition) = condition.filter(|c| c.status == "False" && c.reason == "Unschedulable") else {
        return true;
    };
    let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let pod = pod.metadata.namespaced_name();
    let Some(recorded) = queue.get_mut(&pod) else { return false };
    if *recorded != condition.message {
        recorded.clone_from(&condition.message);
        let message = without_post_filter(&condition.message).to_owned();
        let decision = RecordedDecision { pod, message, ..RecordedDecision::default() };
        recorder.record(|| Entry::Decision(Box::new(decision)));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_post_filter_adds_to_a_message_is_not_recorded() {
        let decision = "0/2 nodes are available: 2 Insufficient cpu.";
        let preemption = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        for text in ["", "no new claims to deallocate, ", "still not schedulable, "] {
            assert_eq!(without_post_filter(&format!("{decision} {text}{preemption}")), decision);
        }
        assert_eq!(without_post_filter(decision), decision);
    }
}
