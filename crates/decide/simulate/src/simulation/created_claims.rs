//! The claims that controllers create for pods, as objects with all fields of their templates.

use berth_api::object::ObjectMeta;
use berth_api::object::volume::SELECTED_NODE_ANNOTATION;
use berth_engine::Outcome;
use serde_json::{Map, Value, json};

use super::pod::SimulatedPod;
use super::pods::Pods;

/// A claim that the input does not have.
#[derive(Clone)]
pub(super) struct CreatedClaim {
    namespace: String,
    name: String,
    object: Value,
}

impl CreatedClaim {
    /// From `template`, an object with `metadata` and `spec`.
    pub(super) fn new(metadata: &ObjectMeta, template: &Value) -> CreatedClaim {
        let ObjectMeta { namespace, name, owner_references, .. } = metadata;
        let mut fields = Map::new();
        fields.insert("name".to_owned(), name.as_str().into());
        fields.insert("namespace".to_owned(), namespace.as_str().into());
        let of_template = template.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let own = |key: &str| matches!(key, "name" | "namespace" | "creationTimestamp");
        fields.extend(
            of_template.filter(|(key, _)| !own(key)).map(|(key, value)| (key.clone(), value.clone())),
        );
        if !owner_references.is_empty() {
            fields.insert("ownerReferences".to_owned(), json!(owner_references));
        }
        let spec = template.get("spec").filter(|spec| spec.is_object()).cloned().unwrap_or_else(|| json!({}));
        let object =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": fields, "spec": spec});
        CreatedClaim { namespace: namespace.clone(), name: name.clone(), object }
    }

    /// The object, with what was decided about it for its pod.
    pub(super) fn decided(&self, pods: &Pods) -> Value {
        pods.iter().find_map(|pod| self.decided_for(pod)).unwrap_or_else(|| self.object.clone())
    }

    /// With what was decided about it for the pod: the volume that it is to be bound to, or the node for which its
    /// volume is to be provisioned.
    fn decided_for(&self, pod: &SimulatedPod) -> Option<Value> {
        let Outcome::Placed { node, volumes: Some(decision), .. } = &pod.outcome else { return None };
        let bound = decision.bind.iter().find(|(claim, _)| *claim == self.name);
        let is_provisioned = decision.provision.contains(&self.name);
        if pod.pod.metadata.namespace != self.namespace || (bound.is_none() && !is_provisioned) {
            return None;
        }
        let mut object = self.object.clone();
        match bound {
            Some((_, volume)) => object["spec"]["volumeName"] = volume.as_str().into(),
            None => {
                let annotations = &mut object["metadata"]["annotations"];
                if !annotations.is_object() {
                    *annotations = json!({});
                }
                annotations[SELECTED_NODE_ANNOTATION] = node.as_str().into();
            }
        }
        Some(object)
    }
}
