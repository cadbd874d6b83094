//! How a running cluster is doing: two lines that are redrawn on a terminal, and lines as things change elsewhere.
//! They go to standard error.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::names::{counted, grouped};
use crate::cluster::observed::Tally;

/// Between two looks at the cluster.
pub const EVERY_ON_TERMINAL: Duration = Duration::from_millis(200);
/// Between two lines where they are not redrawn.
pub const EVERY_LINE: Duration = Duration::from_secs(2);
/// Messages are cut to this many characters.
const MAX_MESSAGE: usize = 300;

/// What an enforcer does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enforced {
    /// Pods evicted so far.
    n_evicted: u64,
    /// Rules required during execution that are broken now.
    n_broken: usize,
    /// Of these, those for which nobody goes although their grace is over.
    n_held: usize,
    /// Whether too much of the cluster would go.
    is_brake_engaged: bool,
}

impl Enforced {
    /// What an enforcer shows of itself.
    pub fn of(snapshot: &berth_enforcer::Snapshot) -> Enforced {
        Enforced {
            n_evicted: snapshot.n_evicted,
            n_broken: snapshot.n_broken,
            n_held: snapshot.held.values().sum(),
            is_brake_engaged: snapshot.is_brake_engaged,
        }
    }
}

/// Where the summary goes.
pub enum Live {
    /// Nobody wants it.
    Hidden,
    /// Redrawn in place.
    Terminal {
        /// Keeps the two lines together.
        both: MultiProgress,
        /// Nodes and pods.
        counts: ProgressBar,
        /// What keeps pods waiting.
        pending: ProgressBar,
    },
    /// A line when something is new.
    Lines {
        /// The last that was written.
        last: String,
    },
}

impl Live {
    /// For standard error as it is.
    pub fn new(is_wanted: bool) -> Live {
        if !is_wanted {
            return Live::Hidden;
        }
        if !io::stderr().is_terminal() {
            return Live::Lines { last: String::new() };
        }
        let style = |template| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
        };
        let both = MultiProgress::new();
        let counts = both.add(ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg}")));
        let pending = both.add(ProgressBar::new_spinner().with_style(style("  {wide_msg}")));
        Live::Terminal { both, counts, pending }
    }

    /// How often it should be told.
    pub fn every(&self) -> Duration {
        match self {
            Live::Terminal { .. } => EVERY_ON_TERMINAL,
            Live::Hidden | Live::Lines { .. } => EVERY_LINE,
        }
    }

    /// Shows how things are.
    pub fn show(&mut self, tally: &Tally, binds_per_second: f64, enforced: &Enforced) {
        match self {
            Live::Hidden => {}
            Live::Terminal { counts, pending, .. } => {
                counts.set_message(counts_line(tally, binds_per_second, enforced));
                counts.tick();
                pending.set_message(pending_line(tally).unwrap_or_default());
                pending.tick();
            }
            Live::Lines { last } => {
                let counts = counts_line(tally, binds_per_second, enforced);
                let line = match pending_line(tally) {
                    Some(pending) => format!("{counts}; {pending}"),
                    None => counts,
                };
                if line != *last {
                    // Nothing can be done when standard error is closed.
                    let _: io::Result<()> = writeln!(io::stderr().lock(), "{line}");
                    *last = line;
                }
            }
        }
    }

    /// Lets something else be written past it.
    pub fn aside(&self, write: impl FnOnce()) {
        match self {
            Live::Terminal { both, .. } => both.suspend(write),
            Live::Hidden | Live::Lines { .. } => write(),
        }
    }

    /// Takes it away.
    pub fn clear(&mut self) {
        if let Live::Terminal { counts, pending, .. } = self {
            counts.finish_and_clear();
            pending.finish_and_clear();
        }
        *self = Live::Hidden;
    }
}

fn counts_line(tally: &Tally, binds_per_second: f64, enforced: &Enforced) -> String {
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
    format!("{nodes}; {pods}{rate}{}", enforced_part(enforced))
}

/// Nothing while nothing was ever broken.
fn enforced_part(enforced: &Enforced) -> String {
    let Enforced { n_evicted, n_broken, n_held, is_brake_engaged } = enforced;
    let mut part = String::new();
    if *n_evicted > 0 {
        part.push_str(&format!("; {} evicted", grouped(usize::try_from(*n_evicted).unwrap_or(usize::MAX))));
    }
    if *n_broken > 0 {
        part.push_str(&format!("; {} broken", counted(*n_broken, "rule")));
    }
    if *n_held > 0 {
        part.push_str(&format!(", {} held", grouped(*n_held)));
    }
    if *is_brake_engaged {
        part.push_str("; THE BRAKE HOLDS: kubectl describe configmap -n kube-system berth-enforcer");
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
    fn a_summary_has_counts_and_the_most_frequent_reason() {
        let tally = Tally {
            n_nodes: 1_000,
            n_ready: 3,
            stages: BTreeMap::from([(Stage::Waiting, 2), (Stage::Running, 1_234)]),
            top_message: Some(("0/3 nodes are\navailable".to_owned(), 2)),
        };
        assert_eq!(
            counts_line(&tally, 12.3, &Enforced::default()),
            "3 of 1,000 nodes ready; 1,236 pods: 2 pending, 1,234 running; 12 binds/s"
        );
        assert_eq!(pending_line(&tally).as_deref(), Some("2 pods pending: 0/3 nodes are available"));
        assert_eq!(counts_line(&Tally::default(), 0.0, &Enforced::default()), "0 nodes ready; 0 pods");
        let enforced = Enforced { n_evicted: 2, n_broken: 3, n_held: 1, is_brake_engaged: false };
        assert_eq!(enforced_part(&enforced), "; 2 evicted; 3 rules broken, 1 held");
    }
}
