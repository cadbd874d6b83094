//! One run: the cluster of a seed, its faults, the time to settle, and the checks.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use berth_enforcer::LimitOptions;
use berth_testkit::check::history::{Changes, State, bound_twice, text};
use serde::{Deserialize, Serialize};

use crate::check::{check_bindings, console, devices, evictions, moves, quotas, settled, steps};
use crate::cluster::{Additions, Cluster};

/// How long the cluster may take to settle after the last fault: nodes that come back, stalled watches, back-off.
const SETTLE: Duration = Duration::from_secs(900);
/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(30);

/// From this seed on, users also create pod groups; the seeds below keep the runs that they had before.
pub const FIRST_WITH_GROUPS: u64 = 4_000_000;
/// From this seed on, the server also lies, takes permissions away, and components are killed when they write.
pub const FIRST_WITH_LIES: u64 = 6_000_000;
/// From this seed on, viewers of the console change the cluster.
pub const FIRST_WITH_CONSOLE: u64 = 7_000_000;
/// From this seed on, nodes have devices.
pub const FIRST_WITH_DEVICES: u64 = 8_000_000;
/// From this seed on, the enforcers rebalance workloads that users create at first; users do nothing else.
pub const FIRST_WITH_MOVES: u64 = 9_000_000;

/// From this seed on, writes take time within the API server, and clients hang up while a quota is charged.
pub const FIRST_WITH_QUOTAS: u64 = 10_000_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    pub seed: u64,
    /// Of the whole history: equal for equal runs.
    pub hash: String,
    pub seconds: u64,
    pub n_changes: usize,
    /// Bindings that were judged.
    pub n_bindings: usize,
    pub n_allocations: usize,
    pub n_evictions: usize,
    pub n_moves: usize,
    /// Writes that viewers of the console confirmed.
    pub n_confirmed: usize,
    pub n_requests: u64,
    /// Writes of the host that may be killed.
    pub n_writes: u64,
    /// How often each fault occurred.
    pub faults: BTreeMap<String, u64>,
    pub findings: Vec<String>,
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs a seed, once the platform simulates. A process runs only one.
pub fn run(seed: u64) -> RunReport {
    let mut rng = start(seed);
    let mut faulty = Duration::from_secs(rng.u64(30..120));
    let quotas = seed >= FIRST_WITH_QUOTAS;
    let moves = seed >= FIRST_WITH_MOVES && !quotas;
    if moves {
        // Moves begin when the pods have settled.
        faulty += Duration::from_secs(60);
    }
    let additions = Additions {
        groups: seed >= FIRST_WITH_GROUPS,
        lies: seed >= FIRST_WITH_LIES,
        console: seed >= FIRST_WITH_CONSOLE && !moves,
        devices: (seed >= FIRST_WITH_DEVICES && !moves).then_some(seed),
        moves,
        quotas: quotas.then_some(seed),
    };
    // Moves go on when nothing else does.
    let least = Duration::from_secs(if moves { 240 } else { 0 });
    RunReport { seed, ..settle(&mut Cluster::new(rng, faulty, additions), faulty, least) }
}

/// The random numbers of a seed. Panics are findings: runtimes catch those of tasks.
pub fn start(seed: u64) -> fastrand::Rng {
    let mut rng = fastrand::Rng::with_seed(seed);
    fastrand::seed(rng.u64(..));
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        default(panic);
    }));
    rng
}

/// Runs a cluster whose faults end at a time until it has settled, and at least for some time after that, and judges its history.
pub fn settle(cluster: &mut Cluster, faulty: Duration, least: Duration) -> RunReport {
    cluster.run_until(faulty);
    cluster.network.heal();
    let mut end = faulty + least;
    let (changes, unsettled) = loop {
        end += LOOK;
        cluster.run_until(end);
        let changes = cluster.history.changes();
        let state = State::after(&steps(&changes));
        let mut unsettled = settled::unsettled(&changes, &state, &cluster.network.attempts());
        unsettled.extend(cluster.viewers.unanswered());
        unsettled.extend(quotas::wrong(&changes));
        if unsettled.is_empty() || end >= faulty + SETTLE {
            break (changes, unsettled);
        }
    };
    write_history(&changes);
    let accepted = cluster.network.accepted();
    let (faults, n_requests) = cluster.network.counts();
    let steps = steps(&changes);
    let (n_bindings, mut findings) = check_bindings(&steps, &cluster.network.attempts());
    findings.extend(devices::check(&steps));
    let n_pods = most_pods(&changes);
    let (n_evictions, over_limits) = evictions::over_limits(&accepted, &LimitOptions::default(), n_pods);
    // The limits count by the wall clock, which is what a jump changes.
    if !cluster.enforcer_clock_jumped() {
        findings.extend(over_limits);
    }
    let (n_confirmed, of_console) = console::check(&cluster.viewers.lists(), &changes, &accepted);
    findings.extend(of_console);
    findings.extend(bound_twice(&changes));
    let (n_moves, of_moves) = moves::check(&changes, cluster.a_clock_jumped());
    findings.extend(of_moves);
    findings.extend(evictions::against_budgets(&changes));
    findings.extend(quotas::check(&changes, end));
    findings.extend(unsettled.into_iter().map(|finding| format!("not settled: {finding}")));
    findings.extend(PANICS.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
    RunReport {
        seed: 0,
        hash: hash(&changes, &accepted),
        seconds: end.as_secs(),
        n_changes: changes.len(),
        n_bindings,
        n_allocations: devices::n_allocations(&steps),
        n_evictions,
        n_moves,
        n_confirmed,
        n_requests,
        n_writes: cluster.network.n_writes(),
        faults: faults.into_iter().map(|(fault, n)| (fault.to_owned(), n)).collect(),
        findings,
    }
}

/// Writes the changes of the run as JSON lines, if `FAULTSIM_HISTORY` names a file.
fn write_history(changes: &Changes) {
    let Some(path) = std::env::var_os("FAULTSIM_HISTORY") else { return };
    let lines = changes.iter().map(|(version, change)| {
        let at = change.at.as_secs_f64();
        let line = serde_json::json!({"version": version, "at": at, "kind": change.kind, "deleted": change.deleted,
            "object": change.object});
        format!("{line}\n")
    });
    if let Err(error) = std::fs::write(&path, lines.collect::<String>()) {
        eprintln!("{}: {error}", path.display());
    }
}

fn hash(changes: &Changes, accepted: &[crate::network::Accepted]) -> String {
    let mut hasher = DefaultHasher::new();
    for (version, change) in changes {
        (version, change.at, &change.kind, change.deleted, change.object.to_string()).hash(&mut hasher);
    }
    for write in accepted {
        (write.at, write.client, write.method.as_str(), &write.path).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// The most pods that existed at one time.
fn most_pods(changes: &Changes) -> usize {
    let mut pods = std::collections::BTreeSet::new();
    let mut most = 0;
    for change in changes.values().filter(|change| change.kind == "Pod") {
        let uid = text(&change.object["metadata"]["uid"]).to_owned();
        if change.deleted {
            pods.remove(&uid)
        } else {
            pods.insert(uid)
        };
        most = most.max(pods.len());
    }
    most
}
