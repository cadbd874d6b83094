//! A pod under construction: the typed pod and, if required, the whole object. Changes apply to both.

use serde_json::{Map, Value, json};

use berth_api::object::volume::{PersistentVolumeClaim, Volume};
use berth_api::object::{
    NodeSelector, NodeSelectorTerm, OwnerReference, Pod, SelectorRequirement, Toleration,
};
use berth_api::read::{DecodeError, decode_at};

/// A pod made from a template.
#[derive(Clone, Debug)]
pub(super) struct PodDraft {
    pub(super) pod: Pod,
    pub(super) raw: Option<Value>,
    /// The claims that its controller creates with it.
    pub(super) claims: Vec<PersistentVolumeClaim>,
    /// The size of the template as text.
    pub(super) template_bytes: usize,
}

/// The properties of a pod that come from its workload.
pub(super) struct Origin<'a> {
    /// The name of the workload in messages.
    pub(super) object: &'a dyn std::fmt::Display,
    /// Path of the template in the workload.
    pub(super) path: &'a str,
    pub(super) namespace: &'a str,
    pub(super) owner: &'a OwnerReference,
    pub(super) keep_raw: bool,
}

impl PodDraft {
    /// A pod without a name.
    pub(super) fn new(template: &Value, origin: &Origin<'_>) -> Result<Self, DecodeError> {
        let Value::Object(template) = template else {
            return Err(DecodeError {
                object: origin.object.to_string(),
                path: origin.path.to_owned(),
                message: "Required value: add the pod template".to_owned(),
            });
        };
        let mut raw = Map::new();
        raw.insert("apiVersion".to_owned(), "v1".into());
        raw.insert("kind".to_owned(), "Pod".into());
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), "".into());
        metadata.insert("namespace".to_owned(), origin.namespace.into());
        match template.get("metadata") {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => {
                let own = |key: &str| matches!(key, "name" | "namespace" | "generateName");
                metadata
                    .extend(fields.iter().filter(|(key, _)| !own(key)).map(|(k, v)| (k.clone(), v.clone())));
            }
            // Decoding reports the error.
            Some(other) => {
                return decode_at(&json!({ "metadata": other }), origin.path, origin.object)
                    .map(|pod| PodDraft { pod, raw: None, claims: Vec::new(), template_bytes: 0 });
            }
        }
        metadata.insert("ownerReferences".to_owned(), json!([origin.owner]));
        raw.insert("metadata".to_owned(), metadata.into());
        raw.insert("spec".to_owned(), template.get("spec").cloned().unwrap_or_default());
        let raw = Value::Object(raw);
        let pod = decode_at(&raw, origin.path, origin.object)?;
        let template_bytes = raw.to_string().len();
        Ok(PodDraft { pod, raw: origin.keep_raw.then_some(raw), claims: Vec::new(), template_bytes })
    }

    /// The same pod under a name.
    pub(super) fn named(&self, name: String) -> Self {
        let mut draft = self.clone();
        draft.set(&["metadata"], "name", name.as_str().into());
        draft.pod.metadata.name = name;
        draft
    }

    pub(super) fn label(&mut self, key: &str, value: &str) {
        self.set(&["metadata", "labels"], key, value.into());
        self.pod.metadata.labels.insert(key.to_owned(), value.to_owned());
    }

    pub(super) fn label_unless_present(&mut self, key: &str, value: &str) {
        if !self.pod.metadata.labels.contains_key(key) {
            self.label(key, value);
        }
    }

    pub(super) fn annotation(&mut self, key: &str, value: &str) {
        self.set(&["metadata", "annotations"], key, value.into());
        self.pod.metadata.annotations.insert(key.to_owned(), value.to_owned());
    }

    /// Sets a text field of the spec that placement ignores.
    pub(super) fn spec_text(&mut self, field: &str, value: &str) {
        self.set(&["spec"], field, value.into());
    }

    /// Requires a node by name. Replaces all required node terms.
    pub(super) fn pin_to_node(&mut self, node: &str) {
        let terms = json!([{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }]);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        self.set(&["spec", "affinity", "nodeAffinity", required], "nodeSelectorTerms", terms);
        let requirement = SelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: vec![node.to_owned()],
        };
        let term = NodeSelectorTerm { match_fields: vec![requirement], ..NodeSelectorTerm::default() };
        let affinity = self.pod.spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
        affinity.required_during_scheduling_ignored_during_execution =
            Some(NodeSelector { node_selector_terms: vec![term], ..NodeSelector::default() });
    }

    /// Tolerates a taint with any value. Replaces a toleration of the same taint with a time limit.
    pub(super) fn tolerate(&mut self, key: &str, effect: &str) {
        let is_same = |t: &Toleration| {
            t.key == key && t.effect == effect && t.operator == "Exists" && t.value.is_empty()
        };
        let new = json!({"key": key, "operator": "Exists", "effect": effect});
        let tolerations = &mut self.pod.spec.tolerations;
        let at = tolerations.iter().position(is_same).unwrap_or(tolerations.len());
        if at < tolerations.len() {
            tolerations.remove(at);
        }
        let toleration = Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        tolerations.insert(at, toleration);
        if let Some(raw) = self.raw_array(&["spec"], "tolerations") {
            if at < raw.len() {
                raw[at] = new;
            } else {
                raw.push(new);
            }
        }
    }

    /// Adds a volume with its own claim, made from a template. Replaces a volume of the same name.
    pub(super) fn claim_volume(&mut self, template: &PersistentVolumeClaim) {
        let volume = template.metadata.name.as_str();
        let mut claim = template.clone();
        let metadata = &self.pod.metadata;
        claim.metadata.name = format!("{volume}-{}", metadata.name);
        claim.metadata.namespace.clone_from(&metadata.namespace);
        let name = claim.metadata.name.clone();
        self.claims.push(claim);
        let claim = name.as_str();
        let volumes = &mut self.pod.spec.volumes;
        volumes.retain(|v| v.name != volume);
        volumes.push(Volume::of_claim(volume, claim));
        if let Some(volumes) = self.raw_array(&["spec"], "volumes") {
            volumes.retain(|v| v.get("name").and_then(Value::as_str) != Some(volume));
            volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}}));
        }
    }

    fn set(&mut self, path: &[&str], key: &str, value: Value) {
        if let Some(object) = self.raw_object(path) {
            object.insert(key.to_owned(), value);
        }
    }

    /// The object at a path, created if absent.
    fn raw_object(&mut self, path: &[&str]) -> Option<&mut Map<String, Value>> {
        let mut value = self.raw.as_mut()?;
        for key in path {
            value = value.as_object_mut()?.entry(*key).or_insert(Value::Null);
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
        }
        value.as_object_mut()
    }

    fn raw_array(&mut self, path: &[&str], key: &str) -> Option<&mut Vec<Value>> {
        let value = self.raw_object(path)?.entry(key).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Array(Vec::new());
        }
        value.as_array_mut()
    }
}
