//! Records all events of nodes, namespaces and pods for checks.

use std::sync::{Arc, Mutex, PoisonError};

use berth_api::config::Profile;
use berth_api::object::{Namespace, Node, Pod};
use berth_client::KubeObject;
use berth_client::watch::{Event, WatchOptions, watch};
use berth_testkit::history::{Bindings, History, Tracked};
use berth_testkit::naive::Options;
use kube::Client;
use serde::de::DeserializeOwned;

use crate::client::eventually;

/// Maximum number of changes that a scheduler lags behind, and of concurrent bindings.
const LAG: usize = 64;
/// Nodes, namespaces and pods.
const N_KINDS: usize = 3;

/// Records the events of a cluster.
pub struct Record {
    history: Arc<Mutex<History>>,
}

impl Record {
    /// Starts to record.
    pub async fn open(client: &Client) -> Record {
        let history = Arc::<Mutex<History>>::default();
        let n_listed = Arc::<Mutex<usize>>::default();
        keep::<Node>(client.clone(), &history, n_listed.clone());
        keep::<Namespace>(client.clone(), &history, n_listed.clone());
        keep::<Pod>(client.clone(), &history, n_listed.clone());
        eventually("everything is listed", async || {
            let n_listed = *locked(&n_listed);
            if n_listed >= N_KINDS { Ok(()) } else { Err(format!("{n_listed} kinds")) }
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

trait Followed: KubeObject + DeserializeOwned + Tracked + Send + 'static {
    const PATH: &str;
}

impl Followed for Node {
    const PATH: &str = "/api/v1/nodes";
}

impl Followed for Namespace {
    const PATH: &str = "/api/v1/namespaces";
}

impl Followed for Pod {
    const PATH: &str = "/api/v1/pods";
}

fn keep<T: Followed>(client: Client, history: &Arc<Mutex<History>>, n_listed: Arc<Mutex<usize>>) {
    let mut objects = watch::<T>(client, WatchOptions::new(T::PATH));
    let history = Arc::downgrade(history);
    tokio::spawn(async move {
        while let (Some(event), Some(history)) = (objects.next().await, history.upgrade()) {
            let mut history = locked(&history);
            match event {
                Event::Restarted(objects) => {
                    history.saw_all(objects);
                    *locked(&n_listed) += 1;
                }
                Event::Applied(object) => history.saw(object),
                Event::Deleted(object) => history.saw_gone(object),
            }
        }
    });
}
