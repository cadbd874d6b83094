//! Simulated nodes: heartbeats, node admission, and pods that become Running and Ready, and end as Jobs' pods do.
//!
//! They talk to any API server over HTTP, with the identities of the nodes. They never run a container. Thousands of
//! nodes share one process: one task that decides, one connection pool, and one watch each for nodes, namespaces and
//! bound pods. A pod costs two writes: its running status and its removal.

mod address;
mod admission;
mod agent;
mod control;
mod device;
mod event;
mod node;
mod options;
mod pod;
mod request;
mod selector;
mod timer;
mod volume;

use std::sync::Arc;

use berth_client::connect::Connection;
use berth_rules::SelectorError;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use berth_client::connect::ConnectError;

use self::agent::Agent;
use self::control::{Command, Counts};
pub use self::control::{ControlError, NodeControl, Status};
pub use self::device::{DeviceTemplate, DeviceTemplateError, run_device_driver};
pub use self::node::{CsiDriverTemplate, NodeTemplate, NodeTemplateError};
pub use self::options::{Adopt, Heartbeat, KubeletOptions, NodeCredentials, PodTimings, TokenOf};
pub use self::pod::annotation;
use self::request::Caller;

const MAX_COMMANDS: usize = 64;

pub struct Kubelet {
    agent: Agent,
    commands: mpsc::Receiver<Command>,
    control: NodeControl,
}

#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Template(#[from] NodeTemplateError),
    /// The label selector of existing nodes cannot be parsed.
    #[error("label selector of existing nodes: {0}")]
    Selector(#[from] SelectorError),
    /// Two simulated nodes have the same name.
    #[error("two simulated nodes are named {name:?}: give the templates different name prefixes")]
    SameName { name: String },
}

impl Kubelet {
    /// Prepares the nodes. It sends no request; [`Kubelet::run`] does.
    ///
    /// # Errors
    /// A template, the label selector or the client configuration is invalid, or two nodes have the same name.
    pub fn new(connection: impl Into<Connection>, options: KubeletOptions) -> Result<Kubelet, KubeletError> {
        let caller = Caller::new(connection.into(), options.credentials.clone(), options.request_timeout)?;
        let selection = selector::NodeSelection::parse(&options.adopt)?;
        let mut nodes = Vec::new();
        for template in &options.templates {
            nodes.extend(template.nodes()?);
        }
        for node in &mut nodes {
            node.status.node_info.kubelet_version = options.version();
        }
        let mut names: Vec<_> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(KubeletError::SameName { name: pair[0].to_owned() });
        }
        let counts = Arc::new(Counts::default());
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let control = NodeControl { counts: counts.clone(), commands: sender };
        Ok(Kubelet { agent: Agent::new(options, selection, caller, nodes, counts), commands, control })
    }

    /// A handle that counts, stops and starts the nodes.
    pub fn control(&self) -> NodeControl {
        self.control.clone()
    }

    /// Runs the nodes until `stop`. Failed requests are retried until then.
    ///
    /// The nodes and their pods stay in the API. After a restart the nodes resume the pods that run.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        // Without this handle, the command channel closes when all other handles are dropped.
        drop(self.control);
        self.agent.run(self.commands, stop).boxed()
    }
}

/// Runs simulated nodes until `stop`: [`Kubelet::new`] and [`Kubelet::run`] in one.
pub async fn run(
    connection: impl Into<Connection>,
    options: KubeletOptions,
    stop: CancellationToken,
) -> Result<(), KubeletError> {
    Kubelet::new(connection, options)?.run(stop).await;
    Ok(())
}
