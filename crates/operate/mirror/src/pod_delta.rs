//! The change of a pod since its last event.
//!
//! Most pod events change only fields irrelevant to placement, such as conditions. The most frequent relevant
//! change is the binding, which changes one name. A [`PodReader`] distinguishes these by a digest of the pod's text and
//! decodes a pod only if something else changed.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::object::Pod;
use berth_client::watch::{KubeObject, Line};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Deserializer};

use crate::pod_parser::PodParser;
use crate::pod_ref::PodRef;

/// The object of an event of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PodDelta {
    /// New, or a field relevant to placement may have changed.
    Pod(Arc<Pod>),
    /// It has a node now and maybe the labels that bindings add, and is otherwise unchanged.
    Bound(PodRef),
    /// No field relevant to placement changed; or deleted.
    Same(PodRef),
}

impl KubeObject for PodDelta {
    fn resource_version(&self) -> &str {
        match self {
            PodDelta::Pod(pod) => &pod.metadata.resource_version,
            PodDelta::Bound(pod) | PodDelta::Same(pod) => &pod.resource_version,
        }
    }

    fn key(&self) -> (&str, &str) {
        match self {
            PodDelta::Pod(pod) => (&pod.metadata.namespace, &pod.metadata.name),
            PodDelta::Bound(pod) | PodDelta::Same(pod) => (&pod.namespace, &pod.name),
        }
    }
}

/// Pods of a list are always decoded.
impl<'de> Deserialize<'de> for PodDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pod::deserialize(deserializer).map(|pod| PodDelta::Pod(Arc::new(pod)))
    }
}

/// Reads the events of one watch of pods, and remembers a digest of each pod, in 32 bytes a pod.
pub(crate) struct PodReader {
    key: RandomState,
    /// Whether a change of the condition `Ready` is reported.
    readiness: bool,
    keeps: Box<dyn Fn(&Pod) -> bool + Send + Sync>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// By the hash of the uid. Hashes and digests are keyed, since users write what is hashed. Two pods with one hash do
    /// no harm: the digest contains the uid.
    digests: FxHashMap<u64, Digest>,
    parser: PodParser,
}

/// What was last reported of a pod.
struct Digest {
    /// The digest of the fields relevant to placement, except for the node and the next field.
    value: u64,
    /// The digest of the labels that bindings add; 0 without any.
    added_labels: u64,
    is_bound: bool,
    /// Whether the receiver keeps the pod, so that a reference is enough to report its binding.
    is_kept: bool,
}

impl PodReader {
    /// A reader for a new watch. Pods that the receiver does not keep (see `keeps`) are reported whole when they
    /// are bound.
    pub(crate) fn new(keeps: impl Fn(&Pod) -> bool + Send + Sync + 'static) -> PodReader {
        PodReader {
            key: RandomState::new(),
            readiness: false,
            keeps: Box::new(keeps),
            memory: Mutex::default(),
        }
    }

    /// The same, which reports also changes of the condition `Ready`.
    pub(crate) fn with_readiness(self, readiness: bool) -> PodReader {
        PodReader { readiness, ..self }
    }

    /// A list starts: pods deleted before it must not be remembered.
    pub(crate) fn clear(&self) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).digests.clear();
    }

    /// Reads a line of the watch. A pod is read as [`PodDelta::Bound`] or [`PodDelta::Same`] only if this reader returned
    /// it whole before.
    pub(crate) fn read(&self, line: &[u8], kind: Line) -> Result<PodDelta, serde_json::Error> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Memory { digests, parser } = &mut *memory;
        let mut digested = parser.digest_line(line, self.readiness)?;
        let pod = mem::take(&mut digested.pod);
        let uid = self.key.hash_one(&pod.uid);
        if kind == Line::Deleted {
            digests.remove(&uid);
            return Ok(PodDelta::Same(pod));
        }
        let value = self.key.hash_one((&pod.uid, parser.digested_fields()));
        let is_bound = !pod.node.is_empty();
        let added_labels = match &pod.added_labels[..] {
            [] => 0,
            labels => self.key.hash_one(labels) | 1,
        };
        if kind == Line::Changed
            && let Some(before) = digests.get_mut(&uid).filter(|before| before.value == value)
        {
            let has_labels = before.added_labels == added_labels;
            match (before.is_bound, is_bound) {
                (false, false) | (true, true) if has_labels => return Ok(PodDelta::Same(pod)),
                (false, true) if before.is_kept && (has_labels || before.added_labels == 0) => {
                    (before.is_bound, before.added_labels) = (true, added_labels);
                    return Ok(PodDelta::Bound(pod));
                }
                _ => {}
            }
        }
        let pod = Arc::new(parser.read_digested(line, &digested, pod.node)?);
        digests.insert(uid, Digest { value, added_labels, is_bound, is_kept: (self.keeps)(&pod) });
        Ok(PodDelta::Pod(pod))
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::TOPOLOGY_LABELS;
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

    fn read(reader: &PodReader, kind: Line, object: &Value) -> PodDelta {
        reader.read(json!({"type": "MODIFIED", "object": object}).to_string().as_bytes(), kind).unwrap()
    }

    fn reference(node: &str, version: &str) -> PodRef {
        PodRef {
            namespace: "n".into(),
            name: "a".into(),
            uid: "u".into(),
            node: node.into(),
            resource_version: version.into(),
            added_labels: Vec::new(),
        }
    }

    #[test]
    fn readiness_is_reported_where_it_is_followed() {
        let mut object = pod();
        let ready = |status| json!([{"type": "Ready", "status": status}]);
        object["status"]["conditions"] = ready("False");
        for follows in [false, true] {
            let reader = PodReader::new(|_| true).with_readiness(follows);
            let read = |object: &Value, kind| {
                let line = json!({"type": "MODIFIED", "object": object}).to_string();
                matches!(reader.read(line.as_bytes(), kind), Ok(PodDelta::Pod(_)))
            };
            assert!(read(&object, Line::Initial), "new");
            let mut changed = object.clone();
            changed["status"]["conditions"] = ready("True");
            assert_eq!(read(&changed, Line::Changed), follows);
            changed["status"]["conditions"][0]["lastProbeTime"] = "2027-01-15T08:10:00Z".into();
            assert!(!read(&changed, Line::Changed), "the same");
        }
    }

    #[test]
    fn a_binding_is_read_as_a_reference() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        let PodDelta::Pod(pod) = read(&reader, Line::Changed, &object) else { panic!("not whole") };
        assert_eq!((pod.metadata.labels["x"].as_str(), pod.spec.priority), ("1", Some(3)));
        object["metadata"]["resourceVersion"] = json!("2");
        object["metadata"]["managedFields"] = json!([{"manager": "m"}]);
        object["spec"]["nodeName"] = json!("node-1");
        object["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        assert_eq!(read(&reader, Line::Changed, &object), PodDelta::Bound(reference("node-1", "2")));
        object["status"]["containerStatuses"] = json!([{"name": "c", "ready": true, "restartCount": 1}]);
        assert_eq!(read(&reader, Line::Changed, &object), PodDelta::Same(reference("node-1", "2")));
    }

    #[test]
    fn labels_that_a_binding_adds_are_part_of_the_reference() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        read(&reader, Line::Initial, &object);
        object["spec"]["nodeName"] = json!("node-1");
        let [region, zone] = TOPOLOGY_LABELS;
        object["metadata"]["labels"] = json!({zone: "z", "x": "1", region: "r"});
        let added_labels = vec![(region.to_owned(), "r".to_owned()), (zone.to_owned(), "z".to_owned())];
        let bound = PodRef { added_labels, ..reference("node-1", "1") };
        assert_eq!(read(&reader, Line::Changed, &object), PodDelta::Bound(bound.clone()));
        assert_eq!(read(&reader, Line::Changed, &object), PodDelta::Same(bound));
        object["metadata"]["labels"][zone] = json!("other");
        assert!(matches!(read(&reader, Line::Changed, &object), PodDelta::Pod(_)));
        // A reference cannot say that a label is no longer there.
        object["spec"]["nodeName"] = Value::Null;
        read(&reader, Line::Changed, &object);
        object["spec"]["nodeName"] = json!("node-1");
        object["metadata"]["labels"] = json!({"x": "1"});
        assert!(matches!(read(&reader, Line::Changed, &object), PodDelta::Pod(_)));
    }

    /// Changes that placement or the enforcer sees.
    fn changes() -> Vec<(&'static str, Value)> {
        vec![
            ("/metadata/labels", json!({"x": "2"})),
            ("/metadata/labels", json!({"x": "1", "y": ""})),
            ("/metadata/labels", Value::Null),
            ("/metadata/labels", json!({"x": "1", TOPOLOGY_LABELS[1]: "z"})),
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
            ("/status/conditions", json!([{"type": "PodResizePending", "reason": "Infeasible"}])),
            (
                "/status/conditions",
                json!([{"type": "scheduling.berth.dev/EvictionHeld", "message": "Held until noon"}]),
            ),
            ("/status/containerStatuses", json!([{"name": "c", "allocatedResources": {"cpu": "1"}}])),
            (
                "/status/initContainerStatuses",
                json!([{"name": "c", "resources": {"requests": {"cpu": "1"}}}]),
            ),
            ("/status/resources", json!({"requests": {"cpu": "1"}})),
            ("/status/allocatedResources", json!({"cpu": "1"})),
        ]
    }

    #[test]
    fn every_change_that_placement_or_the_enforcer_sees_is_reported() {
        for (path, value) in changes() {
            let (reader, mut object) = (PodReader::new(|_| true), pod());
            read(&reader, Line::Changed, &object);
            let (parent, field) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value;
            let delta = read(&reader, Line::Changed, &object);
            let expected: Pod = serde_json::from_value(object).unwrap();
            assert_eq!(delta, PodDelta::Pod(Arc::new(expected)), "{path}");
        }
    }

    #[test]
    fn pods_are_read_as_they_are_whatever_was_read_before() {
        let claim = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let more = [
            ("/spec/nodeName", json!("node-1")),
            ("/spec/volumes", json!([claim])),
            ("/spec/initContainers", json!([{"name": "c"}])),
            ("/spec/containers", json!([{"name": "c"}, {"name": "d"}])),
            ("/spec/containers/0/image", json!("i")),
            ("/spec/containers/0/ports", json!([{"hostPort": 80}])),
            ("/spec/runtimeClassName", json!("r")),
            ("/spec/os", json!({"name": "windows"})),
            ("/spec/hostNetwork", json!(true)),
            ("/metadata/managedFields", json!([{"manager": "m", "fieldsV1": {"f:spec": {}}}])),
            ("/metadata", Value::Null),
            ("/spec", Value::Null),
            ("/status", Value::Null),
        ];
        let reader = PodReader::new(|_| true);
        for (path, value) in changes().into_iter().chain(more) {
            for name in ["a", "b"] {
                let mut object = pod();
                object["metadata"]["name"] = name.into();
                let (parent, field) = path.rsplit_once('/').unwrap();
                object.pointer_mut(parent).unwrap()[field] = value.clone();
                let delta = read(&reader, Line::Initial, &object);
                let expected: Pod = serde_json::from_value(object).unwrap();
                assert_eq!(delta, PodDelta::Pod(Arc::new(expected)), "{path}");
            }
        }
    }

    #[test]
    fn pods_of_one_workload_share_their_specification_but_for_what_is_not_read() {
        let reader = PodReader::new(|_| true);
        let [first, second] = ["a", "b"].map(|name| {
            let mut object = pod();
            object["metadata"]["name"] = name.into();
            object["spec"]["volumes"] = json!([{"name": format!("token-{name}"), "projected": {}}]);
            object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": format!("token-{name}")}]);
            match read(&reader, Line::Initial, &object) {
                PodDelta::Pod(pod) => pod,
                _ => panic!("not whole"),
            }
        });
        assert!(std::ptr::eq(&*first.spec, &*second.spec));
        assert_eq!((first.metadata.name.as_str(), second.metadata.name.as_str()), ("a", "b"));
        assert!(first.spec.volumes.is_empty());
    }

    #[test]
    fn lists_and_new_pods_of_the_same_name_are_read_whole() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        let is_whole = |delta: PodDelta| matches!(delta, PodDelta::Pod(_));
        assert!(is_whole(read(&reader, Line::Initial, &object)));
        assert!(is_whole(read(&reader, Line::Initial, &object)));
        assert!(!is_whole(read(&reader, Line::Changed, &object)));
        assert_eq!(read(&reader, Line::Deleted, &object), PodDelta::Same(reference("", "1")));
        assert!(is_whole(read(&reader, Line::Changed, &object)), "it was deleted");
        object["metadata"]["uid"] = json!("v");
        assert!(is_whole(read(&reader, Line::Changed, &object)));
    }

    #[test]
    fn bindings_of_pods_that_are_not_kept_are_read_whole() {
        let (reader, mut object) = (PodReader::new(|pod| pod.spec.priority.is_none()), pod());
        read(&reader, Line::Changed, &object);
        object["spec"]["nodeName"] = json!("node-1");
        assert!(matches!(read(&reader, Line::Changed, &object), PodDelta::Pod(_)));
        assert!(matches!(read(&reader, Line::Changed, &object), PodDelta::Same(_)));
    }

    #[test]
    fn a_removed_binding_is_reported() {
        let (reader, mut object) = (PodReader::new(|_| true), pod());
        object["spec"]["nodeName"] = json!("node-1");
        read(&reader, Line::Changed, &object);
        object["spec"]["nodeName"] = Value::Null;
        assert!(matches!(read(&reader, Line::Changed, &object), PodDelta::Pod(_)));
    }

    #[test]
    fn of_a_part_that_comes_twice_the_last_one_counts() {
        let first = r#""metadata":{"managedFields":[1],"uid":"u"},"spec":{"nodeName":"a"}"#;
        let line = format!(r#"{{"object":{{{first},"metadata":{{"uid":"v"}},"spec":{{}}}}}}"#);
        let read = PodReader::new(|_| true).read(line.as_bytes(), Line::Changed).unwrap();
        assert!(matches!(read, PodDelta::Pod(pod) if pod.metadata.uid == "v"));
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in ["{}", "{\"object\":5}", "{\"object\":{\"metadata\":[]}}", "{\"object\":{\"spec\":"] {
            assert!(PodReader::new(|_| true).read(line.as_bytes(), Line::Changed).is_err(), "{line}");
        }
    }
}
