//! What benchmarks of clusters measured.

use std::io::{self, Write};

use super::bench::mebibytes;
use super::names::{counted, grouped};
use super::table::{Cell, Table};
use crate::cluster_bench::bind::{self, Who};
use crate::cluster_bench::settle;
use crate::output::{BAD, GOOD};

/// A ratio of at least this is what Berth promises.
const PROMISED_RATIO: f64 = 0.8;

fn rate(per_second: f64) -> String {
    grouped(per_second.round() as usize)
}

/// Rounds, medians, and their ratio.
pub fn bind(out: &mut impl Write, report: &bind::Report) -> io::Result<()> {
    let headings = ["ROUND", "WHO", "PODS/S", "P50 OF A REQUEST", "P99", "SERVER'S CPU", "OWN CPU", "CORES"];
    let mut table = Table::new(headings);
    for (i, round) in report.rounds.iter().enumerate() {
        let who = match round.who {
            Who::BareClient => "bare client",
            Who::Scheduler => "scheduler",
        };
        let ms = |us: f64| Cell::from(format!("{:.1} ms", us / 1000.0));
        let requests =
            round.requests.map_or_else(|| ["-".into(), "-".into()], |f| [ms(f.p50_us), ms(f.p99_us)]);
        let us = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.0} us/pod"));
        let cores = round.cores.map_or_else(|| "-".to_owned(), |cores| format!("{cores:.2}"));
        let cpu = [us(round.server_cpu_us), us(round.own_cpu_us), cores].map(Cell::from);
        let start = [Cell::from(i + 1), who.into(), rate(round.per_second).into()];
        table.row(start.into_iter().chain(requests).chain(cpu));
    }
    table.write(out, "")?;
    let bind::Report { nodes, pods, connections, ratio, check, .. } = report;
    let style = if *ratio >= PROMISED_RATIO { GOOD } else { BAD };
    writeln!(
        out,
        "\n{}, {} a round, {}",
        counted(*nodes, "node"),
        counted(*pods, "pod"),
        counted(*connections, "connection")
    )?;
    writeln!(
        out,
        "medians: bare client {} pods/s, scheduler {} pods/s, ratio {style}{ratio:.2}{style:#}",
        rate(report.bare_client_per_second),
        rate(report.scheduler_per_second)
    )?;
    if let (Some(bare), Some(scheduler), Some(ratio)) =
        (report.bare_client_cpu_us, report.scheduler_cpu_us, report.cpu_ratio)
    {
        writeln!(
            out,
            "processor time of both processes: bare client {bare:.0} us/pod, scheduler {scheduler:.0} us/pod, \
             ratio {ratio:.2}"
        )?;
    }
    writeln!(out, "peak memory of the API server: {}", mebibytes(report.server_peak_rss_bytes))?;
    let style = if check.n_violations == 0 { GOOD } else { BAD };
    let n_broken = grouped(check.n_violations);
    writeln!(out, "checked: {}, {style}{n_broken} rules broken{style:#}", counted(check.pods, "placement"))?;
    for violation in &check.violations {
        writeln!(out, "  {}", violation.detail)?;
    }
    Ok(())
}

/// Rates, memory and latencies.
pub fn settle(out: &mut impl Write, report: &settle::Report) -> io::Result<()> {
    let settle::Report { nodes, pods, running, unplaced, settled_seconds, .. } = report;
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
        "ready after {:.2} s, all nodes after {:.1} s",
        report.ready_seconds, report.nodes_ready_seconds
    )?;
    writeln!(out, "settled after {settled_seconds:.1} s: {} pods/s", rate(report.pods_per_second))?;
    writeln!(
        out,
        "peak memory {}, {:.2} cores; the observer took {:.2} cores",
        mebibytes(report.peak_rss_bytes),
        report.cores,
        report.own_cores
    )?;
    let probe = &report.probe;
    writeln!(
        out,
        "a GET from outside meanwhile: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms\n",
        probe.p50_us / 1000.0,
        probe.p99_us / 1000.0,
        probe.max_us / 1000.0
    )?;
    let mut table = Table::new(["VERB", "REQUESTS", "P50 WITHIN", "P99 WITHIN"]);
    for latency in &report.latencies {
        let within = |seconds: Option<f64>| match seconds {
            Some(seconds) => Cell::from(format!("{} ms", seconds * 1000.0)),
            None => Cell::from("more"),
        };
        let requests = grouped(usize::try_from(latency.requests).unwrap_or(usize::MAX));
        let row = [Cell::from(&latency.verb), requests.into()];
        table.row(row.into_iter().chain([latency.p50_seconds, latency.p99_seconds].map(within)));
    }
    table.write(out, "")
}
