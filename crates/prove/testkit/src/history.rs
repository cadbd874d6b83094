//! The watch events of a cluster, and whether every binding satisfied the rules.
//!
//! The verification needs the whole history, not just the last state: a rule must hold when the pod is bound, and may be
//! broken by later changes. [`crate::naive`] evaluates it, from API objects only.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::config::Profile;
use berth_api::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use berth_api::object::{Namespace, NamespacedName, Node, ObjectMeta, Pod, VolumeKind, VolumeObject};

use crate::naive::{Options, Storage, World, check_node};

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

impl From<Node> for Object {
    fn from(node: Node) -> Self {
        Object::Node(Box::new(node))
    }
}

impl From<Namespace> for Object {
    fn from(namespace: Namespace) -> Self {
        Object::Namespace(Box::new(namespace))
    }
}

impl From<Pod> for Object {
    fn from(pod: Pod) -> Self {
        Object::Pod(Box::new(pod))
    }
}

impl From<VolumeObject> for Object {
    fn from(object: VolumeObject) -> Self {
        Object::Volume(Box::new(object))
    }
}

/// The kinds of volume objects: how one becomes an object of a history.
macro_rules! volume_objects {
    ($($kind:ident $object:ident => $from:expr;)*) => {$(
        impl From<$object> for Object {
            fn from(object: $object) -> Self {
                Object::from(VolumeObject::$kind($from(object)))
            }
        }

        impl Tracked for $object {
            const KIND: Kind = Kind::Volume(VolumeKind::$kind);
        }
    )*};
}

volume_objects! {
    PersistentVolume PersistentVolume => Box::new;
    PersistentVolumeClaim PersistentVolumeClaim => Box::new;
    StorageClass StorageClass => std::convert::identity;
    CsiNode CsiNode => std::convert::identity;
    CsiDriver CsiDriver => std::convert::identity;
    CsiStorageCapacity CsiStorageCapacity => std::convert::identity;
    VolumeAttachment VolumeAttachment => std::convert::identity;
}

impl Object {
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

/// The kinds that placement reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Node`.
    Node,
    /// `Namespace`.
    Namespace,
    /// `Pod`.
    Pod,
    /// One of the kinds that decide about volumes.
    Volume(VolumeKind),
}

/// A type of objects in a history.
pub trait Tracked: Into<Object> {
    /// Its kind.
    const KIND: Kind;
}

impl Tracked for Node {
    const KIND: Kind = Kind::Node;
}

impl Tracked for Namespace {
    const KIND: Kind = Kind::Namespace;
}

impl Tracked for Pod {
    const KIND: Kind = Kind::Pod;
}

/// Identifies an object.
type Key = (Kind, NamespacedName);

/// All changes by resource version. They may be added in any order, and repeatedly.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By resource version; a deletion has its own version.
    events: BTreeMap<(u64, Key), Event>,
    /// The latest version of each existing object.
    present: HashMap<Key, u64>,
}

#[derive(Clone, Debug)]
enum Event {
    Applied(Object),
    Deleted,
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
    pub fn saw(&mut self, object: impl Into<Object>) {
        let object = object.into();
        let (key, version) = (object.key(), version(object.metadata()));
        let latest = self.present.entry(key.clone()).or_default();
        *latest = version.max(*latest);
        self.events.insert((version, key), Event::Applied(object));
    }

    /// Adds an event: an object was deleted. It has the version of its deletion.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_gone(&mut self, object: impl Into<Object>) {
        let object = object.into();
        let key = object.key();
        self.present.remove(&key);
        self.events.insert((version(object.metadata()), key), Event::Deleted);
    }

    /// Adds a list of all objects of a kind after an interrupted watch: missing objects are deleted, at an unknown time.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_all<T: Tracked>(&mut self, objects: Vec<T>) {
        let objects: Vec<Object> = objects.into_iter().map(Into::into).collect();
        let listed: HashSet<Key> = objects.iter().map(Object::key).collect();
        let missing = |key: &Key| key.0 == T::KIND && !listed.contains(key);
        let gone: Vec<_> = self.present.iter().filter(|(key, _)| missing(key)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(key, version)| (key.clone(), *version)).collect();
        for (key, version) in gone {
            self.present.remove(&key);
            self.events.insert((version + 1, key), Event::Deleted);
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
                && let Event::Applied(Object::Pod(pod)) = event
            {
                found.n_bound += 1;
                let judge = |state: &State| {
                    let world = state.world_without(key);
                    check_node(&world, pod, profile, options, &pod.spec.node_name)
                };
                if let Err(why) = judge(&now)
                    && !excused(&events, &is_binding, i, lag, &now, &judge)
                {
                    found.violations.push(format!("{} on {}: {why}", pod.key(), pod.spec.node_name));
                }
            }
            now.apply(key, event);
        }
        let unbound = now.pods.values().filter(|pod| pod.spec.node_name.is_empty() && !pod.is_terminal());
        found.unbound = unbound.map(|pod| pod.key()).collect();
        found
    }

    /// Which events bind a pending pod. Pods that change their node are reported as errors.
    fn find_bindings(events: &[(&Key, &Event)], found: &mut Bindings) -> Vec<bool> {
        let mut nodes: HashMap<&str, &str> = HashMap::new();
        let mut is_binding = Vec::with_capacity(events.len());
        for (_, event) in events {
            let Event::Applied(Object::Pod(pod)) = event else {
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
        ahead.apply(events[at].0, events[at].1);
        if judge(&ahead).is_ok() {
            return true;
        }
    }
    let mut past = State::default();
    let oldest = i.saturating_sub(lag);
    for (at, (key, event)) in events[..i].iter().enumerate() {
        if at >= oldest {
            let mut then = past.clone();
            bindings_from(at).take_while(|b| *b < i).for_each(|b| then.apply(events[b].0, events[b].1));
            if judge(&then).is_ok() {
                return true;
            }
            bindings_from(i + 1).take(lag).for_each(|b| then.apply(events[b].0, events[b].1));
            if judge(&then).is_ok() {
                return true;
            }
        }
        past.apply(key, event);
    }
    false
}

/// The state of a cluster after an event.
#[derive(Clone, Debug, Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    namespaces: BTreeMap<String, Namespace>,
    /// All pods, pending ones included.
    pods: BTreeMap<NamespacedName, Pod>,
    storage: Storage,
}

impl State {
    fn apply(&mut self, key: &Key, event: &Event) {
        let (kind, key) = key;
        let name = key.name();
        match (kind, event) {
            (_, Event::Applied(Object::Node(node))) => {
                drop(self.nodes.insert(name.to_owned(), (**node).clone()))
            }
            (_, Event::Applied(Object::Namespace(object))) => {
                self.namespaces.insert(name.to_owned(), (**object).clone());
            }
            (_, Event::Applied(Object::Pod(pod))) => {
                self.pods.insert(key.clone(), (**pod).clone());
            }
            (_, Event::Applied(Object::Volume(object))) => self.storage.set((**object).clone()),
            (Kind::Volume(kind), Event::Deleted) => self.storage.remove(*kind, key),
            (Kind::Node, Event::Deleted) => drop(self.nodes.remove(name)),
            (Kind::Namespace, Event::Deleted) => drop(self.namespaces.remove(name)),
            (Kind::Pod, Event::Deleted) => drop(self.pods.remove(key)),
        }
    }

    /// The world without the pod being verified.
    fn world_without(&self, (_, key): &Key) -> World {
        let counts = |pod: &Pod| !pod.spec.node_name.is_empty() && !pod.is_terminal();
        let others = self.pods.iter().filter(|(other, pod)| counts(pod) && *other != key);
        World {
            nodes: self.nodes.values().cloned().collect(),
            namespaces: self.namespaces.values().cloned().collect(),
            pods: others.map(|(_, pod)| pod.clone()).collect(),
            storage: self.storage.clone(),
            ..World::default()
        }
    }
}

fn version(metadata: &ObjectMeta) -> u64 {
    let version = &metadata.resource_version;
    version.parse().unwrap_or_else(|_| panic!("{}: resource version {version:?} is no number", metadata.name))
}
