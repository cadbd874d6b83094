//! The results of the benchmark `bind`.

use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_bench::bind::PartTime;
use berth_terminal::output::{BAD, GOOD};
use berth_terminal::table::{Cell, Table};

use super::engine::mebibytes;
use crate::cluster::bind::{BindReport, BindSize};

/// The tables: times, processor time by part, memory, and what else was measured.
pub fn bind(out: &mut impl Write, report: &BindReport) -> io::Result<()> {
    times(out, &report.sizes)?;
    // Of processes that the benchmark has not started, neither is known.
    if report.sizes.iter().any(|size| size.start_seconds.is_some()) {
        writeln!(out)?;
        parts(out, &report.sizes)?;
        writeln!(out)?;
        memory(out, &report.sizes)?;
    }
    for size in &report.sizes {
        failures(out, size)?;
        verified(out, size)?;
    }
    Ok(())
}

fn seconds(seconds: f64) -> Cell {
    Cell::from(format!("{seconds:.1} s"))
}

fn micros(us: Option<f64>) -> Cell {
    Cell::from(us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1} us")))
}

fn times(out: &mut impl Write, sizes: &[BindSize]) -> io::Result<()> {
    let headings = [
        "NODES",
        "PODS",
        "LOADED",
        "SERVED",
        "FIRST BINDING",
        "LAST BINDING",
        "PODS/S",
        "SERVER CPU",
        "SCHEDULER CPU",
        "SUM",
    ];
    let mut table = Table::new(headings);
    for size in sizes {
        let (server, scheduler) = (size.rates.server_cpu_us, size.rates.scheduler_cpu_us);
        table.row([
            grouped(size.nodes).into(),
            grouped(size.pods).into(),
            seconds(size.load_seconds),
            size.start_seconds.map_or_else(|| "-".into(), seconds),
            seconds(size.first_binding_seconds),
            seconds(size.seconds),
            grouped(size.rates.per_second.round() as usize).into(),
            micros(server),
            micros(scheduler),
            micros(server.zip(scheduler).map(|(server, scheduler)| server + scheduler)),
        ]);
    }
    table.write(out, "")
}

/// Processor time for each pod: a row for each part, a column for each size.
fn parts(out: &mut impl Write, sizes: &[BindSize]) -> io::Result<()> {
    let nodes: Vec<String> = sizes.iter().map(|size| counted(size.nodes, "NODE").to_uppercase()).collect();
    let mut table = Table::new(["PROCESS", "PART"].into_iter().chain(nodes.iter().map(String::as_str)));
    for part in sizes.first().map_or(&[][..], |size| &size.rates.parts) {
        let of_size = |size: &BindSize| {
            let same = |other: &&PartTime| (other.process, &other.part) == (part.process, &part.part);
            micros(size.rates.parts.iter().find(same).map(|part| part.cpu_us))
        };
        let name = [Cell::from(part.process), Cell::from(part.part.as_str())];
        table.row(name.into_iter().chain(sizes.iter().map(of_size)));
    }
    table.write(out, "")
}

fn memory(out: &mut impl Write, sizes: &[BindSize]) -> io::Result<()> {
    let headings = ["NODES", "SERVER", "PEAK", "SCHEDULER AT FIRST BINDING", "PEAK OF THE LIST", "PEAK"];
    let mut table = Table::new(headings);
    for size in sizes {
        let memory = size.memory;
        table.row([
            Cell::from(grouped(size.nodes)),
            mebibytes(memory.server_bytes).into(),
            mebibytes(memory.server_peak_bytes).into(),
            mebibytes(memory.scheduler_bytes).into(),
            mebibytes(memory.scheduler_list_peak_bytes).into(),
            mebibytes(memory.scheduler_peak_bytes).into(),
        ]);
    }
    table.write(out, "")
}

fn failures(out: &mut impl Write, size: &BindSize) -> io::Result<()> {
    let failures = size.failures;
    let measured = [
        ("the restarted API server served", failures.server_restart_seconds),
        ("the restarted scheduler bound its first pod", failures.scheduler_restart_seconds),
    ];
    for (what, seconds) in measured.into_iter().filter_map(|(what, seconds)| Some((what, seconds?))) {
        writeln!(out, "{}: {what} after {seconds:.2} s", counted(size.nodes, "node"))?;
    }
    Ok(())
}

fn verified(out: &mut impl Write, size: &BindSize) -> io::Result<()> {
    let check = &size.check;
    let style = if check.n_violations == 0 && size.unbound == 0 { GOOD } else { BAD };
    let (unbound, violations) = (grouped(size.unbound), grouped(check.n_violations));
    writeln!(
        out,
        "{}: verified {}, {style}{unbound} pods not bound, {violations} rules violated{style:#}",
        counted(size.nodes, "node"),
        counted(check.pods, "placement")
    )?;
    for violation in &check.violations {
        writeln!(out, "  {}", violation.detail)?;
    }
    Ok(())
}
