use std::time::Duration;

use jiff::Timestamp;

use super::eviction_limiter::MAX_BYTES;
use super::times::{after, before, millis, of_millis};
use super::*;

mod shared;

const TERM: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingRequiredDuringExecution";

fn start() -> Timestamp {
    of_millis(1_800_000_000_000)
}

fn at(seconds: u64) -> Timestamp {
    after(start(), Duration::from_secs(seconds))
}

/// No limits except those that a test sets.
fn loose() -> LimitOptions {
    LimitOptions {
        evictions_per_second: 1000.0,
        max_per_node: 1000,
        max_per_namespace: 1000,
        max_cluster_share: 1.0,
        max_workload_share: 1.0,
        ..LimitOptions::default()
    }
}

fn limiter(options: LimitOptions) -> EvictionLimiter {
    let mut limiter = EvictionLimiter::new(options);
    limiter.check_cluster_limit(1000, 0, start());
    limiter
}

fn candidate(uid: &str) -> Candidate<'_> {
    Candidate {
        uid,
        node: "n1",
        namespace: "default",
        workload: "default/ReplicaSet/web",
        term: TERM,
        seen_at: before(start(), Duration::from_secs(3600)),
        n_workload_pods: 1000,
    }
}

fn throttled(limiter: &mut EvictionLimiter, candidate: &Candidate<'_>, now: Timestamp) -> (LimitKind, u64) {
    let held = limiter.reserve(candidate, now).unwrap_err();
    (held.limit_kind, held.until.duration_since(start()).as_secs().unsigned_abs())
}

#[test]
fn limits_of_nodes_namespaces_and_workloads_apply_within_the_window() {
    for (options, limit_kind) in [
        (LimitOptions { max_per_node: 2, ..loose() }, LimitKind::Node),
        (LimitOptions { max_per_namespace: 2, ..loose() }, LimitKind::Namespace),
        (LimitOptions { max_workload_share: 0.002, ..loose() }, LimitKind::Workload),
    ] {
        let mut limiter = limiter(options);
        limiter.reserve(&candidate("a"), at(0)).unwrap();
        limiter.reserve(&candidate("b"), at(100)).unwrap();
        // The first of the two expires after the window of 600 s.
        assert_eq!(throttled(&mut limiter, &candidate("c"), at(101)), (limit_kind, 600));
        let elsewhere =
            Candidate { node: "n2", namespace: "other", workload: "other/ReplicaSet/x", ..candidate("d") };
        limiter.reserve(&elsewhere, at(102)).unwrap();
        assert_eq!(throttled(&mut limiter, &candidate("c"), at(599)), (limit_kind, 600));
        limiter.reserve(&candidate("c"), at(600)).unwrap();
        assert_eq!(throttled(&mut limiter, &candidate("e"), at(601)), (limit_kind, 700));
    }
}

#[test]
fn one_pod_of_a_small_workload_is_always_allowed() {
    let mut limiter = limiter(LimitOptions { max_workload_share: 0.1, ..loose() });
    let of_two = |uid| Candidate { n_workload_pods: 2, ..candidate(uid) };
    limiter.reserve(&of_two("a"), at(0)).unwrap();
    assert_eq!(throttled(&mut limiter, &of_two("b"), at(1)).0, LimitKind::Workload);
}

#[test]
fn evictions_keep_the_minimum_interval() {
    let mut limiter = limiter(LimitOptions { evictions_per_second: 0.5, ..loose() });
    limiter.reserve(&candidate("a"), at(0)).unwrap();
    assert_eq!(throttled(&mut limiter, &candidate("b"), at(1)), (LimitKind::Rate, 2));
    // A cancelled eviction does not shorten the interval.
    limiter.cancel("a");
    assert_eq!(throttled(&mut limiter, &candidate("b"), at(1)), (LimitKind::Rate, 2));
    limiter.reserve(&candidate("b"), at(2)).unwrap();
}

#[test]
fn a_rate_above_one_per_second_allows_a_burst() {
    let mut limiter = limiter(LimitOptions { evictions_per_second: 2.5, ..loose() });
    let millis = |n| of_millis(millis(start()) + n);
    limiter.reserve(&candidate("a"), millis(0)).unwrap();
    limiter.reserve(&candidate("b"), millis(1)).unwrap();
    let held = limiter.reserve(&candidate("c"), millis(2)).unwrap_err();
    // Two in 0.8 s are 2.5 per second.
    assert_eq!((held.limit_kind, held.until), (LimitKind::Rate, millis(800)));
    limiter.reserve(&candidate("c"), millis(800)).unwrap();
    assert_eq!(limiter.reserve(&candidate("d"), millis(800)).unwrap_err().until, millis(801));
}

#[test]
fn too_many_due_evictions_stop_for_a_window_and_then_resume_at_the_limit() {
    let mut limiter = EvictionLimiter::new(LimitOptions { max_cluster_share: 0.1, ..loose() });
    assert_eq!(limiter.check_cluster_limit(100, 10, at(0)), None);
    let Some(ClusterStop::Started(engaged)) = limiter.check_cluster_limit(100, 11, at(0)) else {
        panic!("it holds")
    };
    assert_eq!((engaged.n, engaged.limit, engaged.until), (11, 10, at(600)));
    assert_eq!(throttled(&mut limiter, &candidate("a"), at(0)), (LimitKind::Cluster, 600));
    assert_eq!(limiter.check_cluster_limit(100, 90, at(599)), None, "it says so once");
    assert_eq!(limiter.stops_all(90, at(599)).map(|held| held.until), Some(at(600)));
    assert_eq!(limiter.stops_all(10, at(599)), None, "they might be let go");
    assert_eq!(limiter.stops_all(90, at(600)), None, "the window has passed");
    assert_eq!(throttled(&mut limiter, &candidate("a"), at(599)), (LimitKind::Cluster, 600));
    // The window has passed, and too many are still due: now evictions up to the limit are allowed.
    assert_eq!(limiter.check_cluster_limit(100, 90, at(600)), None);
    for i in 0..10 {
        limiter.reserve(&candidate(&i.to_string()), at(600 + i)).unwrap();
    }
    assert_eq!(throttled(&mut limiter, &candidate("a"), at(700)), (LimitKind::Cluster, 1200));
    limiter.reserve(&candidate("a"), at(1200)).unwrap();
    assert_eq!(
        limiter.check_cluster_limit(100, 1, at(1200)),
        None,
        "with ten of this window it is one too many"
    );
    assert!(limiter.is_stopped());
    assert_eq!(limiter.check_cluster_limit(100, 0, at(1200)), Some(ClusterStop::Ended));
    assert!(!limiter.is_stopped());
}

#[test]
fn past_evictions_count_as_due_and_restored_labels_end_the_stop() {
    let mut limiter = EvictionLimiter::new(LimitOptions { max_cluster_share: 0.1, ..loose() });
    limiter.check_cluster_limit(100, 8, at(0));
    for uid in ["a", "b", "c", "d"] {
        limiter.reserve(&candidate(uid), at(1)).unwrap();
    }
    assert!(matches!(limiter.check_cluster_limit(100, 7, at(2)), Some(ClusterStop::Started(_))));
    assert_eq!(throttled(&mut limiter, &candidate("e"), at(3)).0, LimitKind::Cluster);
    assert_eq!(limiter.check_cluster_limit(100, 1, at(4)), Some(ClusterStop::Ended));
    limiter.reserve(&candidate("e"), at(4)).unwrap();
}

#[test]
fn a_small_cluster_allows_at_least_five() {
    let mut limiter = EvictionLimiter::new(LimitOptions { max_cluster_share: 0.1, ..loose() });
    assert_eq!(limiter.check_cluster_limit(8, 5, at(0)), None);
    assert!(matches!(limiter.check_cluster_limit(8, 6, at(0)), Some(ClusterStop::Started(_))));
}

#[test]
fn cancelled_evictions_do_not_count() {
    let mut limiter = limiter(LimitOptions { max_per_node: 1, max_repeats: 1, ..loose() });
    limiter.reserve(&candidate("a"), at(0)).unwrap();
    assert_eq!(throttled(&mut limiter, &candidate("b"), at(1)).0, LimitKind::Node);
    limiter.cancel("a");
    limiter.cancel("a");
    assert_eq!(limiter.n_evictions(), 0);
    let replaced = Candidate { seen_at: at(2), ..candidate("b") };
    limiter.reserve(&replaced, at(3)).unwrap();
    // A repeated reservation of the same eviction counts once.
    limiter.reserve(&replaced, at(4)).unwrap();
    assert_eq!(limiter.n_evictions(), 1);
}

#[test]
fn a_pod_placed_into_the_same_violation_is_throttled_after_the_round_limit() {
    let mut limiter = limiter(loose());
    for (uid, appeared, goes) in [("a", 0, 10), ("b", 11, 20), ("c", 21, 30)] {
        limiter.reserve(&Candidate { seen_at: at(appeared), ..candidate(uid) }, at(goes)).unwrap();
    }
    let fourth = Candidate { seen_at: at(31), ..candidate("d") };
    let repeated = limiter.repeats(&fourth, at(40)).unwrap();
    assert_eq!((repeated.n, repeated.limit_kind), (3, LimitKind::Repeats));
    assert_eq!(throttled(&mut limiter, &fourth, at(40)), (LimitKind::Repeats, 3610));
    // Another term or another workload has its own count.
    assert_eq!(limiter.repeats(&Candidate { term: "another", ..fourth.clone() }, at(40)), None);
    assert_eq!(limiter.repeats(&Candidate { workload: "another", ..fourth.clone() }, at(40)), None);
    // An hour after the first round, another round is allowed.
    assert_eq!(throttled(&mut limiter, &fourth, at(3609)).0, LimitKind::Repeats);
    limiter.reserve(&fourth, at(3610)).unwrap();
}

#[test]
fn pods_of_one_workload_that_violate_together_are_one_round() {
    let mut limiter = limiter(LimitOptions { max_repeats: 1, ..loose() });
    for i in 0..50 {
        limiter.reserve(&candidate(&i.to_string()), at(i)).unwrap();
    }
    let replacement = Candidate { seen_at: at(5), ..candidate("new") };
    assert_eq!(throttled(&mut limiter, &replacement, at(60)).0, LimitKind::Repeats);
}

#[test]
fn the_next_leader_continues_the_counts() {
    let mut first = limiter(loose());
    for (uid, appeared, goes) in [("a", 0, 10), ("b", 11, 20), ("c", 21, 30)] {
        first.reserve(&Candidate { seen_at: at(appeared), ..candidate(uid) }, at(goes)).unwrap();
    }
    let written = serde_json::to_string(&first.export()).unwrap();
    let mut second = limiter(LimitOptions { max_per_node: 3, evictions_per_second: 0.1, ..loose() });
    second.import(serde_json::from_str(&written).unwrap(), at(31));
    assert_eq!(second.export(), first.export());
    let other = Candidate { workload: "other", ..candidate("d") };
    assert_eq!(throttled(&mut second, &other, at(31)).0, LimitKind::Node);
    let elsewhere = Candidate { node: "n2", ..other };
    assert_eq!(throttled(&mut second, &elsewhere, at(31)), (LimitKind::Rate, 40));
    assert_eq!(second.repeats(&Candidate { seen_at: at(31), ..candidate("d") }, at(31)).unwrap().n, 3);
    // The eviction that the first leader may or may not have sent is counted once.
    second.reserve(&candidate("c"), at(32)).unwrap();
    assert_eq!(second.n_evictions(), 3);
    // Adopting the same state again changes nothing.
    second.import(serde_json::from_str(&written).unwrap(), at(33));
    assert_eq!(second.export(), first.export());
}

#[test]
fn a_clock_set_back_extends_nothing_beyond_a_window() {
    let mut limiter = limiter(LimitOptions { max_per_node: 1, ..loose() });
    limiter.reserve(&candidate("a"), at(100_000)).unwrap();
    assert_eq!(throttled(&mut limiter, &candidate("b"), at(0)), (LimitKind::Node, 600));
    limiter.reserve(&candidate("b"), at(600)).unwrap();
}

#[test]
fn memory_is_bounded_and_evictions_beyond_it_are_refused() {
    let mut limiter = EvictionLimiter::new(LimitOptions {
        max_per_node: 1_000_000,
        max_per_namespace: 1_000_000,
        ..loose()
    });
    limiter.check_cluster_limit(1_000_000, 0, at(0));
    let name = "n".repeat(253);
    let (mut n, mut i) = (0, 0);
    loop {
        let (uid, workload) = (format!("{i:036}"), format!("default/ReplicaSet/{name}{i}"));
        let many = Candidate { node: &name, workload: &workload, n_workload_pods: 1, ..candidate(&uid) };
        i += 1;
        match limiter.reserve(&many, of_millis(millis(start()) + i)) {
            Ok(_) => n += 1,
            Err(held) if held.limit_kind == LimitKind::LedgerSize => break,
            Err(other) => panic!("{other}"),
        }
        assert!(i < 5000, "memory is not bounded");
    }
    assert!(n > 100, "{n}");
    assert!(serde_json::to_string(&limiter.export()).unwrap().len() <= MAX_BYTES);
}

#[test]
fn messages_contain_the_limit_its_end_and_the_flag() {
    let mut limiter = limiter(LimitOptions { max_per_node: 1, ..loose() });
    limiter.reserve(&candidate("a"), at(0)).unwrap();
    let held = limiter.reserve(&candidate("b"), at(1)).unwrap_err().to_string();
    assert_eq!(
        held,
        "evictions of 2 pods of this node within 10m; the limit is 1. Delayed until 2027-01-15T08:10:00Z; to evict \
         faster, raise --max-evictions-per-node"
    );
}
