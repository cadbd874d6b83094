//! What the running parts say of themselves, to standard error: quiet unless something is wrong.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// How much is told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LogArgs {
    /// Tell more on standard error: -v what happens, -vv why, -vvv every step
    ///
    /// Without it, only what is wrong is told. BERTH_LOG overrules it, in the form `info,berth_scheduler=debug`.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl LogArgs {
    /// The same, but for a command whose work it is to tell what happens.
    pub fn telling(self) -> LogArgs {
        LogArgs { verbose: self.verbose.max(1) }
    }

    /// Makes it hold for the whole process. Asked for twice, the first stays.
    pub fn start(self) {
        let berth = match self.verbose {
            0 => "warn",
            1 => "info",
            2 => "debug",
            _ => "trace",
        };
        // What the client and the connections say is of interest only to who looks for every step.
        let others = if self.verbose > 2 { "debug" } else { "error" };
        let crates = [
            "admission",
            "apiserver",
            "cli",
            "client",
            "controllers",
            "enforcer",
            "kubelet",
            "mirror",
            "scheduler",
        ];
        let mine = crates.map(|name| format!("berth_{name}={berth}"));
        let default = format!("{others},berth={berth},{}", mine.join(","));
        let filter = EnvFilter::try_from_env("BERTH_LOG").unwrap_or_else(|_| EnvFilter::new(default));
        let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(is_coloured)
            .try_init();
    }
}
