//! Results of cluster benchmarks.

use std::io::{self, Write};

use super::engine::mebibytes;
use crate::cluster::{console, list, settle, webhook};
use berth_api::syntax::format::{counted, grouped};
use berth_terminal::output::NL;
use berth_terminal::table::{Cell, Table};

fn rate(per_second: f64) -> String {
    grouped(per_second.round() as usize)
}

/// The benchmark `up`.
pub fn settle(out: &mut impl Write, report: &settle::SettleReport) -> io::Result<()> {
    let settle::SettleReport { nodes, pods, running, unplaced, settled_seconds, .. } = report;
    writeln!(
        out,
        "{}: {} running, {} unplaced; {}",
        counted(*pods, "pod"),
        grouped(*running),
        grouped(*unplaced),
        counted(*nodes, "node")
    )?;
    writeln!(
        out,
        "API server ready in {:.2} s, all nodes ready in {:.1} s",
        report.ready_seconds, report.nodes_ready_seconds
    )?;
    writeln!(out, "settled in {settled_seconds:.1} s: {} pods/s", rate(report.pods_per_second))?;
    writeln!(
        out,
        "peak memory {}, {:.2} cores; observer: {:.2} cores",
        mebibytes(report.peak_rss_bytes),
        report.cores,
        report.own_cores
    )?;
    let probe = &report.probe;
    writeln!(
        out,
        "latency of an external GET meanwhile: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms{NL}",
        probe.p50_us / 1000.0,
        probe.p99_us / 1000.0,
        probe.max_us / 1000.0
    )?;
    let mut table = Table::new(["VERB", "REQUESTS", "P50 AT MOST", "P99 AT MOST"]);
    for latency in &report.latencies {
        let at_most = |seconds: Option<f64>| match seconds {
            Some(seconds) => Cell::from(format!("{} ms", seconds * 1000.0)),
            None => Cell::from("above range"),
        };
        let requests = grouped(usize::try_from(latency.requests).unwrap_or(usize::MAX));
        let row = [Cell::from(&latency.verb), requests.into()];
        table.row(row.into_iter().chain([latency.p50_seconds, latency.p99_seconds].map(at_most)));
    }
    table.write(out, "")
}

/// The benchmark `list`: times and sizes.
pub fn list(out: &mut impl Write, report: &list::ListReport) -> io::Result<()> {
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
    writeln!(out, "{NL}{}, {} per page", counted(report.pods, "pod"), grouped(report.page))
}

/// The benchmark `webhook`: rates and latencies.
pub fn webhook(out: &mut impl Write, report: &webhook::WebhookReport) -> io::Result<()> {
    let headings = ["REQUEST", "REVIEWS", "REVIEWS/S", "REVIEWS/CPU S", "P50", "P99"];
    let mut table = Table::new(headings);
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
    writeln!(out, "{NL}{}, {}", counted(report.nodes, "node"), counted(report.connections, "connection"))
}

/// The benchmark `console`: times and sizes.
pub fn console(out: &mut impl Write, report: &console::ConsoleReport) -> io::Result<()> {
    let ms = |ms: f64| Cell::from(format!("{ms:.1} ms"));
    let mut table = Table::new(["PAGE", "STATUS", "SIZE", "FIRST", "AGAIN"]);
    for page in &report.pages {
        let size = format!("{} KiB", grouped(page.bytes.div_ceil(1024)));
        let (path, status) = (page.path.as_str().into(), page.status.to_string().into());
        table.row([path, status, size.into(), ms(page.first_ms), ms(page.again_ms)]);
    }
    table.write(out, "")?;
    writeln!(out, "{NL}{}, {}", counted(report.nodes, "node"), counted(report.pods, "pod"))?;
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
