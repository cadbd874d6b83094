//! Restarts of the processes.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::super::watched::within;
use super::Bind;
use super::loaded::Loaded;
use super::observed::Scheduler;
use crate::error::BenchError;

/// Pods that a restarted scheduler finds pending.
const N_PENDING: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(600);
const PERIOD: Duration = Duration::from_millis(10);

/// How long the processes need after they were killed, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failures {
    /// From the start of the API server until it serves; with `--restart`, like the next.
    pub server_restart_seconds: Option<f64>,
    /// From the start of the scheduler to its first binding.
    pub scheduler_restart_seconds: Option<f64>,
}

impl Failures {
    /// Kills the processes, and starts them again.
    ///
    /// # Errors
    /// A process cannot be started, or no pod is bound in time.
    pub async fn restart(
        &mut self,
        bind: &Bind,
        cluster: &mut Loaded,
        scheduler: Scheduler,
    ) -> Result<(), BenchError> {
        drop(scheduler);
        let begin = Instant::now();
        cluster.restart_server().await?;
        self.server_restart_seconds = Some(begin.elapsed().as_secs_f64());
        cluster.add_pods(N_PENDING).await?;
        let begin = Instant::now();
        let scheduler = Scheduler::start(bind, &cluster.kubeconfig())?;
        let bound = async {
            while scheduler.n_bound().await == 0 {
                tokio::time::sleep(PERIOD).await;
            }
        };
        within(TIMEOUT, "the restarted scheduler binds a pod", bound).await?;
        self.scheduler_restart_seconds = Some(begin.elapsed().as_secs_f64());
        Ok(())
    }
}
