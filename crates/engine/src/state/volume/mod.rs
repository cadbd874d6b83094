//! Volumes: the objects that decide where pods with volumes may run.

use std::collections::HashMap;

use berth_api::object::{NamespacedName, VolumeKind, VolumeObject};

use super::State;

/// Objects by kind, namespace and name.
#[derive(Default)]
pub(crate) struct Volumes {
    objects: HashMap<(VolumeKind, NamespacedName), VolumeObject>,
}

impl State {
    /// Adds or changes an object.
    pub(crate) fn set_volume_object(&mut self, object: VolumeObject) {
        self.volumes.objects.insert((object.kind(), object.metadata().namespaced_name()), object);
    }

    /// Removes an object.
    pub(crate) fn remove_volume_object(&mut self, kind: VolumeKind, namespace: &str, name: &str) {
        self.volumes.objects.remove(&(kind, NamespacedName::new(namespace, name)));
    }
}
