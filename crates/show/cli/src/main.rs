//! `berth`: schedules Kubernetes pods, explains placements and enforces affinity rules.
//!
//! This file parses arguments and turns outcomes into exit codes. Each command has its own file under
//! `commands`, which connects the libraries; `render` writes the text output.

mod cluster;
mod commands;
mod error;
mod installation;
mod live;
mod mcp;
mod objects;
mod pictures;
mod plugin;
mod recordings;
mod render;
mod report;
mod summary;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use berth_terminal::output::{self, Color};
use berth_terminal::process;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::cluster_args::warn_about_cut_searches;
use crate::commands::feature_gate_args::KubernetesArgs;
use crate::commands::{
    apiserver, audit, capacity, compare, completions, console, dump, enforcer, explain, install, kubelet,
    lint, man, rebalance, record, replay, scheduler, sets, simulate, up, version, webhook, what_if,
};
use crate::error::CliError;
use crate::plugin::Role;

/// With the system allocators, a fifth of the processor time of a server and its clients goes into allocation (many threads,
/// many small objects); musl's allocator in static binaries is slower still.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes:
  0    success: all pods are placed (simulate, up), no change does harm (what-if), one more
       replica fits (capacity), the pod fits (explain), no rule is violated (audit), no pod is
       selected by two controllers or budgets (sets), no findings (lint), no differences (replay,
       compare), stopped by Ctrl-C (up, console, apiserver, scheduler, enforcer, webhook,
       kubelet, record)
  1    some pods are unplaced (simulate, up, what-if), rules break or pods are evicted (what-if),
       no more replica fits (capacity), the pod does not fit or violates a rule (explain), rules
       are violated (audit), pods are selected by two controllers or budgets (sets), there are
       findings (lint), differences were found (replay, compare)
  2    invalid input or usage, or the cluster cannot be started or reached
  141  the reader closed the output pipe";

const EXAMPLES: &str = "\
Examples:
  berth up --nodes 3 --zones 3 -f examples/redis-web
  berth simulate -f manifests/ --nodes 12 --zones 3
  berth dump cluster.json.gz; berth simulate --dump cluster.json.gz -f new-deployment.yaml
  berth explain -f cluster.yaml team-a/web-0
  berth what-if -f cluster.yaml --remove-domain zone=eu-west-1a
  berth capacity -f cluster.yaml deploy/web
  berth replay recording.jsonl.gz";

/// Schedule Kubernetes pods, explain their placement and enforce their affinity rules
#[derive(Debug, Parser)]
#[command(name = "berth", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    /// When to color the output; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Simulate(simulate::Args),
    Explain(explain::Args),
    Audit(audit::Args),
    Sets(sets::Args),
    Lint(lint::Args),
    WhatIf(what_if::Args),
    Capacity(capacity::Args),
    Rebalance(rebalance::Args),
    Compare(compare::Args),
    Console(console::Args),
    Mcp(commands::mcp::Args),
    Dump(dump::Args),
    Apiserver(apiserver::Args),
    Scheduler(scheduler::Args),
    Enforcer(enforcer::Args),
    Kubelet(kubelet::Args),
    Record(record::Args),
    Replay(replay::Args),
    Webhook(webhook::Args),
    Install(install::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

fn main() -> ExitCode {
    let cli = match Role::of(std::env::args_os().next()) {
        Role::Program => process::arguments(Cli::command()),
        Role::Plugin => {
            let words = plugin::with_default_cluster(&Cli::command(), std::env::args_os().collect());
            process::parsed(plugin::as_plugin(Cli::command()), words)
        }
        Role::Completer => {
            let words: Vec<String> = std::env::args().skip(1).collect();
            // There is nothing to complete when standard output is closed.
            let _: std::io::Result<()> = plugin::complete(&Cli::command(), &words);
            return ExitCode::SUCCESS;
        }
    };
    let cli: Cli = match cli {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    cli.color.apply();
    let answer = match cli.command {
        Command::Up(args) => up::run(&args),
        Command::Apiserver(args) => apiserver::run(&args),
        Command::Scheduler(args) => scheduler::run(&args),
        Command::Enforcer(args) => enforcer::run(&args),
        Command::Kubelet(args) => kubelet::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(args),
        Command::Audit(args) => audit::run(&args),
        Command::Sets(args) => sets::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Record(args) => record::run(&args, cli.kubernetes),
        Command::WhatIf(args) => what_if::run(&args),
        Command::Capacity(args) => capacity::run(args),
        Command::Rebalance(args) => rebalance::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Console(args) => console::run(&args),
        Command::Mcp(args) => commands::mcp::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Webhook(args) => webhook::run(&args),
        Command::Install(args) => install::run::<Cli>(&args),
        Command::Completions(args) => completions::run::<Cli>(&args),
        Command::Man(args) => man::run::<Cli>(&args),
        Command::Version(args) => version::run(&args, cli.kubernetes),
    };
    warn_about_cut_searches();
    match answer {
        Ok(status) => status.into(),
        Err(CliError::Output(error)) => process::output_failed(&error),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}
