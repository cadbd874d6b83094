//! Results of the benchmarks `FILE`, `scale`, `load` and `list`.

use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_bench::measure::Figures;
use berth_bench::workload::{Status, WorkloadReport};
use berth_bench::{load, scale};
use berth_terminal::output::{ATTENTION, BAD, GOOD, NL};
use berth_terminal::table::{Cell, Table};

use crate::cluster::list;

const FIGURES: [&str; 4] = ["PER SECOND", "P50 US", "P99 US", "MAX US"];

fn cells(figures: &Figures) -> [Cell; 4] {
    let rate = grouped(figures.decisions_per_second.round() as usize);
    let us = |value: f64| Cell::from(format!("{value:.1}"));
    [Cell::from(rate), us(figures.p50_us), us(figures.p99_us), us(figures.max_us)]
}

/// `12 MiB`.
pub(super) fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{} MiB", grouped((bytes >> 20) as usize)))
}

/// Workloads: the figures, or the reason why a workload did not run.
pub fn workloads(out: &mut impl Write, reports: &[WorkloadReport]) -> io::Result<()> {
    let headings = ["CASE", "WORKLOAD", "NODES", "DECISIONS", "UNPLACED", "VICTIMS"];
    let mut table =
        Table::new(headings.into_iter().chain(FIGURES).chain(["PEAK MEMORY", "CHECKSUM", "STATUS"]));
    for report in reports {
        let (style, status) = match report.status {
            Status::Ok => (GOOD, "ok"),
            Status::NotSupported => (ATTENTION, "not supported"),
            Status::Failed => (BAD, "failed"),
        };
        let reason = report.reason.iter().map(|r| format!(": {r}"));
        let status =
            Cell::styled(std::iter::once(status.to_owned()).chain(reason).collect::<String>(), style);
        let mut row = vec![Cell::from(&report.case), Cell::from(&report.workload)];
        match &report.result {
            Some(result) => {
                let counts = [result.nodes, result.figures.decisions, result.unplaced, result.victims];
                row.extend(counts.map(|n| Cell::from(grouped(n))));
                row.extend(cells(&result.figures));
                row.extend([
                    Cell::from(mebibytes(result.peak_rss_bytes)),
                    Cell::from(&result.checksum),
                    status,
                ]);
            }
            None => {
                row.extend(std::iter::repeat_n(Cell::from("-"), 10));
                row.push(status);
            }
        }
        table.row(row);
    }
    table.write(out, "")
}

pub fn scale(out: &mut impl Write, report: &scale::ScaleReport) -> io::Result<()> {
    let mut table = Table::new(["POD TEMPLATES", "DECISIONS"].into_iter().chain(FIGURES));
    let mut row = |name: &str, figures: &Figures| {
        let start = [Cell::from(name), Cell::from(grouped(figures.decisions))];
        table.row(start.into_iter().chain(cells(figures)));
    };
    report.kinds.iter().for_each(|kind| row(&kind.kind, &kind.figures));
    row("first of each template", &report.first_of_template);
    row("all", &report.figures);
    table.write(out, "")?;
    writeln!(
        out,
        "{NL}{}, {}, seed {}: setup {:.2} s, decisions {:.2} s, pod preparation {:.2} s, {} unplaced",
        counted(report.nodes, "node"),
        counted(report.pods, "pod"),
        report.seed,
        report.setup_seconds,
        report.decision_seconds,
        report.prepare_seconds,
        grouped(report.unplaced)
    )?;
    writeln!(out, "peak memory {}, checksum {}", mebibytes(report.peak_rss_bytes), report.checksum)?;
    writeln!(
        out,
        "rate of pods with inter-pod rules relative to plain pods: {:.2}",
        report.inter_pod_to_plain
    )?;
    let check = &report.check;
    if check.n_violations == 0 {
        let pods = counted(check.pods, "pod");
        return writeln!(
            out,
            "{GOOD}verified{GOOD:#} in {:.2} s: {pods}, no rule violated",
            report.check_seconds
        );
    }
    writeln!(out, "{BAD}{}{BAD:#}", counted(check.n_violations, "violation"))?;
    for violation in &check.violations {
        writeln!(
            out,
            "  {:?}: template {}, node {}: {}",
            violation.rule, violation.template, violation.node, violation.detail
        )?;
    }
    Ok(())
}

pub fn load(out: &mut impl Write, report: &load::LoadReport) -> io::Result<()> {
    writeln!(
        out,
        "{} ({}, {}) in {:.2} s: {:.1} MB at {:.1} MB/s, {} objects/s, peak memory {}",
        counted(report.objects, "object"),
        counted(report.nodes, "node"),
        counted(report.pods, "running pod"),
        report.seconds,
        report.bytes as f64 / 1e6,
        report.megabytes_per_second,
        grouped(report.objects_per_second.round() as usize),
        mebibytes(report.peak_rss_bytes)
    )
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
