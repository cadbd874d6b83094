//! `berth simulate`.

use std::io::Write;

use berth_api::syntax::labels::ZONE;
use berth_console::pictures::ColorBy;
use berth_console::reports;
use berth_simulate::{SimulatedPod, Simulation};
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;
use clap::ValueEnum;

use super::cluster_args::ClusterArgs;
use super::picture_args::PictureArgs;
use crate::error::CliError;
use crate::render::placement::{self, Columns, PreemptionRow, Reasons, Row};
use crate::render::report::write;
use crate::report::Report;
use crate::summary::{Summary, failures};

/// Place all pending pods and show the result
///
/// Running pods stay on their nodes. Pods with spec.nodeName that no kubelet has admitted yet arrive at these nodes first, which admit
/// or reject them as kubelets do. Pending pods are placed by priority, then in input order. Pods that do not fit are
/// retried as long as other pods are placed. As in the scheduler, an unschedulable pod preempts pods of lower priority
/// if that helps; PodDisruptionBudgets are respected where possible. Victims with a controller are placed again, others are deleted.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth simulate [OPTIONS] -f FILE...\n       berth simulate [OPTIONS] (--dump FILE | --live) [-f FILE...]",
    after_help = "\
Examples:
  berth simulate -f manifests/ --nodes 12 --zones 3
  berth simulate -f nodes.yaml -f app.yaml -o wide
  berth dump cluster.json.gz; berth simulate --dump cluster.json.gz -f new-deployment.yaml
  berth simulate --live -f new-deployment.yaml
  berth simulate -f nodes.yaml -f app.yaml -o yaml > placed.yaml
  berth simulate -f nodes.yaml -f placed.yaml -f more.yaml

Exit codes: 0 all pods are placed, 1 some pods are unplaced, not created or do not run on the node that they name, 2 invalid input or usage

See docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do not preempt pods of lower priority for unschedulable pods
    #[arg(long)]
    no_preemption: bool,
    /// Node label whose values are the columns of the summary
    #[arg(long, value_name = "KEY", default_value = ZONE)]
    topology_key: String,
    /// Show counts by workload, without the table of pods
    #[arg(long)]
    summary: bool,
    #[command(flatten)]
    picture: PictureArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Pods and their nodes, a summary by topology domain, and the reasons for unplaced pods
    Table,
    /// The table with more columns
    Wide,
    /// The whole report as JSON
    Json,
    /// All pods as manifests, with spec.nodeName set for placed pods, and the claims that are created for them
    Yaml,
    /// A picture
    Svg,
    /// One self-contained page with all pictures and the text
    Html,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let mut simulation = args.cluster.simulation(args.output == Format::Yaml)?;
    if args.no_preemption {
        simulation.disable_preemption();
    }
    let progress = progress::of_pods();
    simulation.run(|n_placed, n_waiting| {
        progress.set_length(n_waiting as u64);
        progress.set_position(n_placed as u64);
    });
    progress.finish_and_clear();

    let summary = Summary::of(&simulation, &args.topology_key);
    let is_good = summary.n_not_running() == 0;
    let mut out = output::stdout();
    match args.output {
        Format::Table | Format::Wide => {
            let report = report(args, &mut simulation, &summary);
            output::text(&mut out, |out| write(out, &report))?;
        }
        Format::Svg => {
            out.write_all(draw(args, &mut simulation, false).concat().as_bytes())?;
        }
        Format::Html => {
            let pictures = draw(args, &mut simulation, true);
            let report = report(args, &mut simulation, &summary);
            out.write_all(reports::page("Simulation", &pictures, &report).as_bytes())?;
        }
        Format::Json => {
            let failures = failures(&mut simulation);
            output::json(&mut out, &Report::new(&simulation, summary, failures))?;
        }
        Format::Yaml => write_yaml(&mut out, &simulation)?,
    }
    out.flush()?;
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

fn report(args: &Args, simulation: &mut Simulation, summary: &Summary) -> berth_console::report::Report {
    let failures = failures(simulation);
    let columns = match args.output {
        _ if args.summary => Columns::None,
        Format::Wide => Columns::Wide,
        _ => Columns::Narrow,
    };
    let groups: Vec<_> = simulation.groups().collect();
    let (not_running, preemptions) = (&simulation.not_running(), &preemptions(simulation));
    let reasons = Reasons { failures: &failures, not_running, preemptions };
    placement::report(&rows(simulation, &summary.topology_key), columns, summary, &groups, reasons)
}

fn draw(args: &Args, simulation: &mut Simulation, all: bool) -> Vec<String> {
    let broken = simulation.cluster().audit();
    args.picture.draw(simulation, &broken, &args.topology_key, ColorBy::Utilization, all)
}

/// The pods that preempted others.
fn preemptions(simulation: &Simulation) -> Vec<PreemptionRow> {
    let preemptors = simulation.pods().iter().filter(|p| !p.victims.is_empty());
    let row = |p: &SimulatedPod| PreemptionRow {
        pod: p.pod.key(),
        node: p.node().map(str::to_owned),
        victims: p.victims.iter().map(ToString::to_string).collect(),
    };
    preemptors.map(row).collect()
}

/// The pods that were pending.
fn rows(simulation: &Simulation, topology_key: &str) -> Vec<Row> {
    let waiting = simulation.pods().iter().filter(|p| !p.was_running);
    let row = |p: &SimulatedPod| Row {
        namespace: p.pod.metadata.namespace.clone(),
        name: p.pod.metadata.name.clone(),
        priority: p.pod.spec.priority.unwrap_or(0),
        node: p.node().map(str::to_owned),
        unadmitted: p.unadmitted.as_ref().map(|why| why.short()),
        score: p.score(),
        domain: p.node().and_then(|n| simulation.node_label(n, topology_key)).map(str::to_owned),
        workload: p.workload.clone(),
        relaxed: p.relaxed.to_vec(),
        devices: simulation
            .claims_of(&p.pod)
            .into_iter()
            .flat_map(|claim| claim.devices)
            .map(|device| device.device)
            .collect(),
    };
    waiting.map(row).collect()
}

fn write_yaml(out: &mut impl Write, simulation: &Simulation) -> Result<(), CliError> {
    let pods = simulation.pods().iter().filter_map(|p| p.placed_object());
    for object in simulation.created_claims().chain(pods) {
        writeln!(out, "---")?;
        output::yaml(out, &object)?;
    }
    Ok(())
}
