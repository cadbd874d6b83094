//! What the offline commands say is what the cluster does: the same changes, on the same objects, in a simulation (`what-if`) and in the
//! cluster, without faults. After each change the pods of each workload are compared: how many run, on which nodes if that is no choice of the
//! scheduler's, how many are pending and why, how many are not created.

mod budgets;
pub mod reference;
mod scene;
mod states;
mod user;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_client::connect;
use futures::FutureExt;

use self::scene::Scene;
use self::user::{Pace, User};
use crate::cluster::Cluster;
use crate::run::{RunReport, start};

/// From this seed on, nothing fails, and the answers of offline commands are compared with what the cluster does.
pub const FIRST_SEED: u64 = 11_000_000;

/// A run that has not ended after this time never settles.
const LONGEST: Duration = Duration::from_secs(40_000);

/// Runs a seed, once the platform simulates. A process runs only one.
pub fn run(seed: u64) -> RunReport {
    let mut rng = start(seed);
    let scene = Arc::new(Scene::new(&mut rng));
    let report: Arc<Mutex<Option<Vec<String>>>> = Arc::default();
    let of_user = report.clone();
    let mut cluster = Cluster::without_faults(rng, |connection, switches| {
        Box::new(move || {
            let client = connect::client(connection()).expect("a transport always makes a client");
            let (user, scene) = (User::new(client, switches.clone(), Pace::Simulated), scene.clone());
            let report = of_user.clone();
            async move {
                let findings = user.compare(&scene).await;
                *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(findings);
                std::future::pending::<()>().await;
            }
            .boxed()
        })
    });
    let mut end = Duration::ZERO;
    let findings = loop {
        end += Duration::from_secs(10);
        cluster.run_until(end);
        if let Some(findings) = report.lock().unwrap_or_else(PoisonError::into_inner).take() {
            break findings;
        }
        if end > LONGEST {
            break vec!["the user has not finished".to_owned()];
        }
    };
    let (_, n_requests) = cluster.network.counts();
    RunReport { seed, seconds: end.as_secs(), n_requests, findings, ..RunReport::default() }
}
