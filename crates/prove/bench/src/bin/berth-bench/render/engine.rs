//! Results of engine benchmarks.

use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_bench::measure::Figures;
use berth_bench::ops::Op;
use berth_bench::rebalance::RebalanceReport;
use berth_bench::workload::{Status, WorkloadReport};
use berth_bench::{check, churn, dra, enforce, groups, load, preempt, scale, soak, volumes};
use berth_terminal::output::{ATTENTION, BAD, GOOD, NL};
use berth_terminal::table::{Cell, Table};

/// Violations that are shown of one case.
const MAX_SHOWN: usize = 20;
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

/// The benchmark `scale`.
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
    placement_violations(out, check)
}

fn placement_violations(out: &mut impl Write, check: &check::Findings) -> io::Result<()> {
    for violation in &check.violations {
        writeln!(
            out,
            "  {:?}: template {}, node {}: {}",
            violation.rule, violation.template, violation.node, violation.detail
        )?;
    }
    Ok(())
}

/// The benchmark `volumes`.
pub fn volumes(out: &mut impl Write, report: &volumes::VolumesReport) -> io::Result<()> {
    let headings = ["CLAIMS", "DECISIONS", "UNPLACED", "CHOSEN", "TO PROVISION"].into_iter();
    let mut table = Table::new(headings.chain(FIGURES).chain(["CHECKSUM"]));
    for case in &report.cases {
        let counts = [case.figures.decisions, case.unplaced, case.chosen, case.to_provision];
        let start = std::iter::once(Cell::from(case.case.to_string()));
        let row = start.chain(counts.map(|n| Cell::from(grouped(n)))).chain(cells(&case.figures));
        table.row(row.chain([Cell::from(&case.checksum)]));
    }
    table.write(out, "")?;
    let (nodes, pods) = (counted(report.nodes, "node"), counted(report.pods, "pod"));
    writeln!(out, "{NL}{nodes}, {pods} per case, seed {}", report.seed)?;
    if report.n_violations() == 0 {
        return writeln!(out, "{GOOD}verified{GOOD:#}: no rule violated");
    }
    writeln!(out, "{BAD}{}{BAD:#}", counted(report.n_violations(), "violation"))?;
    for case in &report.cases {
        placement_violations(out, &case.check)?;
        for violation in case.volume_violations.iter().take(MAX_SHOWN) {
            writeln!(out, "  {:?}: {}: {}", violation.rule, violation.object, violation.detail)?;
        }
    }
    Ok(())
}

/// The benchmark `dra`.
pub fn dra(out: &mut impl Write, report: &dra::DraReport) -> io::Result<()> {
    let headings = ["CLAIMS", "DECISIONS", "UNPLACED", "MEMORY OF DEVICES"].into_iter();
    let mut table = Table::new(headings.chain(FIGURES).chain(["CHECKSUM"]));
    for case in &report.cases {
        let counts = [case.figures.decisions, case.unplaced].map(|n| Cell::from(grouped(n)));
        let memory = Cell::from(mebibytes(case.devices_bytes));
        let start = std::iter::once(Cell::from(case.case.to_string())).chain(counts).chain([memory]);
        table.row(start.chain(cells(&case.figures)).chain([Cell::from(&case.checksum)]));
    }
    table.write(out, "")?;
    let (nodes, pods) = (counted(report.nodes, "node"), counted(report.pods, "pod"));
    writeln!(
        out,
        "{NL}{nodes} with {} each, {pods} per case, seed {}",
        counted(report.devices, "device"),
        report.seed
    )?;
    if report.n_violations() == 0 {
        return writeln!(out, "{GOOD}verified{GOOD:#}: no rule violated");
    }
    writeln!(out, "{BAD}{}{BAD:#}", counted(report.n_violations(), "violation"))?;
    for violation in report.cases.iter().flat_map(|case| &case.violations).take(MAX_SHOWN) {
        writeln!(out, "  {violation}")?;
    }
    Ok(())
}

/// Pods that are created and deleted round after round.
pub fn churn(out: &mut impl Write, report: &churn::ChurnReport) -> io::Result<()> {
    let has_apiserver = report.rounds.iter().any(|round| round.apiserver_rss_bytes.is_some());
    let headings = ["ROUND", "DECISIONS/S", "UNPLACED", "MEMORY"].into_iter();
    let mut table = Table::new(headings.chain(has_apiserver.then_some("API SERVER'S MEMORY")));
    for round in &report.rounds {
        let counts = [round.round, round.decisions_per_second.round() as usize, round.unplaced];
        let memory = [Some(round.rss_bytes), has_apiserver.then_some(round.apiserver_rss_bytes)];
        let memory = memory.into_iter().flatten().map(|bytes| Cell::from(mebibytes(bytes)));
        table.row(counts.map(|n| Cell::from(grouped(n))).into_iter().chain(memory));
    }
    table.write(out, "")?;
    let (nodes, pods) = (counted(report.nodes, "node"), counted(report.pods, "pod"));
    writeln!(out, "{NL}{nodes}, {pods} per round, seed {}", report.seed)?;
    if let (Some(memory), Some(rate)) = (report.memory_growth, report.rate_change) {
        writeln!(
            out,
            "last round compared with round 5: {memory:.2} times the memory, {rate:.2} times the decision rate"
        )?;
    }
    Ok(())
}

/// A soak test: one row for each sample, and the trends.
pub fn soak(out: &mut impl Write, report: &soak::SoakReport) -> io::Result<()> {
    let headings = ["SECONDS", "MEMORY", "FILES", "DISK", "REQUESTS", "FAILED", "P50 US", "P99 US"];
    let mut table = Table::new(headings);
    for sample in &report.samples {
        table.row([
            Cell::from(grouped(sample.seconds as usize)),
            Cell::from(mebibytes(Some(sample.rss_bytes))),
            Cell::from(grouped(sample.files as usize)),
            Cell::from(mebibytes(Some(sample.disk_bytes))),
            Cell::from(grouped(sample.requests)),
            Cell::from(grouped(sample.failed)),
            Cell::from(grouped(sample.p50_us as usize)),
            Cell::from(grouped(sample.p99_us as usize)),
        ]);
    }
    table.write(out, "")?;
    let (nodes, pods) = (counted(report.nodes, "node"), counted(report.pods, "pod"));
    writeln!(out, "{NL}{nodes}, about {pods}, {} actions per second", report.actions_per_second)?;
    for trend in &report.trends {
        let percent = if trend.mean > 0.0 { 100.0 * trend.growth_per_hour / trend.mean } else { 0.0 };
        let verdict = if trend.is_flat { "flat" } else { "grows" };
        writeln!(out, "{}: {verdict} ({percent:+.1} % of its mean per hour)", trend.name)?;
    }
    Ok(())
}

/// Preemption: one row for each kind of incoming pods.
pub fn preempt(out: &mut impl Write, report: &preempt::PreemptReport) -> io::Result<()> {
    let headings = ["INCOMING PODS", "PODS", "VICTIMS", "PDB VIOLATIONS", "UNPLACED"].into_iter();
    let mut table = Table::new(headings.chain(FIGURES).chain(["FIRST US", "CHECKSUM"]));
    for kind in &report.kinds {
        let counts = [kind.figures.decisions, kind.victims, kind.pdb_violations, kind.unplaced];
        let row = [Cell::from(kind.kind.name())].into_iter().chain(counts.map(|n| Cell::from(grouped(n))));
        let last = [Cell::from(format!("{:.1}", kind.first_us)), Cell::from(&kind.checksum)];
        table.row(row.chain(cells(&kind.figures)).chain(last));
    }
    table.write(out, "")?;
    writeln!(
        out,
        "{NL}{} full of {} of low priority; peak memory {}",
        counted(report.nodes, "node"),
        counted(report.low_priority_pods, "pod"),
        mebibytes(report.peak_rss_bytes)
    )
}

/// Pod groups: decisions of whole groups.
pub fn groups(out: &mut impl Write, report: &groups::GroupsReport) -> io::Result<()> {
    let headings = ["GROUPS", "MEMBERS EACH", "PLACED", "PLACED IN PART"].into_iter();
    let mut table = Table::new(headings.chain(FIGURES).chain(["CHECKSUM"]));
    let counts =
        [report.groups, report.members, report.placed, report.broken].map(|n| Cell::from(grouped(n)));
    table.row(counts.into_iter().chain(cells(&report.figures)).chain([Cell::from(&report.checksum)]));
    table.write(out, "")?;
    let memory = mebibytes(report.peak_rss_bytes);
    writeln!(out, "{NL}{}; peak memory {memory}", counted(report.nodes, "node"))?;
    match report.check.n_violations {
        0 => writeln!(out, "{GOOD}verified{GOOD:#}: no rule violated"),
        n => {
            writeln!(out, "{BAD}{}{BAD:#}", counted(n, "violation"))?;
            placement_violations(out, &report.check)
        }
    }
}

/// Plans of moves.
pub fn rebalance(out: &mut impl Write, reports: &[RebalanceReport]) -> io::Result<()> {
    let headings =
        ["CASE", "NODES", "PODS", "SECONDS", "MEMORY", "MOVES", "BEFORE", "AFTER", "BOUND", "MOVES AGAIN"];
    let mut table = Table::new(headings);
    for report in reports {
        table.row([
            Cell::from(report.case.to_string()),
            Cell::from(grouped(report.nodes)),
            Cell::from(grouped(report.pods)),
            Cell::from(format!("{:.3}", report.seconds)),
            Cell::from(mebibytes(report.memory_bytes)),
            Cell::from(grouped(report.moves)),
            Cell::from(report.before.to_string()),
            Cell::from(report.after.to_string()),
            Cell::from(report.bound.to_string()),
            Cell::from(grouped(report.again)),
        ]);
    }
    table.write(out, "")
}

/// The benchmark `enforce`.
pub fn enforce(out: &mut impl Write, report: &enforce::EnforceReport) -> io::Result<()> {
    let mut table = Table::new(["OPERATION", "COUNT"].into_iter().chain(FIGURES));
    let mut row = |name: &str, figures: &Figures| {
        let start = [Cell::from(name), Cell::from(grouped(figures.decisions))];
        table.row(start.into_iter().chain(cells(figures)));
    };
    let changed = counted(report.changed, "node");
    row(&format!("detect violations after label changes on {changed}"), &report.judged);
    row("detect fixes after the labels are restored", &report.mended);
    row("no changes", &report.idle);
    row("remove and add a pod without tracking", &report.churn_unwatched);
    row("remove and add a pod with tracking", &report.churn_watched);
    table.write(out, "")?;
    writeln!(
        out,
        "{NL}{}, {}, {} with rules required during execution; each round violates {}",
        counted(report.nodes, "node"),
        counted(report.pods, "pod"),
        grouped(report.executing_pods),
        counted(report.broken, "rule")
    )?;
    writeln!(
        out,
        "all violations detected {:.1} ms after the first label change (median); check of all pods: {:.1} ms; start of \
         tracking: {:.1} ms; peak memory {}",
        report.judged.p50_us / 1e3,
        report.full_pass_ms,
        report.watch_ms,
        mebibytes(report.peak_rss_bytes)
    )?;
    writeln!(
        out,
        "selection of victims and target nodes for all violations: {:.1} ms; {} to evict, {} without a feasible node",
        report.remedies_ms,
        counted(report.evictions, "pod"),
        grouped(report.without_target)
    )?;
    match report.is_right {
        true => {
            writeln!(out, "{GOOD}verified{GOOD:#}: the tracked violations always equal those of a full check")
        }
        false => writeln!(out, "{BAD}the tracked violations differ from those of a full check{BAD:#}"),
    }
}

/// The benchmark `load`.
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

/// The benchmark `ops`.
pub fn operation(
    out: &mut impl Write,
    op: Op,
    n_nodes: usize,
    figures: &Figures,
    peak_rss_bytes: Option<u64>,
) -> io::Result<()> {
    let mut table =
        Table::new(["OPERATION", "NODES", "COUNT"].into_iter().chain(FIGURES).chain(["PEAK MEMORY"]));
    let start = [Cell::from(op), Cell::from(grouped(n_nodes)), Cell::from(grouped(figures.decisions))];
    let end = [Cell::from(mebibytes(peak_rss_bytes))];
    table.row(start.into_iter().chain(cells(figures)).chain(end));
    table.write(out, "")
}
