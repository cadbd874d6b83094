//! Pod groups are placed as a whole.

use berth_bench::groups::{Groups, run};

#[test]
fn no_group_is_placed_in_part() {
    // A zone has six nodes with four CPUs: it takes four groups of six members, and no fifth.
    let report = run(groups(50), &mut |_| ());
    assert_eq!((report.placed, report.broken, report.check.pods), (40, 0, 240));
    assert_eq!(report.check.violations, []);
}

fn groups(groups: usize) -> Groups {
    Groups { nodes: 60, groups, members: 6, racks_of: None, zones: false, full: 0, packed: false }
}

#[test]
fn groups_share_a_rack_beside_other_pods() {
    for (racks_of, zones) in [(6, false), (3, true)] {
        let in_racks = Groups { racks_of: Some(racks_of), zones, full: 90, packed: true, ..groups(30) };
        let report = run(in_racks, &mut |_| ());
        assert!(report.check.violations.is_empty() && report.broken == 0, "{report:?}");
        assert_eq!(report.placed, 30, "{report:?}");
    }
}
