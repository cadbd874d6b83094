//! Simulated nodes: heartbeats, node admission, and pods that become Running, Ready and, as Jobs do, end.
//!
//! They talk to whatever API server they are given, over HTTP, as the nodes' own identities. No container is ever run.
//! Thousands of nodes share one process, one task that decides, one pool of connections and one watch each of nodes,
//! namespaces and bound pods. A pod costs two writes: one when it runs, one when it goes.

mod address;
mod admission;
mod agent;
mod control;
mod event;
mod node;
mod options;
mod pod;
mod request;
mod selector;
mod timer;

use std::sync::Arc;

use berth_api::rules::SelectorError;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use berth_client::connect::ConnectError;

use self::agent::Agent;
use self::control::{Command, Counts};
pub use self::control::{ControlError, NodeControl, Snapshot};
pub use self::node::{NodeTemplate, NodeTemplateError};
pub use self::options::{Adopt, Heartbeat, KubeletOptions, NodeCredentials, PodTimings, TokenOf};
pub use self::pod::annotation;
use self::request::Caller;

/// Commands that may wait for the agent.
const MAX_COMMANDS: usize = 64;

/// Simulated nodes that are ready to be started.
pub struct Kubelet {
    agent: Agent,
    commands: mpsc::Receiver<Command>,
    control: NodeControl,
}

/// Why nodes cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// The server cannot be talked to with this configuration.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nodes cannot be made like this.
    #[error(transparent)]
    Template(#[from] NodeTemplateError),
    /// The label selector of existing nodes cannot be parsed.
    #[error("label selector of existing nodes: {0}")]
    Selector(#[from] SelectorError),
    /// Two made nodes would be one.
    #[error("two of the nodes to make are named {name:?}: give the templates different name prefixes")]
    SameName {
        /// The name.
        name: String,
    },
}

impl Kubelet {
    /// Prepares the nodes. Nothing is sent before [`Kubelet::run`].
    ///
    /// # Errors
    /// The options contradict each other, or the client configuration cannot be used.
    pub fn new(config: &kube::Config, options: KubeletOptions) -> Result<Kubelet, KubeletError> {
        let caller = Caller::new(config, options.credentials.clone(), options.request_timeout)?;
        let selection = selector::NodeSelection::parse(&options.adopt)?;
        let mut made = Vec::new();
        for template in &options.make {
            made.extend(template.nodes()?);
        }
        let mut names: Vec<_> = made.iter().map(|node| node.metadata.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(KubeletError::SameName { name: pair[0].to_owned() });
        }
        let counts = Arc::new(Counts::default());
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let control = NodeControl { counts: counts.clone(), commands: sender };
        Ok(Kubelet { agent: Agent::new(options, selection, caller, made, counts), commands, control })
    }

    /// The handle by which the nodes are looked at and switched off and on.
    pub fn control(&self) -> NodeControl {
        self.control.clone()
    }

    /// Runs the nodes until `stop`. What the server refuses or cannot do is tried again for as long as that.
    ///
    /// The nodes and their pods stay in the API. Started again, the nodes go on with pods that run.
    pub async fn run(self, stop: CancellationToken) {
        // With the handle dropped, commands end when all other handles are gone.
        drop(self.control);
        self.agent.run(self.commands, stop).await;
    }
}

/// Runs simulated nodes until `stop`: [`Kubelet::new`] and [`Kubelet::run`] in one.
///
/// # Errors
/// As [`Kubelet::new`].
pub async fn run(
    config: kube::Config,
    options: KubeletOptions,
    stop: CancellationToken,
) -> Result<(), KubeletError> {
    Kubelet::new(&config, options)?.run(stop).await;
    Ok(())
}
