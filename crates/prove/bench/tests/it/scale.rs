//! Generated clusters: decided, checked, dumped and loaded.

use berth_bench::dump::Dump;
use berth_bench::load::Loader;
use berth_bench::scale::{Scale, ScaleReport, run};

fn scale(nodes: usize, pods: usize, seed: u64) -> ScaleReport {
    run(Scale { nodes, pods, seed, label_ranges: false, annotation: false }, &mut |_| ())
}

#[test]
fn a_cluster_is_filled_and_keeps_every_rule() {
    let first = scale(200, 2000, 7);
    assert_eq!((first.figures.decisions, first.unplaced), (2000, 0));
    assert_eq!((first.check.pods, &first.check.violations), (2000, &vec![]));
    assert_eq!(first.checksum, scale(200, 2000, 7).checksum);
    assert_ne!(first.checksum, scale(200, 2000, 8).checksum);
}

#[test]
fn rules_in_other_words_are_kept_as_well() {
    let scale_of = |label_ranges| Scale { nodes: 200, pods: 2000, seed: 7, label_ranges, annotation: false };
    let ranges = run(scale_of(true), &mut |_| ());
    assert_eq!((ranges.check.pods, &ranges.check.violations), (2000, &vec![]));
    assert_eq!(ranges.checksum, scale(200, 2000, 7).checksum);
    // Single terms are required by the annotation as by the specification.
    let annotation = run(Scale { annotation: true, ..scale_of(false) }, &mut |_| ());
    assert_eq!((annotation.check.pods, &annotation.check.violations), (2000, &vec![]));
}

#[test]
fn a_pod_on_20_000_nodes_takes_as_many_evaluations_as_on_2_000() {
    // The first decision for a template evaluates all nodes: the pods before these have been decided.
    let n_evaluated = |nodes| scale(nodes, 2400, 7).evaluated_nodes - scale(nodes, 400, 7).evaluated_nodes;
    let (few, many) = (n_evaluated(2_000), n_evaluated(20_000));
    assert!(many <= few, "{many} instead of {few}");
    // Each of 2,000 pods changes one node, which each of forty templates evaluates at most once.
    assert!(few <= 40 * 2_000, "{few}");
}

#[test]
fn a_cluster_too_small_leaves_pods_over() {
    let report = scale(5, 2000, 7);
    assert!(report.unplaced > 0);
    assert_eq!((report.check.pods + report.unplaced, report.check.n_violations), (2000, 0));
}

#[test]
fn a_dump_is_loaded_as_it_was_written() {
    let mut dump = Vec::new();
    berth_bench::dump::write(&mut dump, &Dump { nodes: 20, pods: 100, seed: 7, displaced: 0 }).unwrap();
    let mut loader = Loader::default();
    loader.read(dump.as_slice(), "dump").unwrap();
    let report = loader.report();
    assert_eq!((report.nodes, report.pods, report.objects), (20, 100, 124));
    assert_eq!(report.bytes, dump.len() as u64);
}
