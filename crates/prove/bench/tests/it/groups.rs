//! Pod groups are placed as a whole.

use berth_bench::groups::{Groups, run};

#[test]
fn no_group_is_placed_in_part() {
    // A zone has six nodes with four CPUs: it takes four groups of six members, and no fifth.
    let report = run(Groups { nodes: 60, groups: 50, members: 6 }, &mut |_| ());
    assert_eq!((report.placed, report.broken, report.check.pods), (40, 0, 240));
    assert_eq!(report.check.violations, []);
}
