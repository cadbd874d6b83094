//! The history of pods, recorded by a watch: the node of each, and the order of the bindings.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use berth_api::object::Pod;
use berth_client::{Event, WatchOptions};

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
        let mut pods = berth_client::watch::<Pod>(client, WatchOptions::new("/api/v1/pods"));
        let Some(Event::Restarted(none)) = pods.next().await else { panic!("a watch starts with a list") };
        assert!(none.is_empty(), "the journal starts before there are pods");
        let kept = journal.clone();
        tokio::spawn(async move {
            while let Some(event) = pods.next().await {
                match event {
                    Event::Applied(pod) | Event::Deleted(pod) => kept.note(&pod),
                    Event::Restarted(pods) => pods.iter().for_each(|pod| kept.note(pod)),
                }
            }
        });
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
