//! Pages of the console.

use std::time::Duration;

use berth_testkit::programs::TempDir;

use super::scenes::Dimension;
use super::{Costs, FACTOR, LIMIT, dimensions, is_even, report};
use crate::cluster::console::Viewer;
use crate::process::{Berth, POLL};

const PAGES: &[&str] = &[
    "/",
    "/topology",
    "/pods",
    "/pending",
    "/workloads",
    "/nodes",
    "/nodes/node-0",
    "/pods/default/subject",
    "/pods/default/running",
    "/rules",
    "/sets",
    "/lint",
    "/what-if?drain=node-0",
];

/// The processor time of a process and its threads so far, which proc(5) has in hundredths of a second.
fn used(process: &Berth) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ');
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// What it costs a process until something is done; `None` if it is beyond the limit.
pub async fn cost_of(process: &Berth, done: impl Future<Output = ()>) -> Option<Duration> {
    let before = used(process);
    let beyond = async {
        while used(process) - before < LIMIT {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::select! {
        () = done => Some(used(process) - before),
        () = beyond => None,
    }
}

/// The costs of the pages.
async fn costs_of_pages(directory: &TempDir, dimension: &Dimension, n: usize) -> Vec<Option<Duration>> {
    let file = directory.file("cluster.json");
    std::fs::write(&file, dimension.objects(n).all).unwrap();
    let file = file.to_str().unwrap();
    let console = Berth::start(
        directory,
        &format!("console-{n}"),
        &["console", "-f", file, "--address", "127.0.0.1:0"],
    );
    let viewer = Viewer::of(&console);
    let mut costs = Vec::new();
    for page in PAGES {
        let cost = cost_of(&console, async { drop(viewer.get(page).await) }).await;
        costs.push(cost);
        if cost.is_none() {
            break;
        }
    }
    costs.resize(PAGES.len(), None);
    costs
}

#[tokio::test]
async fn pages_grow_with_the_cluster() {
    let directory = TempDir::new("pages");
    let mut failures = Vec::new();
    for dimension in dimensions() {
        let mut costs = Vec::new();
        for n in [1, dimension.size, dimension.size * FACTOR] {
            costs.push(costs_of_pages(&directory, dimension, n).await);
        }
        for (i, page) in PAGES.iter().enumerate() {
            let measured: Costs = [costs[0][i], costs[1][i], costs[2][i]];
            let line = report(page, dimension.name, measured);
            if !is_even(measured) {
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "costs grow faster than the input:\n{}", failures.join("\n"));
}
