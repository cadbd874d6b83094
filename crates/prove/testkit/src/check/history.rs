//! The changes of a cluster by version, and its objects at each version as typed objects.
//!
//! Rules are checked along the whole history, not only in its last state: a rule must hold when a pod is bound, and may be broken by
//! later changes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{DeviceKind, DeviceObject, ResourceClaim};
use berth_api::object::{
    GroupKey, GroupRules, Namespace, Node, Pod, PodDisruptionBudget, PodGroup, VolumeKind, VolumeObject,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::naive::World;

#[derive(Clone, Debug)]
pub struct Change {
    /// When it was seen.
    pub at: Duration,
    pub kind: String,
    pub deleted: bool,
    pub object: Value,
}

/// The changes by version.
pub type Changes = BTreeMap<u64, Arc<Change>>;

/// An object that decides about placement.
#[derive(Clone)]
pub enum Object {
    Pod(Rc<Pod>),
    Node(Rc<Node>),
    Namespace(Rc<Namespace>),
    Group(Rc<PodGroup>),
    Budget(Rc<PodDisruptionBudget>),
    /// A volume, claim, or what decides about them.
    Volume(Rc<VolumeObject>),
    /// Devices, a class of them, or a claim.
    Device(Rc<DeviceObject>),
}

pub struct Step {
    pub version: u64,
    /// When it was seen.
    pub at: Duration,
    /// The wall clock then, in seconds since 1970.
    pub wall_seconds: i64,
    /// Kind, and `NAMESPACE/NAME`.
    pub key: (String, String),
    /// The object afterwards; none if it was deleted.
    pub object: Option<Object>,
}

/// All objects at a moment.
#[derive(Clone, Default)]
pub struct State {
    objects: BTreeMap<(String, String), Object>,
    wall_seconds: i64,
}

/// The steps of a history that concern placement. It begins at this time of the wall clock, in seconds since 1970.
pub fn steps(changes: &Changes, begin: i64) -> Vec<Step> {
    let steps = changes.iter().filter_map(|(version, change)| {
        let object = decode(&change.kind, &change.object)?;
        let object = (!change.deleted).then_some(object);
        let key = (change.kind.clone(), name(&change.object));
        let wall_seconds = begin + change.at.as_secs() as i64;
        Some(Step { version: *version, at: change.at, wall_seconds, key, object })
    });
    steps.collect()
}

fn decode(kind: &str, value: &Value) -> Option<Object> {
    fn typed<T: DeserializeOwned>(value: &Value) -> Rc<T> {
        Rc::new(serde_json::from_value(value.clone()).expect("the API server stores valid objects"))
    }
    Some(match kind {
        "Pod" => Object::Pod(typed(value)),
        "Node" => Object::Node(typed(value)),
        "Namespace" => Object::Namespace(typed(value)),
        "PodGroup" => Object::Group(typed(value)),
        "PodDisruptionBudget" => Object::Budget(typed(value)),
        _ => {
            if let Some(kind) = DeviceKind::ALL.into_iter().find(|device| device.resource().kind == kind) {
                let object = DeviceObject::decode(kind, value).expect("the API server stores valid objects");
                return Some(Object::Device(Rc::new(object)));
            }
            let kind = VolumeKind::ALL.into_iter().find(|volume| volume.resource().kind == kind)?;
            let object = VolumeObject::decode(kind, value).expect("the API server stores valid objects");
            Object::Volume(Rc::new(object))
        }
    })
}

impl State {
    pub fn after(steps: &[Step]) -> State {
        let mut state = State::default();
        steps.iter().for_each(|step| state.apply(step));
        state
    }

    pub fn apply(&mut self, step: &Step) {
        self.wall_seconds = step.wall_seconds;
        match &step.object {
            Some(object) => self.objects.insert(step.key.clone(), object.clone()),
            None => self.objects.remove(&step.key),
        };
    }

    /// All pods, ended ones included.
    pub fn pods(&self) -> impl Iterator<Item = &Rc<Pod>> {
        self.objects.values().filter_map(|object| match object {
            Object::Pod(pod) => Some(pod),
            _ => None,
        })
    }

    pub fn pod(&self, name: &str) -> Option<&Rc<Pod>> {
        match self.objects.get(&("Pod".to_owned(), name.to_owned()))? {
            Object::Pod(pod) => Some(pod),
            _ => None,
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Rc<Node>> {
        self.objects.values().filter_map(|object| match object {
            Object::Node(node) => Some(node),
            _ => None,
        })
    }

    pub fn node(&self, name: &str) -> Option<&Rc<Node>> {
        self.nodes().find(|node| node.metadata.name == name)
    }

    /// The rules of a pod's group, as far as this pod and the PodGroup have them; none if it is placed by itself.
    pub fn group_of(&self, pod: &Pod) -> Option<(GroupKey, GroupRules)> {
        let key = GroupKey::of(pod, true)?;
        if key.kind.resource().is_none() {
            return Some((key, GroupRules::of_annotations(pod)));
        }
        match self.objects.get(&("PodGroup".to_owned(), key.name.to_string()))? {
            Object::Group(group) => Some((key, group.rules(FeatureGates::default())?)),
            _ => None,
        }
    }

    /// A pod on its way to a node: the topology constraint of its group acts as a node selector.
    pub fn bound_for(&self, node: &str, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        let levels = self.group_of(&pod).map(|(_, rules)| rules.levels).unwrap_or_default();
        for level in levels.into_iter().filter(|level| level.required) {
            if let Some(value) = self.node(node).and_then(|node| node.metadata.labels.get(&level.key)) {
                pod.spec.node_selector.insert(level.key, value.clone());
            }
        }
        pod
    }

    pub fn claims(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.objects.values().filter_map(|object| match object {
            Object::Device(object) => match &**object {
                DeviceObject::ResourceClaim(claim) => Some(&**claim),
                _ => None,
            },
            _ => None,
        })
    }

    /// The world of the naive evaluator, without one pod.
    pub fn world(&self, without: &str) -> World {
        let mut world = World::default();
        let uid = match self.objects.get(&("Pod".to_owned(), without.to_owned())) {
            Some(Object::Pod(pod)) => pod.metadata.uid.as_str(),
            _ => "",
        };
        for ((_, name), object) in &self.objects {
            match object {
                Object::Pod(pod) if pod.is_terminal() || name == without => {}
                Object::Pod(pod) if pod.spec.node_name.is_empty() => {
                    if !pod.status.nominated_node_name.is_empty() {
                        let mut nominated = (**pod).clone();
                        nominated.spec.node_name = pod.status.nominated_node_name.clone();
                        world.nominated.push(nominated);
                    }
                }
                Object::Pod(pod) => world.pods.push((**pod).clone()),
                Object::Node(node) => world.nodes.push((**node).clone()),
                Object::Namespace(namespace) => world.namespaces.push((**namespace).clone()),
                Object::Budget(budget) => world.budgets.push((**budget).clone()),
                Object::Volume(volume) => world.storage.set((**volume).clone()),
                Object::Device(object) => world.devices.set(as_reserved((**object).clone(), uid)),
                Object::Group(_) => {}
            }
        }
        world.devices.now = self.wall_seconds;
        world
    }
}

/// A claim that was reserved for a pod, and deleted later, exists until the pod has ended: the pod may be bound.
fn as_reserved(mut object: DeviceObject, uid: &str) -> DeviceObject {
    if let DeviceObject::ResourceClaim(claim) = &mut object
        && claim.status.is_reserved_for(uid)
    {
        claim.metadata.deletion_timestamp = None;
    }
    object
}

/// Pods that were bound twice, or whose node changed: by uid.
pub fn bound_twice(changes: &Changes) -> Vec<String> {
    let mut nodes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (version, change) in changes.iter().filter(|(_, change)| change.kind == "Pod") {
        let node = text(&change.object["spec"]["nodeName"]);
        let uid = text(&change.object["metadata"]["uid"]);
        match nodes.insert(uid, node) {
            Some(before) if !before.is_empty() && before != node => findings.push(format!(
                "version {version}: {} moved from {before:?} to {node:?}",
                name(&change.object)
            )),
            _ => {}
        }
    }
    findings
}

/// The text of a JSON string; empty if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// `NAMESPACE/NAME` of an object.
pub fn name(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}
