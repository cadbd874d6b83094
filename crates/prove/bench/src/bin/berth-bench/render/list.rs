//! Results of the list benchmark.

use std::io::{self, Write};

use super::engine::mebibytes;
use crate::cluster::list::Report;
use berth_api::syntax::format::{counted, grouped};
use berth_terminal::table::{Cell, Table};

/// Times and sizes.
pub fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let headings = ["ALL PODS AS", "REQUESTS", "SIZE", "TIME", "CPU", "FIRST", "P50", "LAST"];
    let mut table = Table::new(headings);
    for way in &report.ways {
        let ms = |ms: f64| Cell::from(format!("{ms:.2} ms"));
        table.row([
            Cell::from(way.what),
            grouped(way.requests).into(),
            mebibytes(Some(way.bytes as u64)).into(),
            format!("{:.2} s", way.seconds).into(),
            way.cpu_us_per_pod.map_or_else(|| "-".to_owned(), |us| format!("{us:.1} us/pod")).into(),
            ms(way.first_ms),
            ms(way.p50_ms),
            ms(way.last_ms),
        ]);
    }
    table.write(out, "")?;
    writeln!(out, "\n{}, {} per page", counted(report.pods, "pod"), grouped(report.page))
}
