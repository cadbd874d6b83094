//! Logging of the components to standard error: warnings and errors unless more is requested.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// The verbosity.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LogArgs {
    /// Increase verbosity of the log on standard error: -v info, -vv debug, -vvv trace
    ///
    /// By default, only warnings and errors are logged. The environment variable BERTH_LOG overrides this option; example:
    /// `info,berth_scheduler=debug`.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl LogArgs {
    /// At least the level `info`, for commands whose output is the log.
    pub fn at_least_info(self) -> LogArgs {
        LogArgs { verbose: self.verbose.max(1) }
    }

    /// Starts logging for the whole process; a second call has no effect.
    pub fn start(self) {
        let berth = match self.verbose {
            0 => "warn",
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        // Logs of dependencies, such as connections, are only useful for tracing.
        let others = if self.verbose > 2 { "debug" } else { "error" };
        // A directive applies to all targets with its prefix: `berth_scheduler` and the other crates.
        // The client library logs every failed request as an error; its caller logs those that matter.
        let client = if self.verbose > 2 { "debug" } else { "off" };
        let default = format!("{others},kube_client={client},berth={berth}");
        let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new(default));
        let is_colored = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(is_colored)
            .try_init();
    }
}
