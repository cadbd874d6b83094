//! Idle processes use no CPU: leaders, waiting replicas, and observers.

#![cfg(target_os = "linux")]

use std::time::Duration;

use crate::client::eventually;
use crate::process::{Berth, TempDir};

/// The CPU time of a process, in ticks of 10 ms (`utime` and `stime` of proc(5)).
fn ticks(process: &Berth) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn replicas_do_not_spin_after_a_change_of_the_leader_or_without_a_ledger() {
    let directory = TempDir::new("idle");
    let server = Berth::start(&directory, "server", &["apiserver"]);
    let kubeconfig = server.line_after("export KUBECONFIG=");
    let replica = |name: &str, args: &[&str]| {
        let all = [args, &["--kubeconfig", &kubeconfig, "-v"]].concat();
        (name.to_owned(), Berth::start(&directory, name, &all))
    };
    let parts = [
        replica("scheduler-1", &["scheduler", "--leader-elect"]),
        replica("scheduler-2", &["scheduler", "--leader-elect"]),
        replica("enforcer-1", &["enforcer", "--leader-elect"]),
        replica("enforcer-2", &["enforcer", "--leader-elect"]),
        replica("dry-run", &["enforcer", "--dry-run"]),
    ];
    for (name, part) in &parts {
        eventually(&format!("{name} has seen the cluster"), async || match part.stderr() {
            log if log.contains("the state of the cluster is complete") => Ok(()),
            log => Err(log),
        })
        .await;
    }
    // Leases are renewed every two seconds; a process that spins uses a whole core.
    const WATCHED: Duration = Duration::from_secs(5);
    let before = parts.each_ref().map(|(_, part)| ticks(part));
    tokio::time::sleep(WATCHED).await;
    for ((name, part), before) in parts.iter().zip(before) {
        let spent = Duration::from_millis(10) * u32::try_from(ticks(part) - before).unwrap();
        assert!(
            spent < WATCHED / 10,
            "{name} took {spent:?} of processor time in {WATCHED:?}, doing nothing"
        );
    }
}
