//! What is new of a pod that is told again.
//!
//! Most of what a server tells of a pod changes nothing that placement sees: its status, a heartbeat of a condition. The
//! most frequent change that it does see is that the pod is bound, and that is one name. A [`PodReader`] tells these
//! apart by a digest of a pod's text, and takes a pod apart only if something else of it has changed.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use berth_api::object::Pod;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer};

use super::digest::read_outline;
use berth_client::watch::{KubeObject, Line, read_object};

/// A pod that is told.
#[derive(Clone, Debug, PartialEq)]
pub enum PodNews {
    /// As it is now: new, or changed in some way that placement may see.
    Pod(Box<Pod>),
    /// It has a node now, and is otherwise as it was told last.
    Bound(PodName),
    /// As it was told last, as far as placement sees. Of a pod that has gone nothing else is told.
    Same(PodName),
}

/// Which pod it is, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.nodeName`; empty while it waits.
    pub node: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl PodName {
    /// The names of a pod.
    pub fn of(pod: &Pod) -> PodName {
        let metadata = &pod.metadata;
        PodName {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            node: pod.spec.node_name.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}

impl KubeObject for PodNews {
    fn resource_version(&self) -> &str {
        match self {
            PodNews::Pod(pod) => &pod.metadata.resource_version,
            PodNews::Bound(name) | PodNews::Same(name) => &name.resource_version,
        }
    }

    fn key(&self) -> (&str, &str) {
        match self {
            PodNews::Pod(pod) => (&pod.metadata.namespace, &pod.metadata.name),
            PodNews::Bound(name) | PodNews::Same(name) => (&name.namespace, &name.name),
        }
    }
}

/// Pods of a list are all news.
impl<'de> Deserialize<'de> for PodNews {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::deserialize(deserializer).map(PodNews::Pod)
    }
}

/// Reads the pods of one following, and remembers what was told of each, in 24 bytes a pod.
pub struct PodReader {
    key: RandomState,
    knows: Box<dyn Fn(&Pod) -> bool + Send + Sync>,
    told: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// By the hash of the uid. Hashes and digests are keyed, since users write what is hashed. Two pods with one hash do
    /// no harm: their digests differ, as the uid is part of them, too.
    digests: FxHashMap<u64, Digest>,
    /// Kept for its memory.
    text: Vec<u8>,
}

/// What a pod was told as.
struct Digest {
    /// Of what placement sees, but for the node.
    value: u64,
    is_bound: bool,
    /// Whether it is enough to hear that it is bound.
    is_known: bool,
}

impl PodReader {
    /// A reader that has told nothing yet. Pods for which `knows` says no are told as a whole when they are bound: for
    /// those that whoever is told does not keep.
    pub fn new(knows: impl Fn(&Pod) -> bool + Send + Sync + 'static) -> PodReader {
        PodReader { key: RandomState::new(), knows: Box::new(knows), told: Mutex::default() }
    }

    /// Reads a line of the watch. A pod is told as [`PodNews::Bound`] or [`PodNews::Same`] only if it was told as a
    /// whole before, by this reader.
    ///
    /// # Errors
    /// The object is not a pod.
    pub fn read(&self, line: &[u8], kind: Line) -> Result<PodNews, serde_json::Error> {
        let mut memory = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Memory { digests, text } = &mut *memory;
        text.clear();
        let name = read_outline(line, text)?;
        let uid = self.key.hash_one(&name.uid);
        if kind == Line::Deleted {
            digests.remove(&uid);
            return Ok(PodNews::Same(name));
        }
        let value = self.key.hash_one((&name.uid, &text[..]));
        let is_bound = !name.node.is_empty();
        if kind == Line::Changed
            && let Some(before) = digests.get_mut(&uid).filter(|before| before.value == value)
        {
            match (before.is_bound, is_bound) {
                (false, false) | (true, true) => return Ok(PodNews::Same(name)),
                (false, true) if before.is_known => {
                    before.is_bound = true;
                    return Ok(PodNews::Bound(name));
                }
                _ => {}
            }
        }
        let pod: Box<Pod> = read_object(line)?;
        digests.insert(uid, Digest { value, is_bound, is_known: (self.knows)(&pod) });
        Ok(PodNews::Pod(pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        json!({
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"x": "1"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": 3},
            "status": {"phase": "Pending"},
        })
    }

    fn read(reader: &PodReader, kind: Line, object: &Value) -> PodNews {
        reader.read(json!({"type": "MODIFIED", "object": object}).to_string().as_bytes(), kind).unwrap()
    }

    fn name(node: &str, version: &str) -> PodName {
        PodName {
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
            node: node.into(),
            resource_version: version.into(),
        }
    }

    #[test]
    fn a_binding_is_one_name() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        let PodNews::Pod(told) = read(&reader, Line::Changed, &object) else { panic!("the first time") };
        assert_eq!((told.metadata.labels["x"].as_str(), told.spec.priority), ("1", Some(3)));
        object["metadata"]["resourceVersion"] = json!("2");
        object["metadata"]["managedFields"] = json!([{"manager": "m"}]);
        object["spec"]["nodeName"] = json!("node-1");
        object["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        assert_eq!(read(&reader, Line::Changed, &object), PodNews::Bound(name("node-1", "2")));
        object["status"]["containerStatuses"] = json!([{"name": "c", "ready": true}]);
        assert_eq!(read(&reader, Line::Changed, &object), PodNews::Same(name("node-1", "2")));
    }

    #[test]
    fn whatever_placement_sees_is_told() {
        for (path, value) in [
            ("/metadata/labels", json!({"x": "2"})),
            ("/metadata/labels", json!({"x": "1", "y": ""})),
            ("/metadata/labels", Value::Null),
            ("/metadata/annotations", json!({"scheduling.berth.dev/affinity": "{}"})),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/metadata/ownerReferences", json!([{"kind": "Job", "controller": true}])),
            ("/spec/priority", json!(4)),
            ("/spec/containers/0/resources/requests/cpu", json!("2")),
            ("/spec/schedulingGates", json!([{"name": "g"}])),
            ("/status/phase", json!("Succeeded")),
            ("/status/startTime", json!("2026-01-01T00:00:00Z")),
            ("/status/nominatedNodeName", json!("n")),
            ("/status/conditions", json!([{"type": "DisruptionTarget", "status": "True"}])),
        ] {
            let (reader, mut object) = (PodReader::new(|_| true), pod());
            read(&reader, Line::Changed, &object);
            let (parent, field) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value;
            let told = read(&reader, Line::Changed, &object);
            let expected: Pod = serde_json::from_value(object).unwrap();
            assert_eq!(told, PodNews::Pod(Box::new(expected)), "{path}");
        }
    }

    #[test]
    fn lists_and_pods_of_the_same_name_are_told_as_a_whole() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        let is_whole = |news: PodNews| matches!(news, PodNews::Pod(_));
        assert!(is_whole(read(&reader, Line::Initial, &object)));
        assert!(is_whole(read(&reader, Line::Initial, &object)));
        assert!(!is_whole(read(&reader, Line::Changed, &object)));
        assert_eq!(read(&reader, Line::Deleted, &object), PodNews::Same(name("", "1")));
        assert!(is_whole(read(&reader, Line::Changed, &object)), "it was gone");
        object["metadata"]["uid"] = json!("v");
        assert!(is_whole(read(&reader, Line::Changed, &object)));
    }

    #[test]
    fn pods_that_nobody_keeps_are_bound_as_a_whole() {
        let (reader, mut object) = (PodReader::new(|pod| pod.spec.priority.is_none()), pod());
        read(&reader, Line::Changed, &object);
        object["spec"]["nodeName"] = json!("node-1");
        assert!(matches!(read(&reader, Line::Changed, &object), PodNews::Pod(_)));
        assert!(matches!(read(&reader, Line::Changed, &object), PodNews::Same(_)));
    }

    #[test]
    fn a_pod_is_not_unbound_in_silence() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        object["spec"]["nodeName"] = json!("node-1");
        read(&reader, Line::Changed, &object);
        object["spec"]["nodeName"] = Value::Null;
        assert!(matches!(read(&reader, Line::Changed, &object), PodNews::Pod(_)));
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in ["{}", "{\"object\":5}", "{\"object\":{\"metadata\":[]}}", "{\"object\":{\"spec\":"] {
            assert!(PodReader::new(|_| true).read(line.as_bytes(), Line::Changed).is_err(), "{line}");
        }
    }
}
