//! Handle of the running agent: counts of nodes and pods; stopping and starting nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{mpsc, oneshot};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Nodes of this agent, including stopped ones and those not yet registered.
    pub nodes: usize,
    /// Nodes that are registered and send heartbeats.
    pub nodes_ready: usize,
    /// Pods on these nodes that have not started.
    pub pods_pending: usize,
    /// Pods whose containers run, ready or not.
    pub pods_running: usize,
    /// Pods that run and are ready.
    pub pods_ready: usize,
    /// Pods that ended or were rejected since the start, without deleted ones.
    pub pods_ended: usize,
}

/// The counters behind [`Status`]; only the agent writes them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) nodes: AtomicUsize,
    pub(crate) nodes_ready: AtomicUsize,
    pub(crate) pods_pending: AtomicUsize,
    pub(crate) pods_running: AtomicUsize,
    pub(crate) pods_ready: AtomicUsize,
    pub(crate) pods_ended: AtomicUsize,
}

/// A handle on a running [`crate::Kubelet`]; clones are the same handle.
#[derive(Clone, Debug)]
pub struct NodeControl {
    pub(crate) counts: Arc<Counts>,
    pub(crate) commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) node: String,
    pub(crate) power: Power,
    pub(crate) done: oneshot::Sender<Result<(), ControlError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    Off,
    On,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error("node {node:?} is not one of the simulated nodes, or has been deleted")]
    UnknownNode { node: String },
    #[error("the simulated nodes are not running")]
    NotRunning,
}

impl NodeControl {
    /// The current counts. Each one is exact; they are not read at the same instant.
    pub fn status(&self) -> Status {
        let counts = &*self.counts;
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Status {
            nodes: get(&counts.nodes),
            nodes_ready: get(&counts.nodes_ready),
            pods_pending: get(&counts.pods_pending),
            pods_running: get(&counts.pods_running),
            pods_ready: get(&counts.pods_ready),
            pods_ended: get(&counts.pods_ended),
        }
    }

    /// Stops a node: it sends no heartbeats, its pods do not change, and it ignores bindings and deletions. The node
    /// lifecycle controller marks it `NotReady`.
    ///
    /// # Errors
    /// The node does not belong to this agent, or the agent does not run.
    pub async fn stop_node(&self, node: &str) -> Result<(), ControlError> {
        self.command(node, Power::Off).await
    }

    /// Starts a stopped node. Its pods continue; changes that became due in the meantime happen now.
    pub async fn start_node(&self, node: &str) -> Result<(), ControlError> {
        self.command(node, Power::On).await
    }

    async fn command(&self, node: &str, power: Power) -> Result<(), ControlError> {
        let (done, answer) = oneshot::channel();
        let command = Command { node: node.to_owned(), power, done };
        self.commands.send(command).await.map_err(|_| ControlError::NotRunning)?;
        answer.await.unwrap_or(Err(ControlError::NotRunning))
    }
}
