//! The watch events of a cluster, and whether every binding satisfied the rules.
//!
//! The verification needs the whole history, not just the last state: a rule must hold when the pod is bound, and may be
//! broken by later changes. [`crate::naive`] evaluates it, from API objects only.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::config::Profile;
use berth_api::object::{Namespace, NamespacedName, Node, ObjectMeta, Pod, VolumeObject};
use berth_api::read::Kind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::naive::{Options, World, check_node};

/// An object of a kind that placement reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A node.
    Node(Box<Node>),
    /// A namespace.
    Namespace(Box<Namespace>),
    /// A pod.
    Pod(Box<Pod>),
    /// A volume, a claim, or another object that decides about them.
    Volume(Box<VolumeObject>),
}

impl Object {
    /// Decodes an object of one of these kinds.
    ///
    /// # Panics
    /// It is of another kind, or not an object of its kind.
    pub fn decode(kind: Kind, value: Value) -> Object {
        fn typed<T: DeserializeOwned>(value: Value) -> Box<T> {
            Box::new(serde_json::from_value(value).expect("an object of its kind"))
        }
        match kind {
            Kind::Node => Object::Node(typed(value)),
            Kind::Namespace => Object::Namespace(typed(value)),
            Kind::Pod => Object::Pod(typed(value)),
            Kind::Volume(kind) => {
                Object::Volume(Box::new(VolumeObject::decode(kind, &value).expect("an object of its kind")))
            }
            other => panic!("placement does not read {}", other.name()),
        }
    }

    fn metadata(&self) -> &ObjectMeta {
        match self {
            Object::Node(node) => &node.metadata,
            Object::Namespace(namespace) => &namespace.metadata,
            Object::Pod(pod) => &pod.metadata,
            Object::Volume(object) => object.metadata(),
        }
    }

    fn key(&self) -> Key {
        let kind = match self {
            Object::Node(_) => Kind::Node,
            Object::Namespace(_) => Kind::Namespace,
            Object::Pod(_) => Kind::Pod,
            Object::Volume(object) => Kind::Volume(object.kind()),
        };
        (kind, self.metadata().namespaced_name())
    }
}

/// Identifies an object.
type Key = (Kind, NamespacedName);

/// An object was created or changed; none if it was deleted.
type Event = Option<Object>;

/// All changes by resource version. They may be added in any order, and repeatedly.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By resource version; a deletion has its own version.
    events: BTreeMap<(u64, Key), Event>,
    /// The latest version of each existing object.
    present: HashMap<Key, u64>,
}

/// The result of the verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Number of pods that were pending and then bound.
    pub n_bound: usize,
    /// Descriptions of all errors.
    pub violations: Vec<String>,
    /// Pods that are pending at the end, as `namespace/name`.
    pub unbound: Vec<String>,
}

impl History {
    /// Adds an event: an object was created or changed.
    ///
    /// # Panics
    /// The resource version is not a number.
    pub fn saw(&mut self, object: Object) {
        let (key, version) = (object.key(), version(object.metadata()));
        let latest = self.present.entry(key.clone()).or_default();
        *latest = version.max(*latest);
        self.events.insert((version, key), Some(object));
    }

    /// Adds an event: an object was deleted. It has the version of its deletion.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_gone(&mut self, object: &Object) {
        let key = object.key();
        self.present.remove(&key);
        self.events.insert((version(object.metadata()), key), None);
    }

    /// Adds a list of all objects of a kind after an interrupted watch: missing objects are deleted, at an unknown time.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_all(&mut self, kind: Kind, objects: Vec<Object>) {
        let listed: HashSet<Key> = objects.iter().map(Object::key).collect();
        let missing = |key: &Key| key.0 == kind && !listed.contains(key);
        let gone: Vec<_> = self.present.extract_if(|key, _| missing(key)).collect();
        for (key, version) in gone {
            self.events.insert((version + 1, key), None);
        }
        objects.into_iter().for_each(|object| self.saw(object));
    }

    /// Verifies every binding.
    ///
    /// A scheduler decides from a slightly older state, and it binds several pods at a time, so bindings appear in another
    /// order than their decisions. A binding is correct if it was correct in any state of the last `lag` changes, with all
    /// bindings since then, or together with some of the next `lag` bindings.
    pub fn bindings(&self, profile: &Profile, options: &Options, lag: usize) -> Bindings {
        let mut found = Bindings::default();
        let events: Vec<(&Key, &Event)> = self.events.iter().map(|((_, key), event)| (key, event)).collect();
        let is_binding = Self::find_bindings(&events, &mut found);
        let mut now = State::default();
        for (i, (key, event)) in events.iter().enumerate() {
            if is_binding[i]
                && let Some(Object::Pod(pod)) = event
            {
                found.n_bound += 1;
                let judge = |state: &State| {
                    check_node(&world_without(state, key), pod, profile, options, &pod.spec.node_name)
                };
                if let Err(why) = judge(&now)
                    && !excused(&events, &is_binding, i, lag, &now, &judge)
                {
                    found.violations.push(format!("{} on {}: {why}", pod.key(), pod.spec.node_name));
                }
            }
            apply(&mut now, key, event);
        }
        let unbound = now.values().filter_map(|object| match object {
            Object::Pod(pod) if pod.spec.node_name.is_empty() && !pod.is_terminal() => Some(pod.key()),
            _ => None,
        });
        found.unbound = unbound.collect();
        found
    }

    /// Which events bind a pending pod. Pods that change their node are reported as errors.
    fn find_bindings(events: &[(&Key, &Event)], found: &mut Bindings) -> Vec<bool> {
        let mut nodes: HashMap<&str, &str> = HashMap::new();
        let mut is_binding = Vec::with_capacity(events.len());
        for (_, event) in events {
            let Some(Object::Pod(pod)) = event else {
                is_binding.push(false);
                continue;
            };
            let node = pod.spec.node_name.as_str();
            let before = nodes.insert(&pod.metadata.uid, node);
            is_binding.push(before == Some("") && !node.is_empty());
            if let Some(before) = before.filter(|before| !before.is_empty() && *before != node) {
                found.violations.push(format!("{} was on {before}, and then on {node:?}", pod.key()));
            }
        }
        is_binding
    }
}

/// Whether a scheduler with an older state, or with several bindings under way, could have bound the pod of event `i`
/// according to the rules.
fn excused(
    events: &[(&Key, &Event)],
    is_binding: &[bool],
    i: usize,
    lag: usize,
    now: &State,
    judge: &dyn Fn(&State) -> Result<(), String>,
) -> bool {
    let bindings_from = |from: usize| (from..events.len()).filter(|at| is_binding[*at]);
    let mut ahead = now.clone();
    for at in bindings_from(i + 1).take(lag) {
        apply(&mut ahead, events[at].0, events[at].1);
        if judge(&ahead).is_ok() {
            return true;
        }
    }
    let mut past = State::default();
    let oldest = i.saturating_sub(lag);
    for (at, (key, event)) in events[..i].iter().enumerate() {
        if at >= oldest {
            let mut then = past.clone();
            bindings_from(at).take_while(|b| *b < i).for_each(|b| apply(&mut then, events[b].0, events[b].1));
            if judge(&then).is_ok() {
                return true;
            }
            bindings_from(i + 1).take(lag).for_each(|b| apply(&mut then, events[b].0, events[b].1));
            if judge(&then).is_ok() {
                return true;
            }
        }
        apply(&mut past, key, event);
    }
    false
}

/// The objects of a cluster after an event.
type State = BTreeMap<Key, Object>;

fn apply(state: &mut State, key: &Key, event: &Event) {
    match event {
        Some(object) => state.insert(key.clone(), object.clone()),
        None => state.remove(key),
    };
}

/// The world without the pod being verified.
fn world_without(state: &State, pod: &Key) -> World {
    let mut world = World::default();
    for (_, object) in state.iter().filter(|(key, _)| *key != pod) {
        match object {
            Object::Node(node) => world.nodes.push((**node).clone()),
            Object::Namespace(namespace) => world.namespaces.push((**namespace).clone()),
            Object::Pod(pod) if pod.spec.node_name.is_empty() || pod.is_terminal() => {}
            Object::Pod(pod) => world.pods.push((**pod).clone()),
            Object::Volume(object) => world.storage.set((**object).clone()),
        }
    }
    world
}

fn version(metadata: &ObjectMeta) -> u64 {
    let version = &metadata.resource_version;
    version.parse().unwrap_or_else(|_| panic!("{}: resource version {version:?} is no number", metadata.name))
}
