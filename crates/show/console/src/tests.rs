//! After any updates, every page is that of a state which is built from the same objects.

use berth_api::object::NamespacedName;
use berth_api::read::{Kind, Manifest, SourceLocation};
use berth_simulate::SimulationOptions;
use proptest::prelude::*;
use serde_json::{Value, from_value, json};

use crate::{Request, State, Update, respond};

const PAGES: [&str; 23] = [
    "/",
    "/topology",
    "/topology?color=workload&level=rack",
    "/topology?color=rule&level=zone",
    "/topology?color=namespace&node=n0",
    "/topology?color=age&pod=default/p-1&workload=rs",
    "/topology?color=priority&label=app%3Da",
    "/pods?sort=-node",
    "/pods?q=p-1&state=pending",
    "/nodes?sort=requested",
    "/yaml/Pod/default/p-1",
    "/pending",
    "/workloads",
    "/workloads/Deployment/default/web",
    "/workloads/ReplicaSet/default/rs-1?by=zone",
    "/nodes",
    "/nodes/n0",
    "/rules",
    "/enforcer",
    "/search?q=-1",
    "/search?q=default/rs",
    "/pods/default/p-0",
    "/pods/default/p-1",
];

#[derive(Clone, Debug)]
enum Step {
    /// Name, node (none beyond the last), rules, and owner.
    Pod(u8, u8, u8, u8),
    NoPod(u8),
    /// Name, zone, and whether it is cordoned.
    Node(u8, u8, bool),
    NoNode(u8),
    /// Whether a Deployment owns it.
    ReplicaSet(u8, bool),
    NoReplicaSet(u8),
    /// A new list without the pods of even numbers.
    List,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..8_u8, 0..5_u8, 0..4_u8, 0..3_u8).prop_map(|(i, node, rules, owner)| Step::Pod(i, node, rules, owner)),
        3 => (0..8_u8).prop_map(Step::NoPod),
        3 => (0..3_u8, 0..2_u8, any::<bool>()).prop_map(|(i, zone, cordoned)| Step::Node(i, zone, cordoned)),
        1 => (0..3_u8).prop_map(Step::NoNode),
        2 => (0..2_u8, any::<bool>()).prop_map(|(i, owned)| Step::ReplicaSet(i, owned)),
        1 => (0..2_u8).prop_map(Step::NoReplicaSet),
        1 => Just(Step::List),
    ]
}

fn name(kind: Kind, name: &str) -> NamespacedName {
    NamespacedName::new(if kind == Kind::Node { "" } else { "default" }, name)
}

fn pod(i: u8, node: u8, rules: u8, owner: u8) -> Value {
    let term = json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}]);
    let spec = match rules {
        0 => json!({}),
        1 => {
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}})
        }
        2 => json!({"affinity": {"podAffinity": {"requiredDuringSchedulingRequiredDuringExecution": term}}}),
        _ => json!({"nodeSelector": {"zone": "z0"}}),
    };
    let mut pod = json!({
        "metadata": {"name": format!("p-{i}"), "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": if i.is_multiple_of(2) { "a" } else { "b" }}},
        "spec": spec,
    });
    pod["spec"]["containers"] =
        json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "700m"}}}]);
    if node < 4 {
        pod["spec"]["nodeName"] = format!("n{node}").into();
    }
    if owner < 2 {
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name":
            format!("rs-{owner}"), "uid": "u", "controller": true}]);
    }
    pod
}

fn updates(step: &Step) -> Update {
    match *step {
        Step::Pod(i, node, rules, owner) => Update::pod(from_value(pod(i, node, rules, owner)).unwrap()),
        Step::NoPod(i) => Update::Removed(Kind::Pod, name(Kind::Pod, &format!("p-{i}"))),
        Step::Node(i, zone, cordoned) => Update::node(
            from_value(json!({"metadata": {"name": format!("n{i}"), "labels": {"zone": format!("z{zone}")}},
                "spec": {"unschedulable": cordoned}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}))
            .unwrap(),
        ),
        Step::NoNode(i) => Update::Removed(Kind::Node, name(Kind::Node, &format!("n{i}"))),
        Step::ReplicaSet(i, owned) => {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true}]);
            let value = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": format!("rs-{i}"),
                "namespace": "default", "ownerReferences": if owned { owner } else { json!([]) }},
                "spec": {"selector": {"matchLabels": {"app": "a"}}}});
            let (kind, api_version) = ("ReplicaSet".to_owned(), "apps/v1".to_owned());
            Update::Object(Box::new(Manifest {
                kind,
                api_version,
                value,
                source: SourceLocation::file("server"),
            }))
        }
        Step::NoReplicaSet(i) => {
            Update::Removed(Kind::ReplicaSet, name(Kind::ReplicaSet, &format!("rs-{i}")))
        }
        Step::List => {
            let listed = (0..4).map(|i| name(Kind::Pod, &format!("p-{}", 2 * i + 1)));
            Update::Listed(Kind::Pod, listed.collect())
        }
    }
}

fn get(state: &mut State, page: &str) -> String {
    let (path, query) = page.split_once('?').unwrap_or((page, ""));
    respond(state, &Request { path, query, form: None }).body
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_a_state_that_follows_equal_those_of_one_that_is_built(
        batches in proptest::collection::vec(proptest::collection::vec(step(), 1..5), 1..12),
    ) {
        let mut state = State::live("test", SimulationOptions::default()).unwrap();
        for batch in batches {
            state.apply(batch.iter().map(updates), |error| panic!("{error}"));
            let mut built = state.snapshot();
            built.rebuild().unwrap();
            let mut snapshot = state.snapshot();
            for page in PAGES {
                let shown = get(&mut state, page);
                prop_assert_eq!(&shown, &get(&mut built, page), "built again: {}", page);
                prop_assert_eq!(&shown, &get(&mut snapshot, page), "snapshot: {}", page);
            }
        }
    }
}
