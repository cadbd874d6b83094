//! The resources that the cluster's CustomResourceDefinitions define, and the removal of definitions with their objects.

use std::sync::Arc;
use std::time::Duration;

use berth_schema::resource::{CUSTOM_RESOURCE_DEFINITIONS, Defined, Resource, custom_collection, defined};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::kinds::CUSTOM_RESOURCE_FINALIZER;
use crate::lifecycle::begin_deletion;
use crate::request::DeleteOptions;
use crate::store::{Change, Derived, Filter, Object, Store, Write};

/// How often the objects of a definition that is being deleted are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The established definitions of a store.
pub struct CustomResources(Derived<[Defined]>);

impl CustomResources {
    pub fn new(store: &Store) -> CustomResources {
        let established = |store: &Store| {
            let (_, definitions) = store.list(&CUSTOM_RESOURCE_DEFINITIONS, &Filter::default());
            let values = definitions.iter().map(|definition| definition.value());
            values.filter(is_established).filter_map(|definition| defined(&definition)).collect()
        };
        CustomResources(Derived::new(store, &[&CUSTOM_RESOURCE_DEFINITIONS], established))
    }

    /// Those of now. A request keeps them until its response has been sent: so long their schemas exist.
    pub fn get(&self) -> Arc<[Defined]> {
        self.0.get()
    }
}

/// The served resource at `/apis/GROUP/VERSION/PLURAL`.
pub fn find(definitions: &[Defined], group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let named = |r: &&&Resource| r.group == group && r.version == version && r.plural == plural;
    definitions.iter().flat_map(|defined| &defined.served).find(named).copied()
}

/// All served versions, in the order of discovery.
pub fn served(definitions: &[Defined]) -> Vec<&'static Resource> {
    let mut all: Vec<_> = definitions.iter().flat_map(|defined| defined.served.clone()).collect();
    all.sort_by_key(|resource| resource.group);
    all
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Deletes the objects of definitions that are being deleted, and then the definitions, until the server stops.
pub async fn clean_up(store: &Store, stop: &CancellationToken) {
    let mut changes = store.changes(&CUSTOM_RESOURCE_DEFINITIONS);
    loop {
        let (_, definitions) = store.list(&CUSTOM_RESOURCE_DEFINITIONS, &Filter::default());
        let mut waits = false;
        for definition in definitions {
            let value = definition.value();
            if !value["metadata"]["deletionTimestamp"].is_null() {
                waits |= !finish(store, &definition, value).await;
            }
        }
        let again = async {
            match waits {
                true => tokio::time::sleep(LOOK_AGAIN).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = again => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Returns whether the definition is gone.
async fn finish(store: &Store, definition: &Object, mut value: Value) -> bool {
    let Some(resource) = custom_collection(definition.facts.name()) else { return false };
    let (_, objects) = store.list(resource, &Filter::default());
    for object in &objects {
        let mut value = object.value();
        let change = match begin_deletion(resource, &mut value, &DeleteOptions::default()) {
            true => Change::Delete { expected: object.revision },
            false if object.value() == value => continue,
            false => Change::Release { expected: object.revision },
        };
        // An object that changed in the meantime is looked at again.
        let _ = store.write(Write { resource, change, object: value.into() }).await;
    }
    if store.count(resource) > 0 {
        return false;
    }
    let finalizers = value["metadata"]["finalizers"].as_array_mut();
    let left = finalizers.map_or(0, |finalizers| {
        finalizers.retain(|finalizer| finalizer != CUSTOM_RESOURCE_FINALIZER);
        finalizers.len()
    });
    let change = match left {
        0 => Change::Delete { expected: definition.revision },
        _ => Change::Release { expected: definition.revision },
    };
    if value == definition.value() {
        return true;
    }
    store.write(Write { resource: &CUSTOM_RESOURCE_DEFINITIONS, change, object: value.into() }).await.is_ok()
}
