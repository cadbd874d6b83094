//! Records all events of nodes, namespaces, pods and volume objects for checks.

use std::sync::{Arc, Mutex, PoisonError};

use berth_api::config::Profile;
use berth_api::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use berth_api::object::{Namespace, Node, Pod};
use berth_client::watch::{Event, WatchOptions, watch};
use berth_testkit::history::{Bindings, History, Tracked};
use berth_testkit::naive::Options;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::eventually;

/// Maximum number of changes that a scheduler lags behind, and of concurrent bindings.
const LAG: usize = 64;
/// Nodes, namespaces, pods, and seven kinds of volume objects.
const N_KINDS: usize = 10;

/// Records the events of a cluster.
pub struct Record {
    history: Arc<Mutex<History>>,
}

impl Record {
    /// Starts to record.
    pub async fn open(client: &Client) -> Record {
        let history = Arc::<Mutex<History>>::default();
        let n_listed = Arc::<Mutex<usize>>::default();
        let (core, storage) = ("/api/v1", "/apis/storage.k8s.io/v1");
        macro_rules! keep {
            ($($kind:ident $group:ident $name:literal;)*) => {
                $(keep::<$kind>(client.clone(), &format!("{}/{}", $group, $name), &history, n_listed.clone());)*
            };
        }
        keep! {
            Node core "nodes";
            Namespace core "namespaces";
            Pod core "pods";
            PersistentVolume core "persistentvolumes";
            PersistentVolumeClaim core "persistentvolumeclaims";
            StorageClass storage "storageclasses";
            CsiNode storage "csinodes";
            CsiDriver storage "csidrivers";
            CsiStorageCapacity storage "csistoragecapacities";
            VolumeAttachment storage "volumeattachments";
        }
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

fn keep<T>(client: Client, path: &str, history: &Arc<Mutex<History>>, n_listed: Arc<Mutex<usize>>)
where
    T: Tracked + DeserializeOwned + Send + 'static,
{
    let mut objects = watch::<Value>(client, WatchOptions::new(path));
    let history = Arc::downgrade(history);
    let typed = |object| serde_json::from_value::<T>(object).expect("an object of its type");
    tokio::spawn(async move {
        while let (Some(event), Some(history)) = (objects.next().await, history.upgrade()) {
            let mut history = locked(&history);
            match event {
                Event::Restarted(objects) => {
                    history.saw_all(objects.into_iter().map(typed).collect());
                    *locked(&n_listed) += 1;
                }
                Event::Applied(object) => history.saw(typed(object)),
                Event::Deleted(object) => history.saw_gone(typed(object)),
            }
        }
    });
}
