//! The history of pods, recorded by a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use berth_api::object::Pod;
use berth_faults::observe;

/// The recorded history of a pod.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pub name: String,
    pub node: String,
    /// Whether its deletion was requested.
    pub ends: bool,
    /// Reasons and states of `DisruptionTarget`, in order.
    pub disruption: Vec<String>,
}

/// All pods that have existed, by uid.
#[derive(Clone, Default)]
pub struct Journal {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
}

impl Journal {
    /// Watches from the start, before any pod exists.
    pub async fn start(client: kube::Client) -> Journal {
        let journal = Journal::default();
        let kept = journal.clone();
        observe::follow_pods(client, move |pod, is_gone| kept.note(pod, is_gone)).await;
        journal
    }

    fn note(&self, pod: &Pod, is_gone: bool) {
        let mut entries = self.entries.lock().unwrap();
        let entry = entries.entry(pod.metadata.uid.clone()).or_default();
        entry.name.clone_from(&pod.metadata.name);
        if !pod.spec.node_name.is_empty() {
            entry.node.clone_from(&pod.spec.node_name);
        }
        entry.ends |= is_gone || pod.metadata.deletion_timestamp.is_some();
        let target = pod.status.conditions.iter().find(|c| c.condition_type == "DisruptionTarget");
        if let Some(condition) = target {
            let said = format!("{}: {}", condition.reason, condition.message);
            if entry.disruption.last() != Some(&said) {
                entry.disruption.push(said);
            }
        }
    }

    /// Pods that are terminating or deleted.
    pub fn ended(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().values().filter(|e| e.ends).cloned().collect()
    }

    /// How many pods with this name or name prefix are terminating or deleted.
    pub fn n_ended(&self, prefix: &str) -> usize {
        self.ended().iter().filter(|e| e.name.starts_with(prefix)).count()
    }
}
