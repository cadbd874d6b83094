use std::time::Duration;

use tokio::time::Instant;

use super::scheduling_queue::{Place, Popped};
use super::*;

type TestQueue = Queue<&'static str, &'static str>;

struct Bench {
    queue: TestQueue,
    start: Instant,
}

impl Bench {
    fn new() -> Bench {
        Bench { queue: Queue::new(QueueOptions::default()), start: Instant::now() }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn add(&mut self, id: u64, priority: i32) {
        self.queue.add(PodId(id), priority, false);
    }

    fn pop(&mut self) -> Option<u64> {
        self.queue.pop().map(|popped| popped.id.0)
    }

    /// The next active pod.
    fn active(&mut self) -> Option<PodId> {
        (self.queue.counts().active > 0).then(|| self.queue.pop().unwrap().id)
    }

    fn drain(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.pop()).collect()
    }

    /// Decides all active pods: places `places` of them, and reports the others as unschedulable. Returns the decided.
    fn decide(&mut self, mut places: usize, millis: u64) -> Vec<u64> {
        let now = self.at(millis);
        let mut decided = Vec::new();
        while let Some(id) = self.active() {
            decided.push(id.0);
            if places > 0 {
                places -= 1;
                self.queue.release_group(id, now);
                self.queue.remove(id, now);
            } else {
                self.queue.add_unschedulable(id, "group", "full", now);
            }
        }
        decided
    }
}

#[test]
fn listed_pods_are_behind_those_before_them_in_the_order_of_the_list() {
    let mut bench = Bench::new();
    for (id, priority) in [(1, 0), (2, 0), (3, 0), (4, 5), (5, 0)] {
        bench.add(id, priority);
    }
    bench.queue.gate(PodId(3), bench.at(0));
    bench.queue.arrived_in_order([5, 3, 4, 1].map(PodId).into_iter());
    assert_eq!(bench.queue.counts().active, 4);
    bench.queue.activate(PodId(3), bench.at(0));
    assert_eq!(bench.drain(), [4, 2, 5, 3, 1]);
}

#[test]
fn queue_order_is_priority_then_arrival() {
    let mut bench = Bench::new();
    for (id, priority) in [(3, 0), (2, 10), (1, 0), (4, 10), (5, -1)] {
        bench.add(id, priority);
    }
    assert_eq!(bench.drain(), [2, 4, 3, 1, 5]);
    assert_eq!(bench.queue.counts(), QueueCounts { in_flight: 5, ..QueueCounts::default() });
}

#[test]
fn backoff_doubles_from_one_second_to_ten() {
    let mut bench = Bench::new();
    bench.add(1, 0);
    let mut now = 0;
    for expected in [1000, 2000, 4000, 8000, 10_000, 10_000] {
        assert_eq!(bench.pop(), Some(1));
        bench.queue.back_off(PodId(1), bench.at(now));
        assert_eq!(bench.queue.next_due(), Some(bench.at(now + expected)));
        assert_eq!(bench.queue.end_backoffs(bench.at(now + expected - 1)), 0);
        assert_eq!(bench.pop(), None);
        now += expected;
        assert_eq!(bench.queue.end_backoffs(bench.at(now)), 1);
    }
}

#[test]
fn a_gated_pod_waits_until_it_is_activated() {
    let mut bench = Bench::new();
    bench.queue.add(PodId(1), 0, true);
    assert_eq!((bench.queue.counts().gated, bench.pop()), (1, None));
    bench.queue.activate(PodId(1), bench.at(0));
    assert_eq!(bench.pop(), Some(1));
    bench.queue.gate(PodId(1), bench.at(0));
    assert_eq!(bench.queue.counts(), QueueCounts { gated: 1, ..QueueCounts::default() });
}

#[test]
fn of_ten_thousand_unschedulable_pods_only_one_more_is_decided_than_fits() {
    let mut bench = Bench::new();
    for id in 0..10_000 {
        bench.add(id, 0);
    }
    assert_eq!(bench.pop(), Some(0));
    let now = bench.at(0);
    bench.queue.add_unschedulable(PodId(0), "group", "full", now);
    // The others fail for the same reason.
    while let Some(id) = bench.active() {
        assert_eq!(bench.queue.failure(&"group"), Some(&"full"));
        bench.queue.join(id, "group", now);
    }
    assert_eq!(bench.queue.counts().unschedulable, 10_000);

    let first = bench.queue.wake(&"group", bench.at(10)).unwrap();
    // The oldest is in backoff, so the next one is decided.
    assert_eq!(first, PodId(1));
    assert_eq!(bench.queue.failure(&"group"), None, "the failure is open while one is being decided");
    assert_eq!(bench.queue.wake(&"group", bench.at(10)), None, "one is enough");
    assert_eq!(bench.decide(3, 10), [1, 2, 3, 4]);
    assert_eq!(bench.queue.counts().unschedulable, 10_000 - 3);
    assert_eq!(bench.queue.failure(&"group"), Some(&"full"));

    bench.queue.wake(&"group", bench.at(5000));
    assert_eq!(
        bench.decide(1, 5000),
        [0, 5],
        "back-offs are over: the first is first again, but for who failed last"
    );
}

#[test]
fn a_group_resumes_when_its_in_flight_pod_is_removed() {
    let mut bench = Bench::new();
    (1..=3).for_each(|id| bench.add(id, 0));
    assert_eq!(bench.decide(0, 0), [1, 2, 3]);
    let now = bench.at(2000);
    assert_eq!(bench.queue.wake(&"group", now), Some(PodId(1)));
    bench.queue.remove(PodId(1), now);
    assert_eq!(bench.pop(), Some(2));
    // A server error does not affect the other pods.
    bench.queue.back_off(PodId(2), now);
    assert_eq!(bench.pop(), Some(3));
    bench.queue.release_group(PodId(3), now);
    bench.queue.remove(PodId(3), now);
    assert_eq!(bench.queue.counts(), QueueCounts { backoff: 1, ..QueueCounts::default() });
    assert_eq!(bench.queue.idle().count(), 0, "a group without pods is removed");
}

#[test]
fn an_activated_pod_waits_for_the_end_of_its_backoff_while_others_are_active() {
    let mut bench = Bench::new();
    bench.add(1, 0);
    assert_eq!(bench.decide(0, 0), [1]);
    assert_eq!(bench.queue.wake(&"group", bench.at(300)), Some(PodId(1)));
    bench.add(2, -5);
    assert_eq!((bench.pop(), bench.queue.next_due()), (Some(2), Some(bench.at(1000))));
    let popped = Popped { id: PodId(1), was_in_backoff: true };
    assert_eq!(bench.queue.pop(), Some(popped), "nothing else is to be done");
}

#[test]
fn of_backoffs_that_end_within_a_second_the_first_by_priority_is_cut_short() {
    let mut bench = Bench::new();
    for (id, priority) in [(1, 0), (2, 7), (3, 9), (4, 9)] {
        bench.add(id, priority);
    }
    for (id, group, millis) in [(3, "c", 0), (4, "d", 2500), (2, "b", 900), (1, "a", 600)] {
        bench.queue.move_to(PodId(id), Place::InFlight);
        bench.queue.add_unschedulable(PodId(id), group, "full", bench.at(millis));
        bench.queue.wake(&group, bench.at(millis));
    }
    // A server error: its back-off is never cut short.
    bench.queue.move_to(PodId(3), Place::InFlight);
    bench.queue.back_off(PodId(3), bench.at(0));
    assert_eq!(bench.drain(), [2, 1, 4]);
    assert_eq!(bench.queue.end_backoffs(bench.at(5000)), 1);
    assert_eq!(bench.pop(), Some(3));
}

#[test]
fn a_changed_pod_leaves_its_group_with_its_new_rank() {
    let mut bench = Bench::new();
    (1..=2).for_each(|id| bench.add(id, 0));
    bench.decide(0, 0);
    let now = bench.at(20_000);
    bench.queue.set_priority(PodId(2), 5);
    assert_eq!(bench.queue.first_of(&"group", now), Some(PodId(2)));
    bench.queue.activate(PodId(2), now);
    assert_eq!((bench.queue.counts().unschedulable, bench.pop()), (1, Some(2)));
    assert_eq!(bench.queue.first_of(&"group", now), Some(PodId(1)));
}

#[test]
fn groups_idle_for_long_are_flushed() {
    let mut bench = Bench::new();
    bench.add(1, 0);
    bench.decide(0, 1000);
    assert!(bench.queue.idle_since(bench.at(999)).is_empty());
    assert_eq!(bench.queue.idle_since(bench.at(1000)), ["group"]);
}

#[test]
fn a_standby_keeps_only_existing_pods() {
    let mut bench = Bench::new();
    for id in 0..1000 {
        bench.add(id, 0);
        bench.queue.set_priority(PodId(id), 1);
        bench.queue.activate(PodId(id), bench.at(0));
        if id >= 3 {
            bench.queue.remove(PodId(id - 3), bench.at(0));
        }
    }
    assert_eq!((bench.queue.entries.len(), bench.queue.active.len()), (3, 3));
}

#[test]
fn a_group_kept_a_pod_that_failed_while_it_was_unschedulable_and_woke_it_without_end() {
    let mut bench = Bench::new();
    bench.add(1, 0);
    assert_eq!(bench.decide(0, 0), [1]);
    // A binding of an earlier attempt fails.
    bench.queue.back_off(PodId(1), bench.at(300));
    assert_eq!(bench.queue.counts(), QueueCounts { backoff: 1, ..QueueCounts::default() });
    assert_eq!(bench.queue.idle().count(), 0, "a group without pods is removed");
}

#[test]
fn pods_whose_decisions_ended_at_their_budget_wait_for_turns_in_order_of_priority() {
    let mut bench = Bench::new();
    for (id, priority) in [(1, 0), (2, 5), (3, 0)] {
        bench.add(id, priority);
    }
    for _ in 0..2 {
        let id = PodId(bench.pop().unwrap());
        bench.queue.wait_for_turn(id, bench.at(0));
        assert!(bench.queue.waits_for_turn(id));
    }
    assert_eq!(bench.drain(), [3], "their back-off is not cut short");
    bench.queue.end_backoffs(bench.at(1000));
    for id in bench.drain() {
        bench.queue.postpone(PodId(id), bench.at(3000));
    }
    bench.queue.end_backoffs(bench.at(2999));
    assert_eq!(bench.drain(), [0; 0]);
    bench.queue.end_backoffs(bench.at(3000));
    assert_eq!(bench.drain(), [2, 1]);
    bench.queue.add_unschedulable(PodId(2), "group", "full", bench.at(3000));
    assert!(!bench.queue.waits_for_turn(PodId(2)), "it was decided within its budget");
}

#[test]
fn a_group_that_failed_at_its_budget_leaves_the_unschedulable_entries() {
    let mut bench = Bench::new();
    bench.add(1, 0);
    let id = PodId(bench.pop().unwrap());
    bench.queue.add_unschedulable(id, "group", "full", bench.at(0));
    bench.queue.wait_for_turn(id, bench.at(0));
    assert_eq!((bench.queue.counts().unschedulable, bench.queue.counts().backoff), (0, 1));
    assert_eq!(bench.queue.failure(&"group"), None, "equal pods are not taken as unschedulable");
    assert_eq!(bench.queue.next_due(), Some(bench.at(1000)), "one failure, one back-off");
}
