//! Several enforcers without leader election share one ledger: whatever they do in whatever order, the limits hold for
//! all of them together.

use std::collections::{BTreeMap, HashSet};

use super::*;

const N_NODES: usize = 3;

/// One enforcer: what it knows of the ledger, and what it wants to write.
struct Process {
    limiter: EvictionLimiter,
    /// The version of the ledger that it has read or written; none if it must read.
    version: Option<u64>,
    /// Pods whose eviction is in the ledger that it knows.
    known: HashSet<String>,
    is_dirty: bool,
}

/// The ledger, with the enforcers and what they evicted.
struct World {
    options: LimitOptions,
    n_pods: usize,
    version: u64,
    ledger: LimiterState,
    processes: Vec<Process>,
    /// Evicted pods, and when their eviction was reserved.
    evicted: BTreeMap<String, i64>,
}

fn name(pod: usize) -> (String, String) {
    (format!("pod-{pod}"), format!("node-{}", pod % N_NODES))
}

impl World {
    fn new(n_processes: usize, n_pods: usize, options: LimitOptions) -> World {
        let mut world = World {
            options,
            n_pods,
            version: 0,
            ledger: LimiterState::default(),
            processes: Vec::new(),
            evicted: BTreeMap::new(),
        };
        world.processes = (0..n_processes).map(|i| world.process(&i.to_string())).collect();
        world
    }

    fn process(&self, identity: &str) -> Process {
        let limiter = EvictionLimiter::new(self.options.clone()).shared_as(identity);
        Process { limiter, version: None, known: HashSet::new(), is_dirty: false }
    }

    fn read(&mut self, i: usize, now: Timestamp) {
        let process = &mut self.processes[i];
        process.limiter.import(self.ledger.clone(), now);
        process.known = self.ledger.uids().map(str::to_owned).collect();
        process.version = Some(self.version);
    }

    /// Writes what the process exported `before` other processes wrote, or not.
    fn write(&mut self, i: usize) {
        let process = &mut self.processes[i];
        let Some(version) = process.version.filter(|_| process.is_dirty) else { return };
        if version != self.version {
            // A conflict.
            process.version = None;
            return;
        }
        let text = serde_json::to_string(&process.limiter.export()).unwrap();
        self.ledger = serde_json::from_str(&text).unwrap();
        self.version += 1;
        process.known = self.ledger.uids().map(str::to_owned).collect();
        (process.version, process.is_dirty) = (Some(self.version), false);
    }

    /// Selects pods that are not evicted, reserves, and evicts what is in the ledger.
    fn select(&mut self, i: usize, pods: &[usize], now: Timestamp, random: &mut fastrand::Rng) {
        let n_running = self.n_pods - self.evicted.len();
        let process = &mut self.processes[i];
        if process.version.is_none() {
            return;
        }
        let stop = process.limiter.check_cluster_limit(n_running, pods.len(), now);
        process.is_dirty |= stop.is_some();
        for &pod in pods {
            let (uid, node) = name(pod);
            if self.evicted.contains_key(&uid) {
                continue;
            }
            let workload = format!("workload-{}", pod % 2);
            let candidate = Candidate { uid: &uid, node: &node, workload: &workload, ..candidate("") };
            match process.limiter.reserve(&candidate, now) {
                Ok(is_new) if is_new => process.known.remove(&uid),
                Ok(_) => false,
                Err(_) => continue,
            };
            if !process.known.contains(&uid) {
                process.is_dirty = true;
            } else if random.u8(0..5) == 0 {
                // A budget refuses it.
                process.limiter.cancel(&uid);
                process.known.remove(&uid);
            } else {
                let entry = process.limiter.entries.iter().find(|entry| entry.uid == uid).unwrap();
                assert_eq!(self.evicted.insert(uid, entry.at), None, "evicted twice");
            }
        }
    }

    /// The largest number of evictions of some pods that were reserved within a time.
    fn most_within(&self, time: Duration, counts: impl Fn(&str) -> bool) -> usize {
        let evictions: Vec<i64> =
            self.evicted.iter().filter(|(uid, _)| counts(uid)).map(|(_, at)| *at).collect();
        let within = |start: &i64| {
            let end = start + i64::try_from(time.as_millis()).unwrap();
            evictions.iter().filter(|at| (*start..end).contains(at)).count()
        };
        evictions.iter().map(within).max().unwrap_or(0)
    }
}

#[test]
fn enforcers_that_share_a_ledger_keep_the_limits_together() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n_pods = 110;
        let options = LimitOptions {
            window: Duration::from_secs(20),
            evictions_per_second: 5.0,
            max_per_node: 6,
            max_cluster_share: 0.1,
            ..loose()
        };
        let mut world = World::new(random.usize(2..4), n_pods, options.clone());
        let mut now = start();
        for _ in 0..600 {
            now = after(now, Duration::from_millis(random.u64(0..400)));
            let i = random.usize(0..world.processes.len());
            match random.u8(0..100) {
                // A crash.
                0 => world.processes[i] = world.process(&format!("{i}-{now}")),
                1..=30 if world.processes[i].version.is_none() => world.read(i, now),
                31..=60 => world.write(i),
                _ => {
                    // Mostly a few pods, sometimes more than the cluster limit.
                    let n = if random.u8(0..40) == 0 { 15 } else { random.usize(1..6) };
                    let pods: Vec<usize> = (0..n).map(|_| random.usize(0..n_pods)).collect();
                    world.select(i, &pods, now, &mut random);
                }
            }
        }
        assert!(world.evicted.len() > 3, "seed {seed}: only {}", world.evicted.len());
        assert!(world.most_within(options.window, |_| true) <= 11, "seed {seed}");
        assert!(world.most_within(Duration::from_secs(1), |_| true) <= 5, "seed {seed}");
        for node in 0..N_NODES {
            let on = |uid: &str| uid[4..].parse::<usize>().unwrap() % N_NODES == node;
            assert!(world.most_within(options.window, on) <= 6, "seed {seed}");
        }
    }
}

#[test]
fn the_next_process_continues_the_stop_of_all_evictions() {
    let mut first = limiter(LimitOptions { max_cluster_share: 0.1, ..loose() });
    assert!(matches!(first.check_cluster_limit(100, 50, at(10)), Some(ClusterStop::Started(_))));
    let written = serde_json::to_string(&first.export()).unwrap();
    let mut second = limiter(LimitOptions { max_cluster_share: 0.1, ..loose() });
    second.import(serde_json::from_str(&written).unwrap(), at(20));
    assert_eq!(second.check_cluster_limit(100, 50, at(20)), None);
    assert_eq!(throttled(&mut second, &candidate("a"), at(20)), (LimitKind::Cluster, 610));
    second.reserve(&candidate("a"), at(610)).unwrap();
}

#[test]
fn a_reservation_belongs_to_the_process_that_made_it() {
    let mut first = limiter(loose()).shared_as("first");
    first.reserve(&candidate("a"), at(0)).unwrap();
    let written = first.export();
    let mut second = limiter(loose()).shared_as("second");
    second.reserve(&candidate("b"), at(0)).unwrap();
    second.import(written.clone(), at(1));
    assert!(!second.is_reserved("b"), "it was reserved without the first one's");
    assert_eq!(throttled(&mut second, &candidate("a"), at(1)), (LimitKind::OtherProcess, 600));
    second.cancel("a");
    assert!(second.is_reserved("a"));
    // The first process has crashed, and evicts it or not: it counts for a window.
    second.reserve(&candidate("a"), at(600)).unwrap();
    first.import(written.clone(), at(1));
    first.cancel("a");
    assert!(!first.is_reserved("a"));
    // With a leader election, the leader before this one has ended.
    let mut leader = limiter(loose());
    leader.import(written, at(1));
    leader.reserve(&candidate("a"), at(1)).unwrap();
    leader.cancel("a");
    assert_eq!(leader.n_evictions(), 0);
}
