//! What makes a command give up.

use std::fmt;
use std::io;
use std::path::PathBuf;

use berth_api::config::ConfigErrors;
use berth_api::read::{InputError, SourceLocation};
use berth_bench::load::LoadError;
use berth_bench::workload::WorkloadError;
use berth_simulate::SimulationError;

use crate::cluster::apply::ApplyError;
use crate::cluster_bench::ClusterBenchError;
use crate::input::OpenError;
use crate::installation::InstallError;
use crate::live::LiveError;
use crate::recordings::RecordingError;

/// Why a command could not do its work. The text names the object, the field and the remedy; of several
/// findings each is on a line of its own.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// Input cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Objects cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A live cluster cannot be read.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The objects are not valid.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A benchmark file cannot be used.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A dump cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A configuration file is not valid.
    #[error("{}", EachAt { place, errors })]
    Config {
        /// Where it was read.
        place: SourceLocation,
        /// What is wrong with it.
        errors: ConfigErrors,
    },
    /// A configuration file without a configuration.
    #[error("{file}: no KubeSchedulerConfiguration in it")]
    NoConfig {
        /// The file.
        file: String,
    },
    /// More than one scheduler configuration.
    #[error(
        "{second}: a second KubeSchedulerConfiguration, after {first}: remove one, or choose with --config"
    )]
    SeveralConfigs {
        /// Where the first is.
        first: SourceLocation,
        /// Where the second is.
        second: SourceLocation,
    },
    /// What was asked for is not there.
    #[error("{0}")]
    NotFound(String),
    /// No threads or signals for a cluster.
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    /// Somebody did not want to wait for the end.
    #[error("interrupted")]
    Interrupted,
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// A part of a running cluster gave up.
    #[error("{name}: {reason}")]
    Part {
        /// Which.
        name: &'static str,
        /// Why.
        reason: String,
    },
    /// The API server cannot be started.
    #[error(transparent)]
    Start(#[from] berth_apiserver::StartError),
    /// Nodes cannot be simulated.
    #[error(transparent)]
    Kubelet(#[from] berth_kubelet::KubeletError),
    /// A scheduler cannot go on.
    #[error(transparent)]
    Scheduler(#[from] berth_scheduler::SchedulerError),
    /// Webhooks cannot be served.
    #[error(transparent)]
    Webhook(#[from] berth_admission::server::ServerError),
    /// An enforcer cannot go on.
    #[error(transparent)]
    Enforcer(#[from] berth_enforcer::EnforcerError),
    /// A dump cannot be imported.
    #[error(transparent)]
    Import(#[from] berth_apiserver::ImportError),
    /// No manifests for an installation.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// There is no client for a cluster.
    #[error(transparent)]
    Connect(#[from] berth_client::connect::ConnectError),
    /// A cluster does not answer as wished.
    #[error(transparent)]
    Call(#[from] berth_client::call::CallError),
    /// A cluster is not measured.
    #[error(transparent)]
    ClusterBench(#[from] ClusterBenchError),
    /// Manifests are not applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A file or directory cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Objects cannot be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser_error::Error),
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
