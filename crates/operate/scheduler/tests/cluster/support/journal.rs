//! The history of pods, recorded by a watch: the node of each, and the order of the bindings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use berth_api::object::Pod;
use berth_faults::observe;

/// The nodes of each pod, by uid.
#[derive(Clone, Default)]
pub struct Journal {
    entries: Arc<Mutex<BTreeMap<String, Entry>>>,
}

#[derive(Default)]
struct Entry {
    name: String,
    nodes: Vec<String>,
}

impl Journal {
    /// Watches from the start, before any pod exists.
    pub async fn start(client: kube::Client) -> Journal {
        let journal = Journal::default();
        let kept = journal.clone();
        observe::follow_pods(client, move |pod, _| kept.note(pod)).await;
        journal
    }

    fn note(&self, pod: &Pod) {
        let mut entries = self.entries.lock().unwrap();
        let entry = entries.entry(pod.metadata.uid.clone()).or_default();
        entry.name.clone_from(&pod.metadata.name);
        let node = &pod.spec.node_name;
        if !node.is_empty() && entry.nodes.last() != Some(node) {
            entry.nodes.push(node.clone());
        }
    }

    /// Checks that no pod was on two nodes.
    pub fn nothing_was_bound_twice(&self) {
        for entry in self.entries.lock().unwrap().values() {
            assert!(entry.nodes.len() <= 1, "{} was bound to {:?}", entry.name, entry.nodes);
        }
    }
}
