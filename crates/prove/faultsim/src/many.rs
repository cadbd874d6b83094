//! Many runs, each in its own process: a crash or an endless loop in one ends only that one, and no state is left over.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::run::Report;

/// Seeds that failed once. They run first.
const KEPT: &str = include_str!("../seeds.txt");
/// A run takes a second.
const LONGEST: Duration = Duration::from_secs(300);

/// Sums of all runs.
#[derive(Default)]
struct Sums {
    n_runs: u64,
    n_failed: u64,
    n_bindings: usize,
    n_evictions: usize,
    n_requests: u64,
    n_changes: usize,
    seconds: u64,
    /// By fault: runs with it, and how often it occurred.
    faults: BTreeMap<String, (u64, u64)>,
}

/// Runs the kept seeds and `n` more from `first` on.
pub fn run(n: u64, first: u64, jobs: u64) -> ExitCode {
    let begun = Instant::now();
    let kept = KEPT.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok());
    let seeds: Mutex<Vec<u64>> = Mutex::new(kept.chain(first..first + n).rev().collect());
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = seeds.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(seed) = next else { break };
                    let report = child(seed);
                    sums.lock().unwrap_or_else(PoisonError::into_inner).add(&report);
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} runs, {} failed; {} simulated hours in {:.0} s; {} requests, {} changes of objects, {} bindings judged, {} \
         evictions by enforcers",
        sums.n_runs,
        sums.n_failed,
        sums.seconds / 3600,
        begun.elapsed().as_secs_f64(),
        sums.n_requests,
        sums.n_changes,
        sums.n_bindings,
        sums.n_evictions
    );
    println!("{:<40} {:>8} {:>10}", "FAULT", "RUNS", "TIMES");
    for (fault, (runs, times)) in &sums.faults {
        println!("{fault:<40} {runs:>8} {times:>10}");
    }
    ExitCode::from(u8::from(sums.n_failed > 0))
}

impl Sums {
    fn add(&mut self, report: &Report) {
        self.n_runs += 1;
        self.n_bindings += report.n_bindings;
        self.n_evictions += report.n_evictions;
        self.n_requests += report.n_requests;
        self.n_changes += report.n_changes;
        self.seconds += report.seconds;
        for (fault, n) in &report.faults {
            let (runs, times) = self.faults.entry(fault.clone()).or_default();
            *runs += 1;
            *times += n;
        }
        if !report.findings.is_empty() {
            self.n_failed += 1;
            println!(
                "seed {} failed; repeat it with: cargo xtask simulate --seed {}",
                report.seed, report.seed
            );
            report.findings.iter().take(5).for_each(|finding| println!("  {finding}"));
        }
    }
}

fn child(seed: u64) -> Report {
    let failed = |why: String| Report { seed, findings: vec![why], ..Report::default() };
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(["--seed", &seed.to_string()])
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return failed(format!("the run could not be started: {error}")),
    };
    let Some(mut stdout) = child.stdout.take() else { return failed("no output".to_owned()) };
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        text
    });
    let ended = wait(&mut child);
    let text = reader.join().unwrap_or_default();
    match serde_json::from_str(text.trim()) {
        Ok(report) => report,
        Err(_) => failed(format!("the run gave no report: {ended}")),
    }
}

fn wait(child: &mut Child) -> String {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Err(error) => return error.to_string(),
            Ok(None) if begun.elapsed() > LONGEST => {
                let _ = child.kill();
                let _ = child.wait();
                return format!("it did not end within {LONGEST:?}");
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
