//! Every incoming pod needs one victim.

use berth_bench::preempt::{Preempt, PreemptKind, run};

#[test]
fn every_pod_is_placed_with_one_victim() {
    let report = run(Preempt { nodes: 40, pods: 40 }, &mut |_| ());
    assert_eq!(report.low_priority_pods, 160);
    for kind in report.kinds {
        assert_eq!((kind.figures.decisions, kind.unplaced), (40, 0), "{kind:?}");
        let n_victims = if kind.kind == PreemptKind::DifferentRequests { 1 } else { 40 };
        assert_eq!((kind.victims, kind.pdb_violations), (n_victims, 0), "{kind:?}");
    }
}
