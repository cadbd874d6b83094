//! Namespaces: deletes the objects of a terminating namespace, and creates a service account in every other one.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS, percent_encoded};
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::api::{Api, DeleteOptions, Precondition, Propagation};
use super::index::Index;
use super::informers::{Caches, Informers};
use super::queue::{Next, Queue, work};
use super::resources::stored;
use super::view::{Condition, Namespace, PartialObjectMetadata, nullable, set_condition};
use berth_client::call::{self, CallError};

/// The finalizer that this controller removes.
const FINALIZER: &str = "kubernetes";
/// The default service account of pods.
const SERVICE_ACCOUNT: &str = "default";
/// Interval between two checks of the remaining objects of a namespace.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
struct List<T> {
    #[serde(default, deserialize_with = "nullable")]
    items: Vec<T>,
}

/// What is read of a CustomResourceDefinition.
#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    served: bool,
}

pub(crate) struct Namespaces {
    api: Api,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl Namespaces {
    pub(crate) fn new(api: &Api, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = Namespaces { api: api.clone(), caches, queue: Arc::default() };
        controller.queue.follow(&mut informers.namespaces);
        let queue = controller.queue.clone();
        informers.service_accounts.on_change(move |change| {
            let gone = change.old.filter(|_| change.new.is_none());
            if let Some(gone) = gone.filter(|gone| &*gone.metadata.name == SERVICE_ACCOUNT) {
                queue.add(NamespacedName::new("", &gone.metadata.namespace));
            }
        });
        // Pods take longest to terminate: the deletion of the last one triggers a sync.
        let (queue, caches) = (controller.queue.clone(), controller.caches.clone());
        informers.pods.on_change(move |change| {
            let Some(pod) = change.old.filter(|_| change.new.is_none()) else { return };
            let namespace = &pod.metadata.namespace;
            if caches.pods.is_empty(&Index::Namespace(namespace.clone())) {
                let key = NamespacedName::new("", namespace);
                if caches.namespaces.get(&key).is_some_and(|namespace| namespace.metadata.is_deleting()) {
                    queue.add(key);
                }
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("namespaces", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(namespace) = self.caches.namespaces.get(&key) else { return Ok(Next::Wait) };
        if !namespace.metadata.is_deleting() {
            return self.ensure_service_account(&key).await;
        }
        if !namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Wait);
        }
        let left = self.delete_content(key.name()).await?;
        self.report_left(&namespace, &left).await?;
        if !left.is_empty() {
            return Ok(Next::After(LOOK_AGAIN));
        }
        self.finalize(&key).await?;
        Ok(Next::Wait)
    }

    async fn ensure_service_account(&self, key: &NamespacedName) -> Result<Next, CallError> {
        let name = key.name();
        if self.caches.service_accounts.contains(&NamespacedName::new(name, SERVICE_ACCOUNT)) {
            return Ok(Next::Wait);
        }
        let account = json!({
            "apiVersion": SERVICE_ACCOUNTS.api_version(),
            "kind": SERVICE_ACCOUNTS.kind,
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": name},
        });
        match self.api.create(&SERVICE_ACCOUNTS, name, account.to_string().into_bytes()).await {
            Err(error) if !error.is_already_exists() && !error.is_namespace_terminating() => Err(error),
            _ => Ok(Next::Wait),
        }
    }

    /// Deletes every object in the namespace; returns the remaining ones by kind.
    async fn delete_content(
        &self,
        namespace: &str,
    ) -> Result<Vec<(String, Vec<PartialObjectMetadata>)>, CallError> {
        let built_in = stored().filter(|kind| kind.namespaced);
        let mut collections: Vec<(String, String)> =
            built_in.map(|kind| (kind.plural.to_owned(), kind.path(namespace))).collect();
        for custom in self.custom_resources().await? {
            let spec = custom.spec;
            let Some(version) = spec.versions.iter().find(|version| version.served) else { continue };
            let path = format!(
                "/apis/{}/{}/namespaces/{}/{}",
                spec.group,
                version.name,
                percent_encoded(namespace),
                spec.names.plural
            );
            collections.push((format!("{}.{}", spec.names.plural, spec.group), path));
        }
        let mut left = Vec::new();
        for (name, path) in collections {
            let mut objects = self.list(&path).await?;
            if objects.iter().any(|object| !object.metadata.is_deleting()) {
                let options =
                    DeleteOptions { propagation: Some(Propagation::Background), ..Default::default() };
                self.api.delete_at(&path, options).await?;
                objects = self.list(&path).await?;
            }
            if !objects.is_empty() {
                left.push((name, objects));
            }
        }
        Ok(left)
    }

    async fn custom_resources(&self) -> Result<Vec<Definition>, CallError> {
        let list: List<Definition> = self.api.send(call::get(&CUSTOM_RESOURCE_DEFINITIONS.path(""))).await?;
        Ok(list.items.into_iter().filter(|definition| definition.spec.scope == "Namespaced").collect())
    }

    /// The first objects of a collection: enough to detect remaining objects and their finalizers. One that is not
    /// served has none.
    async fn list(&self, path: &str) -> Result<Vec<PartialObjectMetadata>, CallError> {
        match self.api.send::<List<PartialObjectMetadata>>(call::get(&format!("{path}?limit=100"))).await {
            Ok(list) => Ok(list.items),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn report_left(
        &self,
        namespace: &Namespace,
        left: &[(String, Vec<PartialObjectMetadata>)],
    ) -> Result<(), CallError> {
        let mut conditions = namespace.status.conditions.clone();
        for condition in left_conditions(left, Timestamp::now()) {
            set_condition(&mut conditions, condition);
        }
        if conditions == namespace.status.conditions {
            return Ok(());
        }
        let status = json!({"conditions": conditions});
        match self.api.write_status(&NAMESPACES, &namespace.metadata, &status, Precondition::Uid).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the finalizer; the server then deletes the namespace.
    async fn finalize(&self, key: &NamespacedName) -> Result<(), CallError> {
        let Some(mut namespace): Option<Value> = self.api.get(&NAMESPACES, key).await? else { return Ok(()) };
        if let Some(finalizers) = namespace.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let path = format!("{}/{}/finalize", NAMESPACES.path(""), key.name());
        let request = call::with_json(Method::PUT, &path, &namespace);
        match self.api.send::<PartialObjectMetadata>(request).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

/// The conditions that block the deletion of a namespace, as `kubectl describe` shows them.
fn left_conditions(left: &[(String, Vec<PartialObjectMetadata>)], now: Timestamp) -> [Condition; 2] {
    let many = |n: usize| if n == 100 { "at least 100".to_owned() } else { n.to_string() };
    let content: Vec<String> = left
        .iter()
        .map(|(name, objects)| format!("{name}. has {} resource instances", many(objects.len())))
        .collect();
    let finalizers = left.iter().flat_map(|(_, objects)| objects).flat_map(|o| &o.metadata.finalizers);
    let finalizers: std::collections::BTreeSet<&str> = finalizers.map(String::as_str).collect();
    let remaining = if content.is_empty() {
        (
            "NamespaceContentRemaining",
            "False",
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        )
    } else {
        let message = format!("Some resources are remaining: {}", content.join(", "));
        ("NamespaceContentRemaining", "True", "SomeResourcesRemain", message)
    };
    let held = if finalizers.is_empty() {
        let message = "All content-preserving finalizers finished".to_owned();
        ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", message)
    } else {
        let names: Vec<&str> = finalizers.into_iter().collect();
        let message = format!("Some content in the namespace has finalizers remaining: {}", names.join(", "));
        ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", message)
    };
    [remaining, held]
        .map(|(kind, status, reason, message)| Condition::new(kind, status, reason, message, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_list_remaining_objects_and_finalizers() {
        let object = |finalizers: Value| -> PartialObjectMetadata {
            serde_json::from_value(json!({"metadata": {"finalizers": finalizers}})).unwrap()
        };
        let left = [("pods".to_owned(), vec![object(json!(["x/y"])), object(json!(null))])];
        let [content, finalizers] = left_conditions(&left, Timestamp::UNIX_EPOCH);
        assert_eq!(content.message, "Some resources are remaining: pods. has 2 resource instances");
        assert_eq!((finalizers.status.as_str(), finalizers.message.ends_with(": x/y")), ("True", true));
        assert!(
            left_conditions(&[], Timestamp::UNIX_EPOCH).iter().all(|condition| condition.status == "False")
        );
    }
}
