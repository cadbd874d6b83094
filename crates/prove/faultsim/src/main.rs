//! Deterministic simulation of Berth's components under faults.
//!
//! Scheduler, enforcer, webhook, controllers, kubelets and the API server run in one thread, each in its own runtime, on
//! simulated time (`platform`, `host`) and a simulated network (`network`). A seed chooses what users do (`workload`) and what
//! goes wrong (`plan`). After the run, `check` judges the history of the API server.
//!
//! `cargo xtask simulate --seed N` repeats a run.

mod check;
mod cluster;
mod history;
mod host;
mod many;
mod network;
mod plan;
mod platform;
mod run;
mod workload;

use std::process::ExitCode;

const USAGE: &str = "\
usage: berth-faultsim --seed N                        one run, with its log on standard error (RUST_LOG=info) and its
                                                      history in the file that FAULTSIM_HISTORY names
       berth-faultsim --runs N [--first N] [--jobs N]  the seeds that failed once, and N others in their own processes";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1)?.parse().ok()
    };
    match (number("--seed"), number("--runs")) {
        (Some(seed), None) => one(seed),
        (None, Some(n)) => {
            let jobs = number("--jobs")
                .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get() as u64));
            many::run(n, number("--first").unwrap_or(run::FIRST_WITH_LIES), jobs)
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn one(seed: u64) -> ExitCode {
    // First of all: what draws random numbers before this draws real ones.
    platform::simulate(seed);
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let report = run::run(seed);
    println!("{}", serde_json::to_string(&report).expect("a report is plain data"));
    ExitCode::from(u8::from(!report.findings.is_empty()))
}
