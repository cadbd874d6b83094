//! Errors of commands.

use std::fmt;
use std::io;
use std::path::PathBuf;

use berth_api::read::SourceLocation;
use berth_client::apply::ApplyError;
use berth_control::expand::ExpandError;
use berth_input::config::ConfigErrors;
use berth_input::inventory::InputError;
use berth_simulate::SimulationError;
use berth_terminal::input::OpenError;
use berth_terminal::runtime::RuntimeError;

use crate::cluster::components::ComponentError;
use crate::installation::InstallError;
use crate::live::LiveError;
use crate::recordings::RecordingError;

/// Why a command failed. The message names the object, the field and the remedy, with one finding per line.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A workload cannot be expanded to its pods.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// A configuration file is not valid.
    #[error("{}", EachAt { place, errors })]
    Config { place: SourceLocation, errors: ConfigErrors },
    #[error("{file}: no KubeSchedulerConfiguration found")]
    NoConfig { file: String },
    #[error(
        "{second}: a second KubeSchedulerConfiguration after {first}: remove one, or select one with --config"
    )]
    SeveralConfigs { first: SourceLocation, second: SourceLocation },
    /// Fields that the types of their kinds do not have.
    #[error("{}", .0.join("\n"))]
    UnknownFields(Vec<String>),
    #[error("the input has no pods and no nodes: give a cluster with -f, --dump or --live")]
    NoPodsAndNodes,
    #[error("too large for all checks:\n{}\ncheck the largest objects one by one, or disable these rules", .0.join("\n"))]
    Incomplete(Vec<String>),
    /// The requested object does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Threads or signal handlers cannot be created.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A component of a running cluster failed.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// A cluster has more than the command may keep.
    #[error(transparent)]
    Watch(#[from] berth_client::WatchFailure),
    /// The API server cannot be started.
    #[error(transparent)]
    Start(#[from] berth_apiserver::StartError),
    #[error("{place}: {error}")]
    Devices { place: SourceLocation, error: Box<berth_kubelet::DeviceTemplateError> },
    #[error(transparent)]
    Kubelet(#[from] berth_kubelet::KubeletError),
    #[error(transparent)]
    Scheduler(#[from] berth_scheduler::SchedulerError),
    #[error(transparent)]
    Webhook(#[from] berth_admission::server::ServerError),
    #[error(transparent)]
    Console(#[from] berth_console_server::StartError),
    #[error(transparent)]
    Token(#[from] berth_console_server::RandomnessError),
    #[error(transparent)]
    Enforcer(#[from] berth_enforcer::EnforcerError),
    #[error(transparent)]
    Import(#[from] berth_apiserver::ImportError),
    /// The installation manifests cannot be generated.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The client for a cluster cannot be created.
    #[error(transparent)]
    Connect(#[from] berth_client::connect::ConnectError),
    /// A call to the API server failed.
    #[error(transparent)]
    Call(#[from] berth_client::call::CallError),
    #[error(transparent)]
    List(#[from] berth_client::watch::ListError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A file or directory cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
}

struct EachAt<'a> {
    place: &'a SourceLocation,
    errors: &'a ConfigErrors,
}

impl fmt::Display for EachAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.0.iter().enumerate() {
            let line_end = if i > 0 { "\n" } else { "" };
            write!(f, "{line_end}{}: {error}", self.place)?;
        }
        Ok(())
    }
}
