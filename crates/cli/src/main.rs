//! `berth`: decides and explains where Kubernetes pods run.
//!
//! This file parses arguments and turns outcomes into exit codes. Each command has a file of its own under
//! `commands`, which wires the libraries together; what people read is written under `render`.

mod cluster;
mod cluster_bench;
mod commands;
#[cfg(test)]
mod documentation;
mod error;
mod input;
mod installation;
mod live;
mod output;
mod recordings;
mod render;
mod report;
mod summary;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    apiserver, audit, bench, completions, enforcer, explain, install, kubelet, man, replay, scheduler,
    simulate, up, version, webhook,
};
use crate::error::CliError;
use crate::output::Color;

/// The system's allocators take a fifth of the time where many threads make and drop many small objects, as a server and
/// its clients do; musl's, which static binaries have, takes more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes:
  0    everything is placed (simulate, up), the pod fits (explain), all rules hold (audit),
       no differences (replay), measured (bench), ended by Ctrl-C (up, apiserver, scheduler,
       enforcer, webhook, kubelet)
  1    some pods are not placed (simulate, up), the pod does not fit or one of its rules no
       longer holds (explain), rules do not hold (audit), differences were found (replay),
       a workload is broken or a placement against its rules (bench)
  2    bad input or usage, or a cluster that cannot be started or reached
  141  the reader of the output went away";

const EXAMPLES: &str = "\
Examples:
  berth up --nodes 3 --zones 3 -f examples/redis-web
  berth simulate -f manifests/ --nodes 12 --zones 3
  kubectl get nodes,namespaces,pods -A -o yaml | berth simulate -f - -f new-deployment.yaml
  berth explain -f cluster.yaml team-a/web-0
  berth replay recording.jsonl.gz
  berth bench scale --nodes 10000 --pods 10000";

/// Decides and explains where Kubernetes pods run, and runs them there
#[derive(Debug, Parser)]
#[command(name = "berth", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    /// When to colour the output; auto means on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Args),
    Simulate(simulate::Args),
    Explain(explain::Args),
    Audit(audit::Args),
    Apiserver(apiserver::Args),
    Scheduler(scheduler::Args),
    Enforcer(enforcer::Args),
    Kubelet(kubelet::Args),
    Replay(replay::Args),
    Bench(bench::Args),
    Webhook(webhook::Args),
    Install(install::Args),
    Completions(completions::Args),
    Man(man::Args),
    Version(version::Args),
}

/// How a command that did its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Everything is placed, fits, agrees.
    Good,
    /// Something is not placed, does not fit, differs.
    Bad,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
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
        Command::Replay(args) => replay::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Webhook(args) => webhook::run(&args),
        Command::Install(args) => install::run::<Cli>(&args),
        Command::Completions(args) => completions::run::<Cli>(&args),
        Command::Man(args) => man::run::<Cli>(&args),
        Command::Version(args) => version::run(&args),
    };
    match answer {
        Ok(Answer::Good) => ExitCode::SUCCESS,
        Ok(Answer::Bad) => ExitCode::from(1),
        // What a shell shows for a program that SIGPIPE ended.
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::from(141),
        Err(error) => {
            output::error(&error);
            ExitCode::from(2)
        }
    }
}
