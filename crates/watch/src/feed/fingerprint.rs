//! Fingerprints: whether an object is still what it was, without keeping the object.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use berth_api::admission::AFFINITY_ANNOTATION;
use berth_api::object::{Node, Pod};
use serde::Serialize;

/// Makes fingerprints that are comparable with each other, and with no other process's: the hash is keyed, since
/// users write what is hashed.
#[derive(Clone, Debug, Default)]
pub(super) struct Fingerprints(RandomState);

/// 64 bits of what matters of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64);

struct HashWriter<H>(H);

impl<H: Hasher> io::Write for HashWriter<H> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Fingerprints {
    /// Of anything that serializes.
    pub(super) fn of(&self, value: &impl Serialize) -> Fingerprint {
        let mut writer = HashWriter(self.0.build_hasher());
        // The writer takes everything, and the API's types have text for keys: what remains cannot fail, and if it
        // did, the fingerprint would only be coarser.
        let _ = serde_json::to_writer(&mut writer, value);
        Fingerprint(writer.0.finish())
    }

    /// Of what the engine sees of a node: not its heartbeats.
    pub(super) fn of_node(&self, node: &Node) -> Fingerprint {
        self.of(&(&node.metadata.uid, &node.metadata.labels, &node.spec, &node.status))
    }

    /// Of what placement sees of a pod, but for where it is.
    pub(super) fn of_pod(&self, pod: &Pod) -> Fingerprint {
        let mut writer = HashWriter(self.0.build_hasher());
        let metadata = &pod.metadata;
        let spec = &pod.spec;
        let _ = serde_json::to_writer(
            &mut writer,
            &(
                (&metadata.labels, metadata.annotations.get(AFFINITY_ANNOTATION), metadata.controller()),
                (metadata.deletion_timestamp.is_some(), pod.is_terminal(), &spec.scheduler_name),
                (&spec.node_selector, &spec.affinity, &spec.tolerations, &spec.topology_spread_constraints),
                (&spec.scheduling_gates, spec.priority, &spec.preemption_policy),
                (&spec.init_containers, &spec.containers, &spec.overhead, &spec.resources),
            ),
        );
        let _ = serde_json::to_writer(&mut writer, &(&pod.status.start_time, pod.is_being_preempted()));
        Fingerprint(writer.0.finish())
    }
}

impl Fingerprint {
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}
