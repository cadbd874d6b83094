//! Resource quotas: creations and changes are charged to the quotas of their namespace, or refused.
//!
//! A charge holds its namespace from the check until the object is written. So the used amounts are exact, whatever
//! requests run at the same time. What objects no longer use, [`Quotas::follow`] counts again from the stored objects, under the
//! same lock; that is why this is not a controller outside the API server. What objects use, and what quotas refuse, `berth_control`
//! says.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::object::{Pod, ResourceList, ResourceQuota};
use berth_api::read::from_value;
use berth_control::quota::{self, BY_PLURAL, DEVICES_OF_CLASS, OF_CLASS, Uses};
use berth_schema::resource::{
    PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCES, Resource, SERVICES,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use crate::request::{ApiResult, Status};
use crate::store::{Change, EventType, Filter, Object, Store, Write, WriteError, key};

const ATTEMPTS: usize = 64;
/// Changes within this time cause one count.
const SETTLE: Duration = Duration::from_millis(50);
/// How often all quotas are counted again; kube-controller-manager's `--resource-quota-sync-period`.
const RECOUNT: Duration = Duration::from_secs(300);
const EVENTS_AT_ONCE: usize = 1000;

/// What is charged for an object that is about to be written.
pub struct Charge {
    namespace: String,
    _held: OwnedMutexGuard<()>,
}

pub struct Quotas {
    store: Store,
    /// One lock for each namespace with quotas.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

struct Quota {
    object: Arc<Object>,
    value: Arc<Value>,
    typed: ResourceQuota,
}

/// What a stored object uses. It is read once: each count reads all objects of a namespace.
fn uses_of_stored(resource: &Resource, object: &Object) -> Arc<Uses> {
    match USING.contains(&resource) {
        true => object.kept(|value| Uses::of(resource, &value)),
        // The others count as one, whatever they contain.
        false => Arc::new(Uses::of(resource, &Value::Null)),
    }
}

/// The resource whose objects use an amount.
fn counted(name: &str) -> Option<&'static Resource> {
    let stored = || RESOURCES.iter().copied().filter(|resource| resource.stored().is_some());
    if let Some(counted) = name.strip_prefix("count/") {
        return stored().find(|resource| resource.group_resource() == counted);
    }
    if name == "requests.storage" || name.contains(OF_CLASS) {
        return Some(&PERSISTENT_VOLUME_CLAIMS);
    }
    if name.ends_with(DEVICES_OF_CLASS) {
        return Some(&RESOURCE_CLAIMS);
    }
    if name.starts_with("services.") {
        return Some(&SERVICES);
    }
    let by_plural = BY_PLURAL.iter().find(|resource| resource.plural == name);
    by_plural.map_or(Some(&PODS), |names| stored().find(|resource| resource.names == *names))
}

/// Resources whose objects use amounts that depend on what they contain.
const USING: [&Resource; 4] = [&PODS, &PERSISTENT_VOLUME_CLAIMS, &RESOURCE_CLAIMS, &SERVICES];

impl Quota {
    fn all(store: &Store, namespace: &str) -> Vec<Quota> {
        let (_, quotas) = store.list(&RESOURCE_QUOTAS, &Filter::in_namespace(namespace));
        let read = |object: Arc<Object>| {
            let value = object.parsed();
            let typed = from_value(&value).unwrap_or_default();
            Quota { object, value, typed }
        };
        quotas.into_iter().map(read).collect()
    }

    /// The used amounts: those in the status, and counted where the status lacks one.
    fn used(&self, store: &Store) -> ResourceList {
        quota::used_by_status(&self.typed).unwrap_or_else(|| self.count(store))
    }

    fn count(&self, store: &Store) -> ResourceList {
        let (mut used, now) = (quota::unused(&self.typed), Timestamp::now());
        let mut resources: Vec<&'static Resource> = Vec::new();
        for resource in self.typed.spec.hard.keys().filter_map(|name| counted(name)) {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        for resource in resources {
            let (_, objects) = store.list(resource, &Filter::in_namespace(self.object.facts.namespace()));
            let uses = objects.iter().map(|object| uses_of_stored(resource, object));
            for uses in uses.filter(|uses| uses.until.is_none_or(|until| now <= until)) {
                quota::add(&mut used, &self.typed, &uses);
            }
        }
        used
    }

    async fn write(&self, store: &Store, used: &ResourceList) -> Result<(), WriteError> {
        let status = json!({"hard": self.typed.spec.hard, "used": used});
        if self.value["status"] == status {
            return Ok(());
        }
        let mut value = Value::clone(&self.value);
        value["status"] = status;
        let change = Change::Release { expected: self.object.revision };
        store.write(Write { resource: &RESOURCE_QUOTAS, change, object: value.into() }).await.map(drop)
    }
}

impl Quotas {
    pub fn new(store: &Store) -> Quotas {
        Quotas { store: store.clone(), locks: Mutex::default() }
    }

    async fn lock(&self, namespace: &str) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            // Those without owners and without waiting requests.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(namespace.to_owned()).or_default().clone()
        };
        lock.lock_owned().await
    }

    /// Charges an object that is about to be created, or changed from `old`, to the quotas of its namespace. `admitted` is a pod that
    /// is created.
    ///
    /// # Errors
    /// A quota does not allow it.
    pub async fn charge(
        &self,
        resource: &'static Resource,
        new: &Value,
        old: Option<&Value>,
        admitted: Option<&Pod>,
        dry_run: bool,
    ) -> ApiResult<Option<Charge>> {
        let changes_usage = USING.contains(&resource);
        if !resource.namespaced
            || self.store.count(&RESOURCE_QUOTAS) == 0
            || (old.is_some() && !changes_usage)
        {
            return Ok(None);
        }
        let (namespace, name) = key(new);
        if Quota::all(&self.store, namespace).is_empty() {
            return Ok(None);
        }
        let uses = admitted.map_or_else(|| Uses::of(resource, new), Uses::of_pod);
        let had = old.map(|old| Uses::of(resource, old).amounts).unwrap_or_default();
        let more = uses.more_than(&had);
        let refused = |why: String| Status::forbidden(resource, name, &why);
        let charge = Charge { namespace: namespace.to_owned(), _held: self.lock(namespace).await };
        for _ in 0..ATTEMPTS {
            let mut writes = Vec::new();
            for quota in Quota::all(&self.store, namespace) {
                let typed = &quota.typed;
                if !quota::bounds(typed, &uses) {
                    continue;
                }
                if let Some(pod) = admitted {
                    quota::check_amounts(typed, pod).map_err(refused)?;
                }
                let used = || quota.used(&self.store);
                if let Some(used) = quota::charge(typed, used, &more).map_err(refused)? {
                    writes.push((quota, used));
                }
            }
            if dry_run {
                return Ok(None);
            }
            let mut failed = None;
            let any = !writes.is_empty();
            for (quota, used) in writes {
                failed = quota.write(&self.store, &used).await.err();
                if failed.is_some() {
                    break;
                }
            }
            let Some(error) = failed else { return Ok(any.then_some(charge)) };
            // Quotas that were written count too much.
            self.count_again(namespace).await;
            if !matches!(error, WriteError::Modified | WriteError::NotFound) {
                return Err(error.into_status(resource, name));
            }
        }
        Err(Status::internal("the quotas of the namespace change too often; try again"))
    }

    /// Ends a charge. If the object was not written, its quotas are counted again.
    pub async fn settle(&self, charge: Option<Charge>, is_written: bool) {
        if let Some(charge) = charge.filter(|_| !is_written) {
            self.count_again(&charge.namespace).await;
        }
    }

    /// Writes the used amounts of a namespace's quotas, counted from the stored objects. The caller holds the namespace.
    async fn count_again(&self, namespace: &str) {
        for quota in Quota::all(&self.store, namespace) {
            let used = quota.count(&self.store);
            if let Err(error) = quota.write(&self.store, &used).await {
                // A change in between causes another count.
                tracing::debug!(namespace, quota = quota.object.facts.name(), %error, "the usage of a quota was not written");
            }
        }
    }

    /// Counts again where objects are deleted or change, until the server stops. All are counted at the start and at intervals:
    /// a process that ends leaves charges for objects that it did not write.
    pub async fn follow(&self, stop: &CancellationToken) {
        let stored = RESOURCES
            .iter()
            .copied()
            .filter(|r| r.namespaced && r.stored().is_some_and(|s| std::ptr::eq(s, *r)));
        let stored: Vec<&'static Resource> = stored.collect();
        let mut quotas = self.store.changes(&RESOURCE_QUOTAS);
        let mut pods = self.store.changes(&PODS);
        let mut seen = self.store.revision();
        let mut recount = tokio::time::interval(RECOUNT);
        loop {
            let is_idle = self.store.count(&RESOURCE_QUOTAS) == 0;
            // Other objects than pods and quotas are looked at within a second.
            let is_due = tokio::select! {
                () = stop.cancelled() => return,
                _ = recount.tick() => true,
                _ = quotas.changed() => false,
                _ = pods.changed(), if !is_idle => false,
                () = tokio::time::sleep(Duration::from_secs(1)), if !is_idle => false,
            };
            tokio::time::sleep(SETTLE).await;
            let now = self.store.revision();
            if now == seen && !is_due {
                continue;
            }
            let (_, all) = self.store.list(&RESOURCE_QUOTAS, &Filter::default());
            let with_quotas: BTreeSet<&str> = all.iter().map(|quota| quota.facts.namespace()).collect();
            let mut changed = BTreeSet::new();
            for resource in stored.iter().filter(|_| !with_quotas.is_empty()) {
                match changed_namespaces(&self.store, resource, seen, &with_quotas) {
                    Some(namespaces) if !is_due => changed.extend(namespaces),
                    _ => changed.extend(with_quotas.iter().map(|&namespace| namespace.to_owned())),
                }
            }
            for namespace in changed {
                let _held = self.lock(&namespace).await;
                self.count_again(&namespace).await;
            }
            seen = now;
        }
    }
}

/// Those of some namespaces in which objects use less or something else since a version; `None` if the changes are not
/// known any more.
fn changed_namespaces(
    store: &Store,
    resource: &Resource,
    since: u64,
    among: &BTreeSet<&str>,
) -> Option<BTreeSet<String>> {
    let mut namespaces = BTreeSet::new();
    let mut since = since;
    loop {
        let (up_to, events) = store.events_for(resource, &Filter::default(), since, EVENTS_AT_ONCE).ok()?;
        for event in &events {
            let namespace = event.object.facts.namespace();
            if !among.contains(namespace) || namespaces.contains(namespace) {
                continue;
            }
            let changes = match (&event.previous, event.event_type) {
                (_, EventType::Deleted) => true,
                (None, _) => *resource == RESOURCE_QUOTAS,
                (Some(before), _) if *resource == RESOURCE_QUOTAS => {
                    before.value()["spec"] != event.object.value()["spec"]
                }
                (Some(before), _) => {
                    // Not kept: these may be objects of the history.
                    let [old, new] =
                        [before, &event.object].map(|object| Uses::of(resource, &object.value()));
                    old != new
                }
            };
            if changes {
                namespaces.insert(namespace.to_owned());
            }
        }
        if events.len() < EVENTS_AT_ONCE {
            return Some(namespaces);
        }
        since = up_to;
    }
}
