//! Deterministic simulation of Berth's components under faults.
//!
//! Scheduler, enforcer, webhook, console, controllers, kubelets and the API server run in one thread, each in its own runtime, on
//! simulated time (`platform`, `host`) and a simulated network (`network`). A seed chooses what users do (`workload`) and what
//! goes wrong (`plan`). After the run, `check` judges the history of the API server.
//!
//! `cargo xtask simulate --seed N` repeats a run.

mod check;
mod cluster;
mod console;
mod devices;
mod history;
mod host;
mod many;
mod moves;
mod network;
mod offline;
mod plan;
mod platform;
mod programs;
mod run;
mod scenario;
mod users;
mod workload;

use std::process::ExitCode;

const USAGE: &str = "\
usage: berth-faultsim --seed N                        one run, with its log on standard error (RUST_LOG=info) and its
                                                      history in the file that FAULTSIM_HISTORY names
       berth-faultsim --runs N [--first N] [--jobs N]  this many seeds, each in its own process
       berth-faultsim --reference N                    the seed on the real cluster of KUBECONFIG, without faults
       berth-faultsim --kept [--jobs N]                the seeds that failed once
       berth-faultsim --scenario NAME [--lost N | --made N]
                                                      a fixed scenario in which a component is killed when it sends its
                                                      N-th write, which the server does not make, or makes
       berth-faultsim --every-write [--jobs N]         all scenarios with each of their kills";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let position = |name: &str| args.iter().position(|arg| arg == name);
    let value = |name: &str| args.get(position(name)? + 1);
    let number = |name: &str| -> Option<u64> { value(name)?.parse().ok() };
    let jobs = number("--jobs")
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
    if let Some(seed) = number("--seed") {
        let run = if seed >= offline::FIRST_SEED { offline::run } else { run::run };
        return one(seed, || run(seed));
    }
    if let Some(seed) = number("--reference") {
        return offline::reference::run(seed);
    }
    if let Some(n) = number("--runs") {
        return many::seeds(n, number("--first").unwrap_or(run::FIRST_WITH_DEVICES), jobs);
    }
    if position("--kept").is_some() {
        return many::kept(jobs);
    }
    if position("--every-write").is_some() {
        return many::every_write(jobs);
    }
    let scenario = value("--scenario").and_then(|name| scenario::ALL.iter().find(|s| s.name == name));
    let Some(scenario) = scenario else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let lost = number("--lost").map(|write| (write, false));
    let kill = lost.or(number("--made").map(|write| (write, true)));
    one(0, || scenario.run(kill))
}

fn one(seed: u64, run: impl FnOnce() -> run::RunReport) -> ExitCode {
    // First of all: what draws random numbers before this draws real ones.
    platform::simulate(seed);
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let report = run();
    println!("{}", serde_json::to_string(&report).expect("a report is plain data"));
    ExitCode::from(u8::from(!report.findings.is_empty()))
}
