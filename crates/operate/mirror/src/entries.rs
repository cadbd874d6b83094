//! The objects of one kind that are in the state, by namespace and name.

use std::collections::HashMap;
use std::fmt::Display;

use berth_api::object::NamespacedName;
use berth_client::{KubeObject, StreamEvent};
use serde_json::Value;

use crate::fingerprint::Fingerprint;

/// What an event changes.
pub(crate) enum Sync<T> {
    Set(T),
    Unset(NamespacedName),
}

/// An object of a watch; none if it could not be read.
pub(crate) struct ReadEntry<O> {
    pub(crate) object: Option<O>,
    key: NamespacedName,
    pub(crate) version: String,
}

impl<O> KubeObject for ReadEntry<O> {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn key(&self) -> (&str, &str) {
        (self.key.namespace(), self.key.name())
    }
}

/// Reads the object of an event. One that cannot be read is reported in the log and counts as absent: it must not keep the others from
/// being used.
pub(crate) fn read<O, E: Display>(
    event: StreamEvent<Value>,
    decode: impl FnOnce(&Value) -> Result<O, E>,
) -> StreamEvent<ReadEntry<O>> {
    event.map(|value: Value| {
        let (namespace, name) = value.key();
        let object = decode(&value);
        let object = object.inspect_err(|error| tracing::error!("{error}: the object is ignored")).ok();
        let version = value.resource_version().to_owned();
        ReadEntry { object, key: NamespacedName::new(namespace, name), version }
    })
}

impl<O> Sync<ReadEntry<O>> {
    /// The object, unless it is gone or could not be read, and its key.
    pub(crate) fn object(self) -> (Option<O>, NamespacedName) {
        match self {
            Sync::Set(ReadEntry { object, key, .. }) => (object, key),
            Sync::Unset(key) => (None, key),
        }
    }
}

type ByName<E> = HashMap<Box<str>, (u32, E)>;

/// Entries, each with the number of the last list that had it.
#[derive(Debug)]
pub(crate) struct Entries<E> {
    /// By namespace: there can be a million in one.
    entries: HashMap<Box<str>, ByName<E>>,
    n_entries: usize,
    list: u32,
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Entries { entries: HashMap::new(), n_entries: 0, list: 0 }
    }
}

impl<E> Entries<E> {
    pub(crate) fn len(&self) -> usize {
        self.n_entries
    }

    pub(crate) fn get(&self, key: &NamespacedName) -> Option<&E> {
        self.entries.get(key.namespace())?.get(key.name()).map(|(_, entry)| entry)
    }

    /// Returns the entry before.
    pub(crate) fn insert(&mut self, key: &NamespacedName, entry: E) -> Option<E> {
        let entry = (self.list, entry);
        let before = match self.entries.get_mut(key.namespace()) {
            Some(names) => match names.get_mut(key.name()) {
                Some(known) => Some(std::mem::replace(known, entry)),
                None => names.insert(key.name().into(), entry),
            },
            None => {
                self.entries.insert(key.namespace().into(), HashMap::from([(key.name().into(), entry)]));
                None
            }
        };
        self.n_entries += usize::from(before.is_none());
        before.map(|(_, entry)| entry)
    }

    pub(crate) fn remove(&mut self, key: &NamespacedName) -> Option<E> {
        let names = self.entries.get_mut(key.namespace())?;
        let (_, removed) = names.remove(key.name())?;
        if names.is_empty() {
            self.entries.remove(key.namespace());
        }
        self.n_entries -= 1;
        Some(removed)
    }

    pub(crate) fn begin_list(&mut self) {
        self.list += 1;
    }

    /// Marks an object as listed; every insertion does so as well.
    pub(crate) fn mark_listed(&mut self, key: &NamespacedName) {
        let known = self.entries.get_mut(key.namespace()).and_then(|names| names.get_mut(key.name()));
        if let Some((list, _)) = known {
            *list = self.list;
        }
    }

    /// Entries that neither the list had nor an event set since it began.
    pub(crate) fn unlisted(&self) -> Vec<NamespacedName> {
        let mut unlisted = Vec::new();
        for (namespace, names) in &self.entries {
            let of_namespace = names.iter().filter(|(_, (list, _))| *list < self.list);
            unlisted.extend(of_namespace.map(|(name, _)| NamespacedName::new(namespace, name)));
        }
        unlisted
    }
}

impl Entries<Fingerprint> {
    /// Applies an event; `sync` receives what it changes, and nothing else.
    pub(crate) fn apply<T: KubeObject>(
        &mut self,
        event: StreamEvent<T>,
        fingerprint: impl Fn(&T) -> Fingerprint,
        mut sync: impl FnMut(Sync<T>),
    ) {
        match event {
            StreamEvent::Init => self.begin_list(),
            StreamEvent::InitApply(object) | StreamEvent::Apply(object) => {
                let (namespace, name) = object.key();
                let fingerprint = fingerprint(&object);
                if self.insert(&NamespacedName::new(namespace, name), fingerprint) != Some(fingerprint) {
                    sync(Sync::Set(object));
                }
            }
            StreamEvent::Delete(object) => {
                let (namespace, name) = object.key();
                let key = NamespacedName::new(namespace, name);
                if self.remove(&key).is_some() {
                    sync(Sync::Unset(key));
                }
            }
            StreamEvent::InitDone => {
                for key in self.unlisted() {
                    self.remove(&key);
                    sync(Sync::Unset(key));
                }
            }
            StreamEvent::Failed(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fingerprint::Fingerprints;

    fn apply(
        entries: &mut Entries<Fingerprint>,
        hash: &Fingerprints,
        event: StreamEvent<Value>,
    ) -> Vec<String> {
        let mut changes = Vec::new();
        entries.apply(
            event,
            |object| hash.of(&object["value"]),
            |sync| {
                changes.push(match sync {
                    Sync::Set(object) => format!("+{}", object.key().1),
                    Sync::Unset(key) => format!("-{key}"),
                });
            },
        );
        changes
    }

    #[test]
    fn a_streamed_list_changes_what_differs_and_removes_the_rest_at_its_end() {
        let (mut entries, hash) = (Entries::default(), Fingerprints::default());
        let mut apply = |event| apply(&mut entries, &hash, event);
        let object = |name: &str, value: u32| json!({"metadata": {"name": name}, "value": value});
        for name in ["kept", "changed", "gone"] {
            assert_eq!(apply(StreamEvent::Apply(object(name, 1))), [format!("+{name}")]);
        }
        assert!(apply(StreamEvent::Init).is_empty());
        assert!(apply(StreamEvent::InitApply(object("kept", 1))).is_empty());
        // The list is interrupted and starts again.
        assert!(apply(StreamEvent::Init).is_empty());
        assert!(apply(StreamEvent::InitApply(object("kept", 1))).is_empty());
        assert_eq!(apply(StreamEvent::InitApply(object("changed", 2))), ["+changed"]);
        assert_eq!(apply(StreamEvent::Delete(object("changed", 2))), ["-changed"]);
        assert_eq!(apply(StreamEvent::InitDone), ["-gone"]);
        assert!(apply(StreamEvent::Delete(object("gone", 1))).is_empty());
    }
}
