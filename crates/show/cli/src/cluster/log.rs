//! Logging of the components to standard error: warnings and errors unless more is requested.

use std::fmt::Debug;
use std::io::IsTerminal;

use berth_terminal::wrap::harmless;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

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
            .fmt_fields(escaped_fields())
            .with_ansi(is_colored)
            .try_init();
    }
}

/// Writes the fields of events: names and messages of a cluster are escaped.
fn escaped_fields() -> impl for<'a> FormatFields<'a> + 'static {
    let field = |out: &mut Writer<'_>, field: &Field, value: &dyn Debug| {
        let text = harmless(&format!("{value:?}"));
        if field.name() == "message" { out.write_str(&text) } else { write!(out, "{field}={text}") }
    };
    debug_fn(field).delimited(" ")
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use berth_api::syntax::obeyed::is_obeyed;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_of_the_server_began_a_line_of_the_log() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .fmt_fields(escaped_fields());
        let hostile = "x\n::error::y\r\u{9b}2J\u{202e} ##[error]z";
        tracing::subscriber::with_default(subscriber.finish(), || {
            tracing::warn!(path = hostile, key = %hostile, "failed: {hostile}");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(
            text.ends_with('\n') && !text.trim_end().contains(is_obeyed) && !text.contains("##["),
            "{text}"
        );
    }
}
