//! Pods with one claim each: all are placed, and the decisions about volumes are right.

use berth_bench::volumes::{CaseReport, VolumeCase, Volumes, VolumesReport, run};

/// Unplaced pods, chosen volumes and volumes to provision, by case.
fn counts(report: &VolumesReport) -> Vec<(usize, usize, usize)> {
    report.cases.iter().map(|c| (c.unplaced, c.chosen, c.to_provision)).collect()
}

#[test]
fn every_pod_gets_a_node_that_can_use_its_volume() {
    let report = run(Volumes { nodes: 400, pods: 300, seed: 7 }, &mut |_| ());
    assert_eq!(counts(&report), [(0, 0, 0), (0, 0, 300), (0, 300, 0), (0, 300, 0)]);
    assert_eq!(report.n_violations(), 0, "{:#?}", report.cases);
}

#[test]
fn nodes_that_cannot_attach_more_volumes_leave_pods_over() {
    // 40 nodes in one zone, each with 32 volumes.
    let report = run(Volumes { nodes: 40, pods: 1_500, seed: 7 }, &mut |_| ());
    let attached = |case: &&CaseReport| case.case != VolumeCase::Local;
    assert!(report.cases.iter().filter(attached).all(|case| case.unplaced > 0), "{:?}", counts(&report));
    assert_eq!(report.n_violations(), 0, "{:#?}", report.cases);
}
