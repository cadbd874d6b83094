//! The objects of a collection: found by name, and in the order of namespace and name.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use berth_api::by_hash::ByHash;

use super::object::Object;

/// Objects by namespace and name. They are found by the hash of their name: in a tree with a million names, a search waits for memory
/// at every step.
#[derive(Debug, Default)]
pub struct Objects {
    /// None in the free slots.
    slots: Vec<Option<Arc<Object>>>,
    free: Vec<u32>,
    by_name: ByHash,
    /// The slots by namespace and name.
    in_order: BTreeMap<Box<str>, BTreeMap<Box<str>, u32>>,
}

impl Objects {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn len_in(&self, namespace: &str) -> usize {
        self.in_order.get(namespace).map_or(0, BTreeMap::len)
    }

    fn slot(&self, namespace: &str, name: &str) -> Option<u32> {
        let is_it = |slot| {
            self.at(slot)
                .is_some_and(|object| object.facts.name() == name && object.facts.namespace() == namespace)
        };
        self.by_name.find(&(namespace, name), is_it)
    }

    fn at(&self, slot: u32) -> Option<&Arc<Object>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.at(self.slot(namespace, name)?)
    }

    /// Adds an object, or puts it in the place of the one of its name, which is returned.
    pub fn put(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        let (namespace, name) = (object.facts.namespace(), object.facts.name());
        if let Some(slot) = self.slot(namespace, name) {
            return self.slots.get_mut(slot as usize)?.replace(object);
        }
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.by_name.insert(&(namespace, name), slot);
        let names = match self.in_order.get_mut(namespace) {
            Some(names) => names,
            None => self.in_order.entry(namespace.into()).or_default(),
        };
        names.insert(name.into(), slot);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = Some(object),
            None => self.slots.push(Some(object)),
        }
        None
    }

    pub fn take(&mut self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let slot = self.slot(namespace, name)?;
        self.by_name.remove(&(namespace, name), slot);
        if let Some(names) = self.in_order.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                self.in_order.remove(namespace);
            }
        }
        self.free.push(slot);
        self.slots.get_mut(slot as usize)?.take()
    }

    /// All objects, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.slots.iter().flatten()
    }

    /// The objects of some namespaces whose names are in the range that `names` gives for their namespace, in order.
    pub fn range<'o, N: RangeBounds<str>>(
        &'o self,
        namespaces: impl RangeBounds<str>,
        names: impl Fn(&'o str) -> N + 'o,
    ) -> impl Iterator<Item = &'o Arc<Object>> {
        let in_range = self.in_order.range::<str, _>(namespaces);
        in_range.flat_map(move |(namespace, slots)| {
            slots.range::<str, _>(names(namespace)).filter_map(|(_, slot)| self.at(*slot))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use berth_schema::resource::PODS;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn objects_are_found_and_listed_as_in_a_sorted_map(changes: Vec<(bool, u8, u8)>) {
            let (mut objects, mut expected) = (Objects::default(), BTreeMap::new());
            for (revision, (is_put, namespace, name)) in changes.into_iter().enumerate() {
                let (namespace, name) = (format!("n{}", namespace % 3), format!("o{}", name % 8));
                let revision_of = |object: Option<Arc<Object>>| object.map(|object| object.revision);
                let key = (namespace.clone(), name.clone());
                if is_put {
                    let value = json!({"metadata": {"namespace": namespace, "name": name}});
                    let object = Arc::new(Object::encode(&PODS, &value, revision as u64));
                    let before = revision_of(objects.put(object));
                    prop_assert_eq!(before, expected.insert(key, revision as u64));
                } else {
                    prop_assert_eq!(revision_of(objects.take(&namespace, &name)), expected.remove(&key));
                }
                let of = |namespace: &str| expected.keys().filter(|(of, _)| of == namespace).count();
                prop_assert_eq!(objects.len_in(&namespace), of(&namespace));
                let found = revision_of(objects.get(&namespace, &name).cloned());
                prop_assert_eq!(found, expected.get(&(namespace, name)).copied());
            }
            prop_assert_eq!(objects.len(), expected.len());
            let listed = objects.range::<(Bound<&str>, Bound<&str>)>(.., |_| (Bound::Excluded("o2"), Bound::Unbounded));
            let listed: Vec<u64> = listed.map(|object| object.revision).collect();
            let after = expected.iter().filter(|((_, name), _)| name.as_str() > "o2");
            prop_assert_eq!(listed, after.map(|(_, revision)| *revision).collect::<Vec<_>>());
            let mut all: Vec<u64> = objects.iter().map(|object| object.revision).collect();
            all.sort_unstable();
            let mut revisions: Vec<u64> = expected.into_values().collect();
            revisions.sort_unstable();
            prop_assert_eq!(all, revisions);
        }
    }
}
