//! What a watch saw of a cluster, and whether every pod was bound by the rules.
//!
//! The whole history is needed and not just the last state: an affinity was kept if it was kept when the pod was bound,
//! and what it needed may have gone since. It is judged by [`crate::naive`], from API objects only.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::config::Profile;
use berth_api::object::{Namespace, Node, ObjectMeta, Pod};

use crate::naive::{Options, World, check_node};

/// An object of a kind that placement depends on.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A node.
    Node(Box<Node>),
    /// A namespace.
    Namespace(Box<Namespace>),
    /// A pod.
    Pod(Box<Pod>),
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

impl Object {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Object::Node(node) => &node.metadata,
            Object::Namespace(namespace) => &namespace.metadata,
            Object::Pod(pod) => &pod.metadata,
        }
    }

    fn key(&self) -> Key {
        let kind = match self {
            Object::Node(_) => Kind::Node,
            Object::Namespace(_) => Kind::Namespace,
            Object::Pod(_) => Kind::Pod,
        };
        (kind, self.metadata().namespace.clone(), self.metadata().name.clone())
    }
}

/// The kinds that placement depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `Node`.
    Node,
    /// `Namespace`.
    Namespace,
    /// `Pod`.
    Pod,
}

/// A type whose objects a history holds.
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

/// Kind, namespace and name.
type Key = (Kind, String, String);

/// All changes, in the order of their resource versions. They may be told in any order, and more than once.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By resource version; a deletion has one of its own.
    events: BTreeMap<(u64, Key), Event>,
    /// The latest version of each object that is there.
    present: HashMap<Key, u64>,
}

#[derive(Clone, Debug)]
enum Event {
    Applied(Object),
    Deleted,
}

/// What came of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Pods that were seen without a node and then with one.
    pub n_bound: usize,
    /// What should not have happened, in words.
    pub violations: Vec<String>,
    /// Pods that have no node in the end, as `namespace/name`.
    pub unbound: Vec<String>,
}

impl History {
    /// An object is new or has changed.
    ///
    /// # Panics
    /// It has no resource version, or one that is no number.
    pub fn saw(&mut self, object: impl Into<Object>) {
        let object = object.into();
        let (key, version) = (object.key(), version(object.metadata()));
        let latest = self.present.entry(key.clone()).or_default();
        *latest = version.max(*latest);
        self.events.insert((version, key), Event::Applied(object));
    }

    /// An object is gone; it has the version of its deletion.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_gone(&mut self, object: impl Into<Object>) {
        let object = object.into();
        let key = object.key();
        self.present.remove(&key);
        self.events.insert((version(object.metadata()), key), Event::Deleted);
    }

    /// These are all objects of a kind, after an interruption: others are gone, nobody knows since when.
    ///
    /// # Panics
    /// As [`History::saw`].
    pub fn saw_all<T: Tracked>(&mut self, objects: Vec<T>) {
        let objects: Vec<Object> = objects.into_iter().map(Into::into).collect();
        let there: HashSet<Key> = objects.iter().map(Object::key).collect();
        let missing = |key: &Key| key.0 == T::KIND && !there.contains(key);
        let gone: Vec<_> = self.present.iter().filter(|(key, _)| missing(key)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(key, version)| (key.clone(), *version)).collect();
        for (key, version) in gone {
            self.present.remove(&key);
            self.events.insert((version + 1, key), Event::Deleted);
        }
        objects.into_iter().for_each(|object| self.saw(object));
    }

    /// Judges every binding.
    ///
    /// A scheduler knows the past as of some changes ago, and it binds several pods at a time, so that bindings show up
    /// in another order than they were decided in. A binding is right if it was right at any moment of the last
    /// `lag` changes, all bindings since counted in, or together with some of the next `lag` bindings.
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

    /// Which of the events give a node to a pod that had none; pods that change their node are told.
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

/// Whether a scheduler that is somewhat behind, or binds several pods at a time, could have bound the pod of event
/// `i` by the rules.
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

/// A cluster at some moment.
#[derive(Clone, Debug, Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    namespaces: BTreeMap<String, Namespace>,
    /// By namespace and name, those without a node as well.
    pods: BTreeMap<(String, String), Pod>,
}

impl State {
    fn apply(&mut self, key: &Key, event: &Event) {
        let (kind, namespace, name) = key;
        match (kind, event) {
            (_, Event::Applied(Object::Node(node))) => {
                drop(self.nodes.insert(name.clone(), (**node).clone()))
            }
            (_, Event::Applied(Object::Namespace(object))) => {
                self.namespaces.insert(name.clone(), (**object).clone());
            }
            (_, Event::Applied(Object::Pod(pod))) => {
                self.pods.insert((namespace.clone(), name.clone()), (**pod).clone());
            }
            (Kind::Node, Event::Deleted) => drop(self.nodes.remove(name)),
            (Kind::Namespace, Event::Deleted) => drop(self.namespaces.remove(name)),
            (Kind::Pod, Event::Deleted) => drop(self.pods.remove(&(namespace.clone(), name.clone()))),
        }
    }

    /// The pods that count, without the one that is judged.
    fn world_without(&self, (_, namespace, name): &Key) -> World {
        let counts = |pod: &Pod| !pod.spec.node_name.is_empty() && !pod.is_terminal();
        let others = self.pods.iter().filter(|((n, m), pod)| counts(pod) && (n, m) != (namespace, name));
        World {
            nodes: self.nodes.values().cloned().collect(),
            namespaces: self.namespaces.values().cloned().collect(),
            pods: others.map(|(_, pod)| pod.clone()).collect(),
            ..World::default()
        }
    }
}

fn version(metadata: &ObjectMeta) -> u64 {
    let version = &metadata.resource_version;
    version.parse().unwrap_or_else(|_| panic!("{}: resource version {version:?} is no number", metadata.name))
}
