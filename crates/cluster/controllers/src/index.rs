//! The indexes of the controllers' caches.

use berth_api::object::{NamespacedName, ObjectMeta};
use berth_client::HasMetadata;

pub(crate) type Informer<T> = berth_client::Informer<T, Index>;
pub(crate) type Cache<T> = berth_client::Cache<T, Index>;

/// An index key: the cache returns its objects without a full scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Index {
    Namespace(String),
    /// Objects managed by the controller with this uid.
    Controller(String),
    /// Objects in a namespace that no controller manages.
    Orphans(String),
    Node(String),
    /// Pods that use a claim, or volumes that are bound to one or reserved for it.
    Claim(NamespacedName),
    /// Claims that are bound to a volume or ask for it.
    Volume(String),
    /// Pods that name a PodGroup.
    PodGroup(NamespacedName),
    /// Pods that use a claim of devices.
    ResourceClaim(NamespacedName),
    /// Slices of a pool, or claims with devices of it: driver and name.
    Pool(NamespacedName),
    /// Volumes without claim, or claims that are not bound, of a storage class.
    Class(String),
}

impl Index {
    /// The index keys of an object from its metadata: its namespace, and its controller or that it has none.
    pub(crate) fn of_metadata(metadata: &ObjectMeta, add: &mut dyn FnMut(Index)) {
        add(Index::Namespace(metadata.namespace.clone()));
        add(match metadata.controller() {
            Some(owner) => Index::Controller(owner.uid.clone()),
            None => Index::Orphans(metadata.namespace.clone()),
        });
    }
}

pub(crate) fn by_metadata<T: HasMetadata>(object: &T, add: &mut dyn FnMut(Index)) {
    Index::of_metadata(object.meta(), add);
}

/// For objects that are only found by name.
pub(crate) fn no_index<T>(_object: &T, _add: &mut dyn FnMut(Index)) {}
