//! The text of `berth replay --timeline`.

use std::io::{self, Write};

use berth_api::object::time::rfc3339;
use berth_simulate::replay::Timeline;
use berth_terminal::table::{Cell, Table};

/// Writes the intervals in which something happened or changed, and an empty line.
pub fn write(out: &mut impl Write, timeline: &Timeline) -> io::Result<()> {
    let mut table = Table::new(["FROM", "DECISIONS", "EVICTIONS", "PENDING", "BROKEN RULES"]);
    let mut before = None;
    for interval in &timeline.intervals {
        let state = (interval.n_pending, interval.n_broken_rules);
        let happened = interval.n_decisions + interval.n_evictions > 0;
        if before.replace(state) == Some(state) && !happened {
            continue;
        }
        let counts =
            [interval.n_decisions, interval.n_evictions, interval.n_pending, interval.n_broken_rules];
        let counts = counts.map(|n| Cell::from(n.to_string()));
        table.row([Cell::from(rfc3339(interval.begin))].into_iter().chain(counts));
    }
    table.write(out, "")?;
    writeln!(out)
}
