//! Changes of a pod as a JSON patch, which is applied while it grows.

use berth_api::object::Pod;
use berth_api::read::from_value;
use serde_json::{Value, json};

/// Weight of preferences that requirements become.
const WEIGHT: i32 = 100;
/// The field of the proposals.
const ENFORCED: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// A pod as JSON, and the operations that have changed it.
pub(super) struct PodPatch {
    object: Value,
    pub(super) operations: Vec<Value>,
}

impl PodPatch {
    pub(super) fn new(pod: &Pod) -> Option<PodPatch> {
        Some(PodPatch { object: serde_json::to_value(pod).ok()?, operations: Vec::new() })
    }

    /// Another object with rules in the fields of a pod.
    pub(super) fn of(object: Value) -> PodPatch {
        PodPatch { object, operations: Vec::new() }
    }

    pub(super) fn pod(&self) -> Option<Pod> {
        from_value(&self.object).ok()
    }

    /// Applies an operation and keeps it.
    pub(super) fn apply(&mut self, operation: Value) -> Option<()> {
        let patch: json_patch::Patch = serde_json::from_value(json!([operation])).ok()?;
        json_patch::patch(&mut self.object, &patch).ok()?;
        self.operations.push(operation);
        Some(())
    }

    /// Adds a member unless there is one.
    fn ensure(&mut self, path: &str, value: Value) -> Option<()> {
        match self.object.pointer(path) {
            None | Some(Value::Null) => self.apply(json!({"op": "add", "path": path, "value": value})),
            Some(_) => Some(()),
        }
    }

    fn len(&self, path: &str) -> usize {
        self.object.pointer(path).and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Makes a node label that is required by `spec.nodeSelector` a preferred one.
    pub(super) fn prefer_label(&mut self, key: &str, value: &str) -> Option<()> {
        self.apply(json!({"op": "remove", "path": format!("/spec/nodeSelector/{}", escaped(key))}))?;
        self.ensure("/spec/affinity", json!({}))?;
        self.ensure("/spec/affinity/nodeAffinity", json!({}))?;
        let preferred = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
        self.ensure(preferred, json!([]))?;
        let expression = json!({"key": key, "operator": "In", "values": [value]});
        let term = json!({"weight": WEIGHT, "preference": {"matchExpressions": [expression]}});
        self.apply(json!({"op": "add", "path": format!("{preferred}/-"), "value": term}))
    }

    /// Makes a required node selector of `spec.affinity` preferred terms.
    pub(super) fn prefer_node_terms(&mut self, path: &str) -> Option<()> {
        let required = pointer(path)?;
        let parent = required.rsplit_once('/')?.0.to_owned();
        let preferred = format!("{parent}/preferredDuringSchedulingIgnoredDuringExecution");
        self.ensure(&preferred, json!([]))?;
        let terms = format!("{required}/nodeSelectorTerms");
        for _ in 0..self.len(&terms) {
            let at = format!("{preferred}/{}", self.len(&preferred));
            self.apply(json!({"op": "add", "path": at, "value": {"weight": WEIGHT, "preference": {}}}))?;
            let (from, path) = (format!("{terms}/0"), format!("{at}/preference"));
            self.apply(json!({"op": "move", "from": from, "path": path}))?;
        }
        self.apply(json!({"op": "remove", "path": required}))
    }

    /// Makes a required pod term of `spec.affinity` a preferred one; without `preferably` it is removed.
    pub(super) fn prefer_pod_term(&mut self, path: &str, preferably: bool) -> Option<()> {
        let required = pointer(path)?;
        if !preferably {
            return self.apply(json!({"op": "remove", "path": required}));
        }
        let parent = required.rsplit_once('/')?.0.rsplit_once('/')?.0;
        let preferred = format!("{parent}/preferredDuringSchedulingIgnoredDuringExecution");
        self.ensure(&preferred, json!([]))?;
        let at = format!("{preferred}/{}", self.len(&preferred));
        self.apply(json!({"op": "add", "path": at, "value": {"weight": WEIGHT, "podAffinityTerm": {}}}))?;
        let term = format!("{at}/podAffinityTerm");
        self.apply(json!({"op": "move", "from": required, "path": term}))?;
        let namespaces = format!("{term}/namespaces");
        if path.contains(ENFORCED) && self.object.pointer(&namespaces) == Some(&json!([])) {
            // All namespaces, in words of v1.
            self.apply(json!({"op": "remove", "path": namespaces}))?;
            self.apply(json!({"op": "add", "path": format!("{term}/namespaceSelector"), "value": {}}))?;
        }
        Some(())
    }

    /// Makes a spread constraint a preference.
    pub(super) fn prefer_spread(&mut self, path: &str) -> Option<()> {
        let constraint = pointer(path)?;
        let when = format!("{constraint}/whenUnsatisfiable");
        self.apply(json!({"op": "replace", "path": when, "value": "ScheduleAnyway"}))?;
        let minimum = format!("{constraint}/minDomains");
        match self.object.pointer(&minimum) {
            Some(_) => self.apply(json!({"op": "remove", "path": minimum})),
            None => Some(()),
        }
    }

    /// Sets a member of the pod.
    pub(super) fn set(&mut self, path: &str, value: Value) -> Option<()> {
        self.apply(json!({"op": "add", "path": path, "value": value}))
    }
}

/// `spec.a[0].b` as the JSON pointer `/spec/a/0/b`; none for paths in an annotation.
pub(super) fn pointer(path: &str) -> Option<String> {
    path.starts_with("spec.").then(|| format!("/{}", path.replace(['.', '['], "/").replace(']', "")))
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
