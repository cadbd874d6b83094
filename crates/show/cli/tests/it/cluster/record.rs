//! Records all events of nodes, namespaces, pods and volume objects for checks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::object::VolumeKind;
use berth_api::resource::{NAMESPACES, NODES, PODS, Resource};
use berth_client::watch::{Event, WatchOptions, watch};
use berth_input::config::Profile;
use berth_testkit::check::bindings::{Schedulers, attempts, check};
use berth_testkit::check::history::{Change, Changes, bound_twice, steps, text};
use kube::Client;
use serde_json::Value;

use crate::client::eventually;

/// How far a scheduler's watches may lag.
const LAG: Duration = Duration::from_secs(5);

/// Records the events of a cluster.
pub struct Record {
    changes: Arc<Mutex<Changes>>,
}

impl Record {
    /// Starts to record.
    pub async fn open(client: &Client) -> Record {
        let changes = Arc::<Mutex<Changes>>::default();
        let n_listed = Arc::<Mutex<usize>>::default();
        let volumes = VolumeKind::ALL.map(VolumeKind::resource);
        let kinds: Vec<Resource> = [NODES, NAMESPACES, PODS].into_iter().chain(volumes).collect();
        let begin = Instant::now();
        for kind in &kinds {
            keep(client.clone(), *kind, begin, &changes, n_listed.clone());
        }
        eventually("everything is listed", async || {
            let n_listed = *locked(&n_listed);
            if n_listed >= kinds.len() { Ok(()) } else { Err(format!("{n_listed} kinds")) }
        })
        .await;
        Record { changes }
    }

    /// How many pods were bound, and those that were bound twice or against a rule.
    pub fn bindings(&self) -> (usize, Vec<String>) {
        let changes = locked(&self.changes);
        let steps = steps(&changes, 0);
        let attempts = attempts(&steps);
        let schedulers =
            Schedulers { profile: Profile::default(), attempts: &attempts, lag: LAG, device_resource: None };
        let (n_bound, mut findings) = check(&steps, &schedulers);
        findings.extend(bound_twice(&changes));
        (n_bound, findings)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(
    client: Client,
    kind: Resource,
    begin: Instant,
    changes: &Arc<Mutex<Changes>>,
    n_listed: Arc<Mutex<usize>>,
) {
    let mut objects = watch::<Value>(client, WatchOptions::new(kind.path("")));
    let changes = Arc::downgrade(changes);
    tokio::spawn(async move {
        while let (Some(event), Some(changes)) = (objects.next().await, changes.upgrade()) {
            let note = |object: Value, deleted| {
                let version = text(&object["metadata"]["resourceVersion"]).parse().expect("a number");
                let change = Change { at: begin.elapsed(), kind: kind.kind.to_owned(), deleted, object };
                locked(&changes).insert(version, Arc::new(change));
            };
            match event {
                Event::Restarted(objects) => {
                    objects.into_iter().for_each(|object| note(object, false));
                    *locked(&n_listed) += 1;
                }
                Event::Applied(object) => note(object, false),
                Event::Deleted(object) => note(object, true),
            }
        }
    });
}
