//! Writes plan and progress to a ConfigMap.

use std::time::Duration;

use berth_client::Backoff;
use berth_client::lease::Leadership;
use berth_client::ledger::{Ledger, LedgerClient};
use serde_json::Value;
use tokio::sync::watch;

use super::progress::Progress;

pub const STATUS_NAME: &str = "berth-rebalance";
pub const STATUS_KEY: &str = "status.json";
/// Says in the ConfigMap what it is for.
pub(crate) const DESCRIPTION: &str =
    "What Berth's enforcer rebalances: the plan, how far it is, and which pods stay for which reason.";

/// At most one write in this time.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the task leaves what is to be written.
pub(crate) struct StatusWriter {
    progress: watch::Sender<Progress>,
}

impl StatusWriter {
    /// Starts writing. It ends when the writer is dropped.
    pub(crate) fn start(client: LedgerClient, leadership: Leadership) -> StatusWriter {
        let (progress, receiver) = watch::channel(Progress::default());
        tokio::spawn(write(client, leadership, receiver));
        StatusWriter { progress }
    }

    /// What the ConfigMap is to say.
    pub(crate) fn set(&self, progress: &Progress) {
        self.progress.send_if_modified(|shown| {
            let is_other = shown != progress;
            if is_other {
                shown.clone_from(progress);
            }
            is_other
        });
    }
}

async fn write(client: LedgerClient, leadership: Leadership, mut progress: watch::Receiver<Progress>) {
    let mut backoff = Backoff::new(PAUSE, Duration::from_secs(30));
    let mut known: Option<Ledger<Value>> = None;
    while progress.changed().await.is_ok() {
        loop {
            if !leadership.leads() {
                known = None;
                break;
            }
            let text = serde_json::to_value(&*progress.borrow_and_update());
            let text = text.expect("texts, numbers and lists of them are JSON");
            let before = match known.take() {
                Some(before) => Ok(before),
                None => client.read().await,
            };
            let written = match before {
                Ok(before) => client.write(before, text).await,
                Err(error) => Err(error),
            };
            match written {
                Ok(ledger) => {
                    known = Some(ledger);
                    backoff.succeeded();
                    break;
                }
                Err(error) => {
                    tracing::warn!("the status of rebalancing is not written: {error}");
                    tokio::time::sleep(backoff.failed(fastrand::f64())).await;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
