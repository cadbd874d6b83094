//! Idle processes do not spin: leaders, waiting replicas, and observers.

#![cfg(target_os = "linux")]

use berth_testkit::programs::TempDir;

use crate::client::eventually;
use crate::process::Berth;

/// A process that spins has a running thread in nearly every sample; one that sends requests without end, in some.
const SAMPLES: usize = 20;

/// Whether no thread of a process runs or is ready to run (proc(5)).
fn sleeps(process: &Berth) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    threads.flatten().all(|thread| {
        // The thread can have ended meanwhile.
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, fields)| !fields.starts_with('R'))
    })
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
    for (name, part) in &parts {
        let mut n_asleep = 0;
        eventually(&format!("{name} sleeps in {SAMPLES} samples in a row"), async || {
            n_asleep = if sleeps(part) { n_asleep + 1 } else { 0 };
            if n_asleep == SAMPLES { Ok(()) } else { Err(format!("{n_asleep} of {SAMPLES}")) }
        })
        .await;
    }
}
