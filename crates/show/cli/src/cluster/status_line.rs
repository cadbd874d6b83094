//! The live summary of a running cluster on standard error: two lines that are redrawn on a terminal, or a new line for
//! each change elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use berth_terminal::wrap::harmless;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::observed::Tally;
use berth_api::syntax::format::{counted, grouped};

const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval between two lines elsewhere.
const LINE_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum length of a message, in characters.
const MAX_MESSAGE: usize = 300;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnforcerStatus {
    n_evicted: u64,
    /// Violated rules that are required during execution.
    n_violated: usize,
    /// Violated rules without an eviction although their grace period is over.
    n_held: usize,
    /// Whether the cluster limit has stopped all evictions.
    is_limited: bool,
}

impl EnforcerStatus {
    pub fn new(status: &berth_enforcer::Status) -> EnforcerStatus {
        EnforcerStatus {
            n_evicted: status.n_evicted,
            n_violated: status.n_violated,
            n_held: status.held.values().sum(),
            is_limited: status.is_stopped,
        }
    }
}

/// The output of the summary.
pub enum StatusLine {
    Hidden,
    /// Two lines, redrawn in place.
    Terminal {
        /// Draws the two lines.
        bars: MultiProgress,
        counts: ProgressBar,
        /// The most frequent reason for pending pods.
        pending: ProgressBar,
    },
    /// A new line for each change.
    Lines {
        last: String,
    },
}

impl StatusLine {
    /// The output for this standard error.
    pub fn new(is_enabled: bool) -> StatusLine {
        if !is_enabled {
            return StatusLine::Hidden;
        }
        if !io::stderr().is_terminal() {
            return StatusLine::Lines { last: String::new() };
        }
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
        };
        let bars = MultiProgress::new();
        let counts = bars.add(ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}")));
        let pending = bars.add(ProgressBar::new_spinner().with_style(style("  {wide_msg}")));
        StatusLine::Terminal { bars, counts, pending }
    }

    /// How often to call [`StatusLine::show`].
    pub fn interval(&self) -> Duration {
        match self {
            StatusLine::Terminal { .. } => TERMINAL_INTERVAL,
            StatusLine::Hidden | StatusLine::Lines { .. } => LINE_INTERVAL,
        }
    }

    pub fn show(&mut self, tally: &Tally, binds_per_second: f64, enforcer: &EnforcerStatus) {
        match self {
            StatusLine::Hidden => {}
            StatusLine::Terminal { counts, pending, .. } => {
                counts.set_message(counts_line(tally, binds_per_second, enforcer));
                counts.tick();
                pending.set_message(harmless(&pending_line(tally).unwrap_or_default()));
                pending.tick();
            }
            StatusLine::Lines { last } => {
                if let Some(line) = new_line(last, tally, enforcer) {
                    // There is no other output when standard error is closed.
                    let _: io::Result<()> = writeln!(io::stderr().lock(), "{}", harmless(&line));
                    *last = line;
                }
            }
        }
    }

    /// Runs `write`, which writes to standard error, without disturbing the summary.
    pub fn suspend(&self, write: impl FnOnce()) {
        match self {
            StatusLine::Terminal { bars, .. } => bars.suspend(write),
            StatusLine::Hidden | StatusLine::Lines { .. } => write(),
        }
    }

    pub fn clear(&mut self) {
        if let StatusLine::Terminal { counts, pending, .. } = self {
            counts.finish_and_clear();
            pending.finish_and_clear();
        }
        *self = StatusLine::Hidden;
    }
}

/// The line of these counts, if it is another than the last one. It has no rate, which differs at each look.
fn new_line(last: &str, tally: &Tally, enforcer: &EnforcerStatus) -> Option<String> {
    let counts = counts_line(tally, 0.0, enforcer);
    let line = match pending_line(tally) {
        Some(pending) => format!("{counts}; {pending}"),
        None => counts,
    };
    (line != last).then_some(line)
}

fn counts_line(tally: &Tally, binds_per_second: f64, enforcer: &EnforcerStatus) -> String {
    let nodes = match tally.n_ready {
        n if n == tally.n_nodes => format!("{} ready", counted(n, "node")),
        n => format!("{} of {} ready", grouped(n), counted(tally.n_nodes, "node")),
    };
    let stages: Vec<_> =
        tally.stages.iter().map(|(stage, n)| format!("{} {}", grouped(*n), stage.name())).collect();
    let pods = counted(tally.n_pods(), "pod");
    let pods = if stages.is_empty() { pods } else { format!("{pods}: {}", stages.join(", ")) };
    let rate =
        if binds_per_second >= 0.5 { format!("; {binds_per_second:.0} binds/s") } else { String::new() };
    format!("{nodes}; {pods}{rate}{}", enforcer_part(enforcer))
}

/// Empty without evictions and violations.
fn enforcer_part(enforcer: &EnforcerStatus) -> String {
    let EnforcerStatus { n_evicted, n_violated, n_held, is_limited } = enforcer;
    let mut part = String::new();
    if *n_evicted > 0 {
        part.push_str(&format!("; {} evicted", grouped(usize::try_from(*n_evicted).unwrap_or(usize::MAX))));
    }
    if *n_violated > 0 {
        part.push_str(&format!("; {} violated", counted(*n_violated, "rule")));
    }
    if *n_held > 0 {
        part.push_str(&format!(", {} without eviction", grouped(*n_held)));
    }
    if *is_limited {
        part.push_str(
            "; ALL EVICTIONS STOPPED: run kubectl describe configmap -n kube-system berth-enforcer",
        );
    }
    part
}

fn pending_line(tally: &Tally) -> Option<String> {
    let (message, n_pods) = tally.top_message.as_ref()?;
    let mut message: String = message.chars().take(MAX_MESSAGE).collect();
    message = message.replace('\n', " ");
    Some(format!("{} pending: {message}", counted(*n_pods, "pod")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::observed::Stage;

    #[test]
    fn without_a_terminal_a_line_is_written_when_something_changes() {
        let running = |n| Tally {
            n_nodes: 1,
            n_ready: 1,
            stages: BTreeMap::from([(Stage::Running, n)]),
            top_message: None,
        };
        let enforcer = EnforcerStatus::default();
        let first = new_line("", &running(1), &enforcer).unwrap();
        assert_eq!(first, "1 node ready; 1 pod: 1 running");
        assert_eq!(new_line(&first, &running(1), &enforcer), None);
        assert!(new_line(&first, &running(2), &enforcer).is_some());
    }

    #[test]
    fn a_summary_has_counts_and_the_most_frequent_reason() {
        let tally = Tally {
            n_nodes: 1_000,
            n_ready: 3,
            stages: BTreeMap::from([(Stage::Pending, 2), (Stage::Running, 1_234)]),
            top_message: Some(("0/3 nodes are\navailable".to_owned(), 2)),
        };
        assert_eq!(
            counts_line(&tally, 12.3, &EnforcerStatus::default()),
            "3 of 1,000 nodes ready; 1,236 pods: 2 pending, 1,234 running; 12 binds/s"
        );
        assert_eq!(pending_line(&tally).as_deref(), Some("2 pods pending: 0/3 nodes are available"));
        assert_eq!(counts_line(&Tally::default(), 0.0, &EnforcerStatus::default()), "0 nodes ready; 0 pods");
        let enforcer = EnforcerStatus { n_evicted: 2, n_violated: 3, n_held: 1, is_limited: false };
        assert_eq!(enforcer_part(&enforcer), "; 2 evicted; 3 rules violated, 1 without eviction");
    }
}
