//! Concurrent clients of a server that is killed at any byte of a write to disk, and a checker of what they saw.
//!
//! `BERTH_HISTORIES=1000` sets the number of runs, and `BERTH_HISTORY_SEED=7` the first seed. A seed chooses requests, watches
//! and where the disk stops; threads and connections are real, and differ from run to run.

mod check;
mod stopping_disk;
mod wire;
mod workload;

use std::collections::HashMap;

use check::{Action, Change, Entry, History, Items, Kind, List, Outcome, Request, Watch};

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_histories_keep_what_the_api_promises() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let n_runs = number("BERTH_HISTORIES").unwrap_or(12);
    let first = number("BERTH_HISTORY_SEED").unwrap_or(1);
    let mut total = workload::Count::default();
    for seed in first..first + n_runs {
        let run = tokio::time::timeout(wire::RUN_TIMEOUT, workload::run(seed)).await;
        let (history, count) = run.unwrap_or_else(|_| panic!("seed {seed}: the run does not end"));
        if let Err(error) = history.check() {
            panic!("seed {seed}: {error}");
        }
        total.add(&count, &history);
    }
    println!("{n_runs} histories: {total:?}");
    assert!(total.n_writes > 0 && total.n_changes_watched > 0 && total.n_lists > 0);
}

fn request(object: usize, start: u64, end: u64, action: Action, outcome: Outcome) -> Request {
    Request { object, start, end, action, outcome }
}

fn change(version: u64, object: usize, kind: Kind, id: u64) -> Change {
    Change { version, object, kind, id }
}

/// Two objects: 0 is created, replaced and deleted; 1 is created.
fn history() -> History {
    use Outcome::{Found, Written};
    let replace = Action::Replace { expected: Some(1), id: 2 };
    History {
        start: 10,
        log: vec![
            change(11, 0, Kind::Added, 1),
            change(12, 1, Kind::Added, 3),
            change(13, 0, Kind::Modified, 2),
            change(15, 0, Kind::Deleted, 2),
        ],
        groups: HashMap::from([(1, 1), (2, 0), (3, 1)]),
        requests: vec![
            request(0, 1, 2, Action::Create(1), Written(Some(11))),
            request(1, 3, 4, Action::Create(3), Written(Some(12))),
            request(0, 5, 8, replace, Written(Some(13))),
            request(0, 6, 7, Action::Read, Found(1)),
            request(0, 9, 10, Action::Read, Found(2)),
            request(0, 11, u64::MAX, Action::Delete { expected: None }, Outcome::Unknown),
            request(0, 13, 14, Action::Read, Outcome::NotFound),
        ],
        lists: vec![List { start: 9, version: 13, items: Items::from([(0, (13, 2)), (1, (12, 3))]) }],
        watches: vec![Watch {
            from: 11,
            initial: Some(Items::from([(0, (11, 1))])),
            group: Some(1),
            entries: vec![
                Entry::Change(change(12, 1, Kind::Added, 3)),
                Entry::Change(change(13, 0, Kind::Deleted, 1)),
                Entry::Bookmark(20),
            ],
        }],
    }
}

#[test]
fn the_checker_accepts_a_right_history_and_finds_each_kind_of_fault() {
    assert_eq!(history().check(), Ok(()));
    type Fault = fn(&mut History);
    let faults: [(&str, Fault); 13] = [
        ("no order explains", |h| h.requests[4].outcome = Outcome::Found(1)),
        ("no order explains", |h| h.requests[6].outcome = Outcome::Found(1)),
        ("no order explains", |h| h.requests[3].outcome = Outcome::NotFound),
        ("is acknowledged", |h| h.requests[2].outcome = Outcome::Written(Some(14))),
        ("is acknowledged", |h| {
            h.log.remove(1);
        }),
        ("was refused", |h| h.requests[2].outcome = Outcome::Conflict),
        ("is followed by", |h| h.log.swap(0, 1)),
        ("of an object with value", |h| h.log[2].kind = Kind::Added),
        ("had been acknowledged", |h| h.lists[0] = List { start: 9, version: 12, items: Items::new() }),
        ("should have", |h| {
            h.lists[0].items.remove(&1);
        }),
        ("instead of", |h| {
            h.watches[0].entries.remove(0);
        }),
        ("instead of", |h| {
            let first = h.watches[0].entries[0];
            h.watches[0].entries.insert(1, first);
        }),
        ("a bookmark at", |h| h.watches[0].entries.insert(1, Entry::Bookmark(13))),
    ];
    for (i, (expected, fault)) in faults.into_iter().enumerate() {
        let mut history = history();
        fault(&mut history);
        let error = history.check().expect_err(expected);
        assert!(error.contains(expected), "fault {i}: {error}");
    }
}
