//! Records all events of nodes, namespaces, pods and volume objects for checks.

use std::sync::{Arc, Mutex, PoisonError};

use berth_api::config::Profile;
use berth_api::object::VolumeKind;
use berth_api::read::Kind;
use berth_client::watch::{Event, WatchOptions, watch};
use berth_testkit::history::{Bindings, History, Object};
use berth_testkit::naive::Options;
use kube::Client;
use serde_json::Value;

use crate::client::eventually;

/// Maximum number of changes that a scheduler lags behind, and of concurrent bindings.
const LAG: usize = 64;

/// Records the events of a cluster.
pub struct Record {
    history: Arc<Mutex<History>>,
}

impl Record {
    /// Starts to record.
    pub async fn open(client: &Client) -> Record {
        let history = Arc::<Mutex<History>>::default();
        let n_listed = Arc::<Mutex<usize>>::default();
        let volumes = VolumeKind::ALL.map(Kind::Volume);
        let kinds: Vec<Kind> = [Kind::Node, Kind::Namespace, Kind::Pod].into_iter().chain(volumes).collect();
        for kind in &kinds {
            keep(client.clone(), *kind, &history, n_listed.clone());
        }
        eventually("everything is listed", async || {
            let n_listed = *locked(&n_listed);
            if n_listed >= kinds.len() { Ok(()) } else { Err(format!("{n_listed} kinds")) }
        })
        .await;
        Record { history }
    }

    /// Checks that every pod was bound once and according to its rules.
    pub fn bindings(&self) -> Bindings {
        locked(&self.history).bindings(&Profile::default(), &Options::default(), LAG)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(client: Client, kind: Kind, history: &Arc<Mutex<History>>, n_listed: Arc<Mutex<usize>>) {
    let path = kind.resource().expect("the API server has this kind").path("");
    let mut objects = watch::<Value>(client, WatchOptions::new(&path));
    let history = Arc::downgrade(history);
    let typed = move |object| Object::decode(kind, object);
    tokio::spawn(async move {
        while let (Some(event), Some(history)) = (objects.next().await, history.upgrade()) {
            let mut history = locked(&history);
            match event {
                Event::Restarted(objects) => {
                    history.saw_all(kind, objects.into_iter().map(typed).collect());
                    *locked(&n_listed) += 1;
                }
                Event::Applied(object) => history.saw(typed(object)),
                Event::Deleted(object) => history.saw_gone(&typed(object)),
            }
        }
    });
}
