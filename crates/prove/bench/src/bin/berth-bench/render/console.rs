//! Results of the console benchmark.

use std::io::{self, Write};

use super::engine::mebibytes;
use crate::cluster::console::Report;
use berth_api::syntax::format::{counted, grouped};
use berth_terminal::table::{Cell, Table};

/// Times and sizes.
pub fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let ms = |ms: f64| Cell::from(format!("{ms:.1} ms"));
    let mut table = Table::new(["PAGE", "STATUS", "SIZE", "FIRST", "AGAIN"]);
    for page in &report.pages {
        let size = format!("{} KiB", grouped(page.bytes.div_ceil(1024)));
        let (path, status) = (page.path.as_str().into(), page.status.to_string().into());
        table.row([path, status, size.into(), ms(page.first_ms), ms(page.again_ms)]);
    }
    table.write(out, "")?;
    writeln!(out, "\n{}, {}", counted(report.nodes, "node"), counted(report.pods, "pod"))?;
    writeln!(out, "memory of the engine's state: {}", mebibytes(report.engine_bytes))?;
    writeln!(out, "memory of the console above that: {}", mebibytes(report.console_bytes))?;
    let open = &report.open;
    writeln!(
        out,
        "{} with {}: a change is shown after {:.1} ms (median), {:.1} ms (longest); CPU {}, memory {} more",
        counted(open.pages, "open page"),
        counted(open.changes, "change"),
        open.p50_ms,
        open.max_ms,
        open.cpu_cores.map_or_else(|| "-".to_owned(), |cores| format!("{cores:.2} cores")),
        mebibytes(open.bytes),
    )
}
