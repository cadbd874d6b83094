//! What is followed is what a full pass finds, and the change that is measured breaks rules of all kinds.

use berth_bench::enforce::{Enforce, run};

#[test]
fn what_is_followed_is_what_a_full_pass_finds() {
    let report = run(Enforce { nodes: 400, pods: 4_000, changed: 40, rounds: 2, seed: 1 }, &mut |_| ());
    assert!(report.is_right);
    assert_eq!((report.changed, report.executing_pods), (40, 2_800));
    // Two pods of each node need its label, and some of those that moved lack a cache.
    assert!(report.broken > 100, "{}", report.broken);
    assert_eq!(report.judged.decisions, 2);
}
