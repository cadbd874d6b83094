//! Parts of objects that equal objects share, so that the many pods of a workload keep them once.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    Affinity, Container, ContainerStatus, OwnerReference, Pod, StringMap, Toleration,
    TopologySpreadConstraint, volume::Volume,
};

/// A value that several objects may share. It is read and changed like a `T`; a change copies it when it is shared.
pub struct Shared<T>(Option<Arc<T>>);

/// A type with an empty value, which takes no memory as a [`Shared`].
pub trait Empty: 'static {
    /// The empty value.
    const EMPTY: &'static Self;
}

impl<T: 'static> Empty for Vec<T> {
    const EMPTY: &'static Self = &Vec::new();
}

impl<K: 'static, V: 'static> Empty for BTreeMap<K, V> {
    const EMPTY: &'static Self = &BTreeMap::new();
}

impl Empty for Affinity {
    const EMPTY: &'static Self =
        &Affinity { node_affinity: None, pod_affinity: None, pod_anti_affinity: None };
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(None)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(self.0.clone())
    }
}

impl<T: Empty> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty + Clone + Default> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl<T: Empty + PartialEq> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared((value != *T::EMPTY).then(|| Arc::new(value)))
    }
}

impl<K, V, const N: usize> From<[(K, V); N]> for Shared<BTreeMap<K, V>>
where
    K: Ord + 'static,
    V: PartialEq + 'static,
{
    fn from(entries: [(K, V); N]) -> Self {
        BTreeMap::from(entries).into()
    }
}

impl<T: Empty + PartialEq + FromIterator<I>, I> FromIterator<I> for Shared<T> {
    fn from_iter<It: IntoIterator<Item = I>>(items: It) -> Self {
        T::from_iter(items).into()
    }
}

impl<T: Empty + Clone + Default + IntoIterator> IntoIterator for Shared<T> {
    type Item = T::Item;
    type IntoIter = T::IntoIter;

    fn into_iter(self) -> T::IntoIter {
        self.0.map(Arc::unwrap_or_clone).unwrap_or_default().into_iter()
    }
}

impl<'a, T: Empty> IntoIterator for &'a Shared<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<'a, T: Empty + Clone + Default> IntoIterator for &'a mut Shared<T>
where
    &'a mut T: IntoIterator,
{
    type Item = <&'a mut T as IntoIterator>::Item;
    type IntoIter = <&'a mut T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: Empty + PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => true,
            _ => **self == **other,
        }
    }
}

impl<T: Empty + Eq> Eq for Shared<T> {}

impl<T: Empty + Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Empty + Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Empty + PartialEq + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

/// The parts of pods that are in use, each once.
#[derive(Debug, Default)]
pub struct SharedParts {
    maps: Parts<StringMap>,
    owners: Parts<Vec<OwnerReference>>,
    affinity: Parts<Affinity>,
    tolerations: Parts<Vec<Toleration>>,
    constraints: Parts<Vec<TopologySpreadConstraint>>,
    volumes: Parts<Vec<Volume>>,
    containers: Parts<Vec<Container>>,
    statuses: Parts<Vec<ContainerStatus>>,
}

impl SharedParts {
    /// Makes the pod share the parts that equal those of other pods. Quantities of equal amounts are equal, however they are written.
    pub fn share(&mut self, pod: &mut Pod) {
        let Pod { metadata, spec, status } = pod;
        self.maps.share(&mut metadata.labels);
        self.maps.share(&mut metadata.annotations);
        self.owners.share(&mut metadata.owner_references);
        self.maps.share(&mut spec.node_selector);
        if let Some(affinity) = &mut spec.affinity {
            self.affinity.share(affinity);
        }
        self.tolerations.share(&mut spec.tolerations);
        self.constraints.share(&mut spec.topology_spread_constraints);
        self.volumes.share(&mut spec.volumes);
        self.containers.share(&mut spec.init_containers);
        self.containers.share(&mut spec.containers);
        self.statuses.share(&mut status.container_statuses);
        self.statuses.share(&mut status.init_container_statuses);
    }
}

/// The values of one type that are in use.
#[derive(Debug)]
struct Parts<T> {
    values: HashSet<Arc<T>>,
    /// At this number of values, the unused ones are removed.
    sweep_at: usize,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Parts { values: HashSet::new(), sweep_at: 64 }
    }
}

impl<T: Eq + Hash> Parts<T> {
    fn share(&mut self, Shared(part): &mut Shared<T>) {
        let Some(part) = part else { return };
        if let Some(known) = self.values.get(&**part) {
            *part = Arc::clone(known);
            return;
        }
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = 64.max(self.values.len() * 2);
        }
        self.values.insert(Arc::clone(part));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    fn pod(name: &str, app: &str) -> Pod {
        from_value(json!({
            "metadata": {"name": name, "labels": {"app": app}, "annotations": {}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        }))
        .unwrap()
    }

    #[test]
    fn equal_parts_are_one_until_a_pod_changes_its_own() {
        let mut parts = SharedParts::default();
        let (mut a, mut b, mut c) = (pod("a", "web"), pod("b", "web"), pod("c", "db"));
        [&mut a, &mut b, &mut c].into_iter().for_each(|pod| parts.share(pod));
        assert!(std::ptr::eq(&*a.metadata.labels, &*b.metadata.labels));
        assert!(std::ptr::eq(&*a.spec.containers, &*c.spec.containers));
        assert_ne!(a.metadata.labels, c.metadata.labels);
        b.metadata.labels.insert("app".to_owned(), "cache".to_owned());
        assert_eq!((a.metadata.label("app"), b.metadata.label("app")), (Some("web"), Some("cache")));
        assert!(a.metadata.annotations.0.is_none(), "empty parts take no memory");
    }

    #[test]
    fn a_shared_value_reads_and_writes_like_its_own() {
        let pod = pod("a", "web");
        let read: Pod = from_value(to_value(&pod).unwrap()).unwrap();
        assert_eq!(read, pod);
        let labels: Vec<_> = read.metadata.labels.into_iter().collect();
        assert_eq!(labels, [("app".to_owned(), "web".to_owned())]);
    }

    #[test]
    fn parts_that_no_pod_uses_are_removed() {
        let mut parts = SharedParts::default();
        for i in 0..10_000 {
            parts.share(&mut pod("a", &i.to_string()));
        }
        assert!(parts.maps.values.len() <= 65, "{}", parts.maps.values.len());
    }
}
