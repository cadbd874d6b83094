//! The time of a recording.

use berth_picture::Class;
use berth_picture::timeline::{Series, Timeline as Plot};
use berth_simulate::replay::{Interval, Timeline};

use berth_api::syntax::format::counted;

/// Decisions, evictions, pending pods and broken rules over time.
pub fn timeline(timeline: &Timeline) -> String {
    let row = |name: &str, class, value: fn(&Interval) -> usize| Series {
        name: name.to_owned(),
        values: timeline.intervals.iter().map(value).collect(),
        class,
    };
    let rows = vec![
        row("decisions", Class::Bar, |interval| interval.n_decisions),
        row("evictions", Class::Alert, |interval| interval.n_evictions),
        row("pending pods", Class::Kind(1), |interval| interval.n_pending),
        row("broken rules", Class::Kind(3), |interval| interval.n_broken_rules),
    ];
    let sum = |row: usize, what: &str| counted(rows[row].values.iter().sum(), what);
    let seconds = usize::try_from(timeline.seconds).unwrap_or(0);
    Plot {
        title: format!("{}, {}", sum(0, "decision"), sum(1, "eviction")),
        description: format!(
            "Intervals of {}: decisions and evictions within each, pending pods and broken rules at its end.",
            counted(seconds, "second")
        ),
        intervals: timeline
            .intervals
            .iter()
            .map(|interval| interval.begin.strftime("%m-%d %H:%M:%S").to_string())
            .collect(),
        rows,
    }
    .svg()
}
