//! Histories of clusters, and the errors found in them.

use std::sync::Arc;
use std::time::Duration;

use berth_input::config::Profile;
use berth_testkit::check::bindings::{Schedulers, attempts, check};
use berth_testkit::check::history::{Change, Changes, bound_twice, steps};
use berth_testkit::text;
use serde_json::{Value, json};

/// Lines of the text form, each a change; `gone` before one for a deletion. One a second, and the lag is a number of lines. The
/// number of bindings, and what is wrong with them.
fn bindings(lines: &str, lag: u64) -> (usize, Vec<String>) {
    let mut changes = Changes::new();
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    for (line, version) in lines.zip(1..) {
        let (deleted, line) = match line.strip_prefix("gone ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let world = text::world(line);
        let nodes = world.nodes.iter().map(|node| ("Node", json!(node)));
        let pods = world.pods.iter().map(|pod| ("Pod", json!(pod)));
        let volumes = world.storage.volumes.iter().map(|volume| ("PersistentVolume", json!(volume)));
        let claims = world.storage.claims.iter().map(|claim| ("PersistentVolumeClaim", json!(claim)));
        let mut objects: Vec<(&str, Value)> = nodes.chain(pods).chain(volumes).chain(claims).collect();
        let Some((kind, mut object)) = objects.pop() else { panic!("no object: {line}") };
        object["metadata"]["uid"] = object["metadata"]["name"].clone();
        let change = Change { at: Duration::from_secs(version), kind: kind.to_owned(), deleted, object };
        changes.insert(version, Arc::new(change));
    }
    let steps = steps(&changes, 0);
    let attempts = attempts(&steps);
    let lag = Duration::from_secs(lag);
    let schedulers =
        Schedulers { profile: Profile::default(), attempts: &attempts, lag, device_resource: None };
    let (n_bound, mut findings) = check(&steps, &schedulers);
    findings.extend(bound_twice(&changes));
    (n_bound, findings)
}

#[test]
fn what_was_right_when_it_was_bound_is_right() {
    let found = bindings(
        "
        node a zone=z1
        node b zone=z2
        pod d/cache app=cache
        pod d/cache app=cache on a
        pod d/web app=web aff(app=cache @zone)
        pod d/web app=web aff(app=cache @zone) on a
        gone pod d/cache app=cache on a
        pod d/late app=web
        ",
        0,
    );
    assert_eq!(found, (2, Vec::new()));
}

#[test]
fn broken_rules_double_bindings_and_unknown_nodes_are_found() {
    let found = bindings(
        "
        node a zone=z1 cpu=1
        node b zone=z2
        pod d/one app=x cpu=800m anti(app=x @zone)
        pod d/one app=x cpu=800m anti(app=x @zone) on a
        pod d/two app=x cpu=800m
        pod d/two app=x cpu=800m on a
        pod d/one app=x cpu=800m anti(app=x @zone) on b
        pod d/three
        pod d/three on c
        ",
        100,
    );
    assert_eq!(found.0, 3);
    let violations = found.1.join("\n");
    let two = "d/two was bound to a, which its rules do not allow: NodeResourcesFit";
    assert!(violations.contains(two), "{violations}");
    assert!(violations.contains("d/one moved from \"a\" to \"b\""), "{violations}");
    assert!(violations.contains("d/three was bound to c"), "{violations}");
    assert!(violations.contains("there is no node c"), "{violations}");
    assert_eq!(found.1.len(), 3, "{violations}");
}

#[test]
fn a_pod_away_from_its_volume_is_found() {
    let found = bindings(
        "
        node a zone=z1
        node b zone=z2
        pv v node(zone=z1) claim:d/c
        pvc d/c volume:v
        pod d/right claim:c
        pod d/wrong claim:c
        pod d/right claim:c on a
        pod d/wrong claim:c on b
        ",
        0,
    );
    let [violation] = found.1.as_slice() else { panic!("{found:?}") };
    assert!(violation.contains("d/wrong was bound to b"), "{violation}");
    assert!(violation.contains("VolumeBinding"), "{violation}");
}

const BEHIND: &str = "
    node a zone=z1
    node b zone=z2
    pod d/cache app=cache
    pod d/cache app=cache on a
    pod d/web aff(app=cache @zone)
    gone pod d/cache app=cache on a
    pod d/web aff(app=cache @zone) on a
";

#[test]
fn a_scheduler_may_be_behind_the_changes_of_others_but_not_behind_its_own_bindings() {
    assert_eq!(bindings(BEHIND, 0).1.len(), 1);
    assert_eq!(bindings(BEHIND, 1).1, Vec::<String>::new());
    let twice = "
        node a
        pod d/one app=x anti(app=x @hostname)
        pod d/two app=x anti(app=x @hostname)
        pod d/one app=x anti(app=x @hostname) on a
        pod d/two app=x anti(app=x @hostname) on a
    ";
    assert_eq!(bindings(twice, 100).1.len(), 1);
}

#[test]
fn bindings_may_show_up_in_another_order_than_they_were_decided_in() {
    let swapped = "
        node a zone=z1
        pod d/cache app=cache
        pod d/web aff(app=cache @zone)
        pod d/web aff(app=cache @zone) on a
        pod d/cache app=cache on a
    ";
    assert_eq!(bindings(swapped, 0).1.len(), 1);
    assert_eq!(bindings(swapped, 1).1, Vec::<String>::new());
}
