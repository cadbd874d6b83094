//! Many runs, each in its own process: a crash or an endless loop in one ends only that one, and no state is left over.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::run::RunReport;
use crate::scenario::{self, Scenario};

/// Seeds that failed once.
const KEPT: &str = include_str!("../seeds.txt");
/// A run takes a second. On a busy machine it may wait; `platform` limits its time of the processor.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Sums {
    n_runs: u64,
    n_failed: u64,
    n_bindings: usize,
    n_allocations: usize,
    n_moves: usize,
    n_evictions: usize,
    n_confirmed: usize,
    n_requests: u64,
    n_changes: usize,
    seconds: u64,
    /// By fault: runs with it, and how often it occurred.
    faults: BTreeMap<String, (u64, u64)>,
}

/// Runs `n` seeds from `first` on.
pub fn seeds(n: u64, first: u64, jobs: u64) -> ExitCode {
    run((first..first + n).map(|seed| format!("--seed {seed}")).collect(), jobs)
}

pub fn kept(jobs: u64) -> ExitCode {
    let seeds = KEPT.lines().filter_map(|line| line.split_whitespace().next());
    run(seeds.map(|seed| format!("--seed {seed}")).collect(), jobs)
}

/// Runs each scenario with a kill at each of the writes that it has without a kill.
pub fn every_write(jobs: u64) -> ExitCode {
    let mut commands = Vec::new();
    for Scenario { name, .. } in &scenario::ALL {
        let command = format!("--scenario {name}");
        let n_writes = child(&command).n_writes;
        println!("{name}: {n_writes} writes");
        commands.push(command.clone());
        for write in 1..=n_writes {
            commands.extend(["lost", "made"].map(|kind| format!("{command} --{kind} {write}")));
        }
    }
    run(commands, jobs)
}

/// Runs commands of this program.
fn run(mut commands: Vec<String>, jobs: u64) -> ExitCode {
    let begun = Instant::now();
    commands.reverse();
    let commands = Mutex::new(commands);
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = commands.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let Some(command) = next else { break };
                    let report = child(&command);
                    sums.lock().unwrap_or_else(PoisonError::into_inner).add(&command, &report);
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "{} runs, {} failed; {} simulated hours in {:.0} s; {} requests, {} changes of objects, {} bindings judged, {} \
         allocations of devices, {} evictions by enforcers, {} of them moves, {} writes by viewers of the console",
        sums.n_runs,
        sums.n_failed,
        sums.seconds / 3600,
        begun.elapsed().as_secs_f64(),
        sums.n_requests,
        sums.n_changes,
        sums.n_bindings,
        sums.n_allocations,
        sums.n_evictions,
        sums.n_moves,
        sums.n_confirmed
    );
    println!("{:<40} {:>8} {:>10}", "FAULT", "RUNS", "TIMES");
    for (fault, (runs, times)) in &sums.faults {
        println!("{fault:<40} {runs:>8} {times:>10}");
    }
    ExitCode::from(u8::from(sums.n_failed > 0))
}

impl Sums {
    fn add(&mut self, command: &str, report: &RunReport) {
        self.n_runs += 1;
        self.n_bindings += report.n_bindings;
        self.n_allocations += report.n_allocations;
        self.n_evictions += report.n_evictions;
        self.n_moves += report.n_moves;
        self.n_confirmed += report.n_confirmed;
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
            println!("failed; repeat it with: cargo xtask simulate {command}");
            report.findings.iter().take(5).for_each(|finding| println!("  {finding}"));
        }
    }
}

fn child(command: &str) -> RunReport {
    let failed = |why: String| RunReport { findings: vec![why], ..RunReport::default() };
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(command.split(' '))
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
