//! Histories of clusters, and the errors found in them.

use berth_api::config::Profile;
use berth_api::read::Kind;
use berth_testkit::history::{Bindings, History, Object};
use berth_testkit::naive::Options;
use berth_testkit::text;

/// Lines of the text form, each a change; `gone` before one for a deletion. The line's number is its version.
fn bindings(lines: &str, lag: usize) -> Bindings {
    let mut history = History::default();
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    for (i, line) in lines.enumerate() {
        let (is_gone, line) = match line.strip_prefix("gone ") {
            Some(line) => (true, line),
            None => (false, line),
        };
        let mut world = text::world(line);
        let mut objects = Vec::new();
        let version = (i + 1).to_string();
        for mut node in world.nodes.drain(..) {
            node.metadata.resource_version.clone_from(&version);
            objects.push(Object::Node(Box::new(node)));
        }
        for mut pod in world.pods.drain(..) {
            pod.metadata.resource_version.clone_from(&version);
            pod.metadata.uid = pod.key();
            objects.push(Object::Pod(Box::new(pod)));
        }
        for mut object in world.storage.objects() {
            object.metadata_mut().resource_version.clone_from(&version);
            objects.push(Object::Volume(Box::new(object)));
        }
        for object in objects {
            if is_gone {
                history.saw_gone(&object);
            } else {
                history.saw(object);
            }
        }
    }
    history.bindings(&Profile::default(), &Options::default(), lag)
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
    assert_eq!(found, Bindings { n_bound: 2, violations: Vec::new(), unbound: vec!["d/late".to_owned()] });
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
    assert_eq!(found.n_bound, 3);
    let violations = found.violations.join("\n");
    assert!(violations.contains("d/two on a: NodeResourcesFit"), "{violations}");
    assert!(violations.contains("d/one was on a, and then on \"b\""), "{violations}");
    assert!(violations.contains("d/three on c: there is no node c"), "{violations}");
    assert_eq!(found.violations.len(), 3, "{violations}");
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
    let [violation] = found.violations.as_slice() else { panic!("{found:?}") };
    assert!(violation.starts_with("d/wrong on b: VolumeBinding"), "{violation}");
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
    assert_eq!(bindings(BEHIND, 0).violations.len(), 1);
    assert_eq!(bindings(BEHIND, 1).violations, Vec::<String>::new());
    let twice = "
        node a
        pod d/one app=x anti(app=x @hostname)
        pod d/two app=x anti(app=x @hostname)
        pod d/one app=x anti(app=x @hostname) on a
        pod d/two app=x anti(app=x @hostname) on a
    ";
    assert_eq!(bindings(twice, 100).violations.len(), 1);
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
    assert_eq!(bindings(swapped, 0).violations.len(), 1);
    assert_eq!(bindings(swapped, 1).violations, Vec::<String>::new());
}

#[test]
fn what_is_missing_from_a_list_is_gone() {
    let mut history = History::default();
    let mut pod = text::pod("pod d/p");
    pod.metadata.resource_version = "3".to_owned();
    history.saw(Object::Pod(Box::new(pod)));
    let unbound = |history: &History| history.bindings(&Profile::default(), &Options::default(), 0).unbound;
    assert_eq!(unbound(&history), ["d/p"]);
    history.saw_all(Kind::Node, Vec::new());
    assert_eq!(unbound(&history), ["d/p"]);
    history.saw_all(Kind::Pod, Vec::new());
    assert_eq!(unbound(&history), Vec::<String>::new());
}
