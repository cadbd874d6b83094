//! A simulated server in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;

/// How a server answers.
struct Server {
    /// Latency in milliseconds, with this many requests in flight at this time in seconds.
    latency: fn(usize, f64) -> f64,
    /// It refuses requests above this number.
    most: usize,
}

/// What happened.
#[derive(Debug)]
struct Simulated {
    /// Bindings per second.
    rate: f64,
    n_refused: usize,
    /// The allowed number at the end, and its largest value.
    last: usize,
    largest: usize,
}

/// Binds pods, which are all pending at the beginning.
fn bind(limit: usize, n_pods: usize, server: &Server) -> Simulated {
    let begin = Instant::now();
    let mut concurrency = BindConcurrency::new(limit);
    let mut random = fastrand::Rng::with_seed(7);
    let (mut n_left, mut n_done, mut n_refused, mut largest) = (n_pods, 0, 0, 0);
    let mut now = Duration::ZERO;
    // When each request in flight is answered, when it was sent, and whether it is refused.
    let mut in_flight: BinaryHeap<Reverse<(Duration, Duration, bool)>> = BinaryHeap::new();
    while n_done < n_pods {
        while n_left > 0 && in_flight.len() < concurrency.allowed() {
            let is_refused = in_flight.len() >= server.most;
            let millis = (server.latency)(in_flight.len() + 1, now.as_secs_f64());
            let noise = 0.8 + 0.4 * random.f64();
            let took = Duration::from_secs_f64(if is_refused { 0.001 } else { millis * noise / 1000.0 });
            in_flight.push(Reverse((now + took, now, is_refused)));
            n_left -= 1;
        }
        let Some(Reverse((at, sent_at, is_refused))) = in_flight.pop() else { break };
        now = at;
        if is_refused {
            n_refused += 1;
            n_left += 1;
            concurrency.refused(begin + now);
        } else {
            n_done += 1;
            let is_full = n_left > 0 && in_flight.len() + 1 >= concurrency.allowed();
            concurrency.answered(now - sent_at, is_full, begin + now);
        }
        largest = largest.max(concurrency.allowed());
    }
    Simulated { rate: n_pods as f64 / now.as_secs_f64(), n_refused, last: concurrency.allowed(), largest }
}

/// 10 ms up to 60 requests, which share the processors beyond that: at most 6,000 bindings a second.
fn shared(n: usize, _: f64) -> f64 {
    10.0 * (n as f64 / 60.0).max(1.0)
}

#[test]
fn the_number_rises_while_the_rate_does() {
    let simulated = bind(1000, 60_000, &Server { latency: shared, most: usize::MAX });
    assert!(simulated.rate > 0.9 * 6000.0, "{simulated:?}");
    assert!((50..=160).contains(&simulated.last), "no more than the server makes use of: {simulated:?}");
}

#[test]
fn a_server_that_takes_one_request_after_the_other_gets_no_more_than_at_first() {
    let serial = Server { latency: |n, _| n as f64, most: usize::MAX };
    let simulated = bind(1000, 20_000, &serial);
    assert!(simulated.last <= 20, "{simulated:?}");
}

#[test]
fn the_limit_holds() {
    for limit in [1, 5, 40] {
        let simulated = bind(limit, 10_000, &Server { latency: shared, most: usize::MAX });
        assert!(simulated.largest <= limit, "{simulated:?}");
        assert!(simulated.rate > 0.9 * limit as f64 * 100.0, "{simulated:?}");
    }
}

#[test]
fn refusals_lower_the_number_and_are_few() {
    // Also with fewer than at first.
    for most in [40, 10] {
        let simulated = bind(1000, 60_000, &Server { latency: |_, _| 10.0, most });
        assert!(simulated.last <= most, "{simulated:?}");
        assert!(simulated.rate > 0.5 * most as f64 * 100.0, "{simulated:?}");
        assert!(simulated.n_refused < 60_000 / 50, "{simulated:?}");
    }
}

#[test]
fn a_server_that_becomes_slower_gets_fewer_requests() {
    // After ten seconds, each further request makes all slower.
    let latency = |n: usize, seconds: f64| {
        if seconds < 10.0 { shared(n, seconds) } else { 20.0 + (n as f64).powi(2) / 20.0 }
    };
    let simulated = bind(1000, 80_000, &Server { latency, most: usize::MAX });
    assert!(simulated.largest >= 50, "{simulated:?}");
    assert!((FIRST..=40).contains(&simulated.last), "{simulated:?}");
}

#[test]
fn a_small_burst_takes_no_longer_for_each_pod() {
    // As measured with kube-apiserver: 928, 1,250 and 1,690 bindings a second with 4, 16 and 64 requests.
    let latency = |n: usize, _: f64| 1000.0 * n as f64 / (928.0 * (n as f64 / 4.0).powf(0.216)).min(1700.0);
    let server = Server { latency, most: usize::MAX };
    let [small, large] = [2_000, 5_000].map(|n_pods| bind(100, n_pods, &server).rate);
    assert!(small > 0.95 * large, "{small} and {large} bindings a second");
}

#[test]
fn a_server_that_pauses_now_and_then_keeps_its_requests() {
    // As on a machine that does other work: every other half second, all takes five times as long.
    let latency = |n: usize, seconds: f64| {
        let factor = if ((seconds * 2.0) as u64).is_multiple_of(2) { 1.0 } else { 5.0 };
        factor * shared(n, seconds)
    };
    let simulated = bind(1000, 60_000, &Server { latency, most: usize::MAX });
    assert!(simulated.last >= FIRST && simulated.rate > 900.0, "{simulated:?}");
}

#[test]
fn a_few_bindings_at_a_time_change_nothing() {
    let mut concurrency = BindConcurrency::new(1000);
    let begin = Instant::now();
    for i in 0..10_000 {
        concurrency.answered(Duration::from_millis(10), false, begin + Duration::from_millis(i));
    }
    assert_eq!(concurrency.allowed(), FIRST);
}
