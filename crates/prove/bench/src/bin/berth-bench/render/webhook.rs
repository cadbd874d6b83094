//! Results of the webhook benchmark.

use std::io::{self, Write};

use crate::cluster::webhook::Report;
use berth_api::syntax::format::{counted, grouped};
use berth_terminal::table::{Cell, Table};

/// Rates and latencies.
pub fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let headings = ["REQUEST", "REVIEWS", "REVIEWS/S", "REVIEWS/CPU S", "P50", "P99"];
    let mut table = Table::new(headings);
    let rate = |per_second: f64| grouped(per_second.round() as usize);
    for kind in &report.kinds {
        let ms = |us: f64| Cell::from(format!("{:.2} ms", us / 1000.0));
        table.row([
            Cell::from(kind.what),
            grouped(kind.reviews).into(),
            rate(kind.per_second).into(),
            kind.per_cpu_second.map_or_else(|| "-".to_owned(), rate).into(),
            ms(kind.latency.p50_us),
            ms(kind.latency.p99_us),
        ]);
    }
    table.write(out, "")?;
    writeln!(out, "\n{}, {}", counted(report.nodes, "node"), counted(report.connections, "connection"))
}
