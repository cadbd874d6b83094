//! `berth-bench ops`.

use std::io::Write;

use berth_bench::measure;
use berth_bench::ops::{Bench, Op};
use berth_terminal::output::OutputArgs;
use berth_terminal::process::ExitStatus;
use serde_json::json;

use crate::error::BenchError;
use crate::render::engine as render;

/// Repeat one engine operation, for tools that count instructions
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9_999_999))]
    nodes: u32,
    /// Operation: add-pod, remove-pod, decide (for a known rule set), decide-new (for a new rule set) or label-node
    #[arg(long)]
    op: Op,
    /// Number of repetitions
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the benchmark.
pub fn run(out: &mut impl Write, args: &Args) -> Result<ExitStatus, BenchError> {
    let figures = Bench::new(args.nodes as usize).repeat(args.op, args.count as usize).figures();
    let peak_rss_bytes = measure::peak_rss_bytes();
    let report = json!({"op": args.op.to_string(), "nodes": args.nodes, "count": figures.decisions,
        "per_second": figures.decisions_per_second, "p50_us": figures.p50_us, "p99_us": figures.p99_us,
        "max_us": figures.max_us, "peak_rss_bytes": peak_rss_bytes});
    args.output
        .write(out, &report, |out| render::operation(out, args.op, args.nodes, &figures, peak_rss_bytes))?;
    Ok(ExitStatus::Success)
}
