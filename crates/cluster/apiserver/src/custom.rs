//! The resources that the cluster's CustomResourceDefinitions define, and the removal of definitions with their objects.

use std::sync::Arc;
use std::time::Duration;

use berth_schema::resource::{CUSTOM_RESOURCE_DEFINITIONS, Defined, Resource, custom_collection, defined};
use serde_json::{Value, json};

use crate::handlers::DeleteOptions;
use crate::server::Shared;
use crate::store::{Change, Derived, Filter, Object, Store, Write};
use crate::strategy;

/// Keeps a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How often the objects of a definition that is being deleted are looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The definitions of a server.
pub struct CustomResources(Derived<[Defined]>);

impl CustomResources {
    /// Those of a store.
    pub fn new(store: &Store) -> CustomResources {
        CustomResources(Derived::new(store, [&CUSTOM_RESOURCE_DEFINITIONS]))
    }

    /// All that are established.
    pub fn get(&self, store: &Store) -> Arc<[Defined]> {
        self.0.get(|| {
            let (_, definitions) = store.list(&CUSTOM_RESOURCE_DEFINITIONS, &Filter::default());
            let values = definitions.iter().map(|definition| definition.value());
            values.filter(is_established).filter_map(|definition| defined(&definition)).collect()
        })
    }

    /// The served resource at `/apis/GROUP/VERSION/PLURAL`.
    pub fn find(&self, store: &Store, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        let all = self.get(store);
        let named = |r: &&&Resource| r.group == group && r.version == version && r.plural == plural;
        all.iter().flat_map(|defined| &defined.served).find(named).copied()
    }

    /// All served versions, in the order of discovery.
    pub fn served(&self, store: &Store) -> Vec<&'static Resource> {
        let mut all: Vec<_> = self.get(store).iter().flat_map(|defined| defined.served.clone()).collect();
        all.sort_by_key(|resource| resource.group);
        all
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Deletes the objects of definitions that are being deleted, and then the definitions, until the server stops.
pub async fn clean_up(shared: Arc<Shared>) {
    let mut changes = shared.store.changes(&CUSTOM_RESOURCE_DEFINITIONS);
    loop {
        let (_, definitions) = shared.store.list(&CUSTOM_RESOURCE_DEFINITIONS, &Filter::default());
        let mut waits = false;
        for definition in definitions {
            let value = definition.value();
            if !value["metadata"]["deletionTimestamp"].is_null() {
                waits |= !finish(&shared, &definition, value).await;
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
            () = shared.stop.cancelled() => return,
        }
    }
}

/// Returns whether the definition is gone.
async fn finish(shared: &Shared, definition: &Object, mut value: Value) -> bool {
    let Some(resource) = custom_collection(&definition.facts.name) else { return false };
    let (_, objects) = shared.store.list(resource, &Filter::default());
    for object in &objects {
        let mut value = object.value();
        let change = match strategy::begin_deletion(resource, &mut value, &DeleteOptions::default()) {
            true => Change::Delete { expected: object.revision },
            false if object.value() == value => continue,
            false => Change::Update { expected: object.revision },
        };
        // An object that changed in the meantime is looked at again.
        let _ = shared.store.write(Write { resource, change, value }).await;
    }
    if shared.store.count(resource) > 0 {
        return false;
    }
    let finalizers = value["metadata"]["finalizers"].as_array_mut();
    let left = finalizers.map_or(0, |finalizers| {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        finalizers.len()
    });
    let change = match left {
        0 => Change::Delete { expected: definition.revision },
        _ => Change::Update { expected: definition.revision },
    };
    if value == definition.value() {
        return true;
    }
    shared.store.write(Write { resource: &CUSTOM_RESOURCE_DEFINITIONS, change, value }).await.is_ok()
}

/// The conditions of a definition, from whether its names are accepted.
pub fn conditions(conflict: Option<&str>, old: &Value, now: &str) -> Value {
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let previous = old.as_array().into_iter().flatten();
        let same = previous.into_iter().find(|c| c["type"] == kind && c["status"] == status);
        let since = same.map_or(json!(now), |same| same["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    match conflict {
        None => json!([
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
        ]),
        Some(message) => json!([
            condition("NamesAccepted", false, "NameConflict", message),
            condition("Established", false, "NotAccepted", "not all names are accepted"),
        ]),
    }
}
