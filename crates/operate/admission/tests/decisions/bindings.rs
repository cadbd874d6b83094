//! The binding guard: two schedulers that do not coordinate.

use std::time::Duration;

use berth_admission::{Endpoint, ReviewError};
use serde_json::json;

use crate::world::{World, binding, one_pod, policy, request};

const NODES: &str = "
    node a zone=z1
    node b zone=z2
    node c zone=z2
";

fn guarded(text: &str) -> World {
    World::new(policy(r#""bindingGuard": {"enabled": true}"#), &format!("{NODES}\n{text}"))
}

#[test]
fn only_one_of_two_first_pods_of_a_group_is_bound() {
    let world =
        guarded("pod default/p1 app=web aff(app=web @zone)\npod default/p2 app=web aff(app=web @zone)");
    assert_eq!(world.bind("default/p1", "a"), Ok(None));
    let refused = world.bind("default/p2", "b").unwrap().unwrap();
    let expected = "pods \"p2\" is forbidden: pod default/p2 may not be bound to node \"b\": node(s) didn't match pod \
                    affinity rules (spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: ";
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(world.bind("default/p2", "a"), Ok(None));
}

#[test]
fn only_one_of_two_pods_for_the_last_free_domain_is_bound() {
    let world = guarded(
        "pod default/there on a app=web
         pod default/p1 app=web anti(app=web @zone)
         pod other/p1 app=web anti(app=web @zone ns=default)",
    );
    assert_eq!(world.bind("default/p1", "b"), Ok(None));
    let refused = world.bind("other/p1", "c").unwrap().unwrap();
    assert!(refused.contains("node(s) didn't match pod anti-affinity rules"), "{refused}");
    assert!(refused.contains("default/p1"), "it names who is there: {refused}");
    // By symmetry, also a pod without rules.
    let world = guarded("pod default/p1 app=web anti(app=db @zone)\npod default/db app=db");
    assert_eq!(world.bind("default/p1", "b"), Ok(None));
    let refused = world.bind("default/db", "c").unwrap().unwrap();
    assert!(refused.contains("existing pods anti-affinity"), "{refused}");
}

#[test]
fn members_of_a_group_are_bound_if_their_rules_depend_on_each_other() {
    let bind = |text: &str| {
        let world = guarded("");
        for line in text.lines() {
            let mut pod = one_pod(line);
            pod.metadata.uid.clone_from(&pod.metadata.name);
            pod.metadata.annotations.insert("scheduling.berth.dev/group".to_owned(), "pair".to_owned());
            world.saw(&pod);
        }
        world.bind("default/p1", "a")
    };
    let pair = "pod default/p1 app=web aff(app=db @zone)\npod default/p2 app=db aff(app=web @zone)";
    assert_eq!(bind(pair), Ok(None));
    // Only the affinity to the other members is not known.
    for other in [
        "pod default/p1 app=web aff(app=db @zone)\npod default/p2 app=cache",
        "pod default/p1 app=web aff(app=db @zone) node(zone=z2)\npod default/p2 app=db",
        "pod default/p1 app=web aff(app=db @zone) anti(app=x @zone)\npod default/p2 app=db\npod default/x on a app=x",
    ] {
        assert!(bind(other).unwrap().is_some(), "{other}");
    }
    let spread = "pod default/p1 app=web spread(1 app=web @zone)\npod default/p2 on a app=web";
    assert_eq!(bind(spread), Ok(None), "the group may have to stay in one zone");
    let world = guarded(pair);
    assert!(world.bind("default/p1", "a").unwrap().is_some(), "they are no group");
}

#[test]
fn rules_that_the_binding_names_as_relaxed_are_preferences_if_the_pod_allows_it() {
    let anti = "relax:5m anti(app=web @zone)";
    let world = guarded(&format!("pod default/p1 on a app=web {anti}\npod default/p2 app=web {anti}"));
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let is_denied = |relaxed: &str| {
        let metadata = json!({"name": "p2", "namespace": "default",
            "annotations": {"scheduling.berth.dev/relaxed": relaxed}});
        let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "a"}});
        let fields =
            json!({"name": "p2", "namespace": "default", "subResource": "binding", "object": binding});
        world.ask(Endpoint::ValidateBindings, &request(fields)).unwrap().denied.is_some()
    };
    assert!(is_denied(""));
    assert!(is_denied("spec.affinity"));
    assert!(!is_denied(path));
}

#[test]
fn an_allowed_binding_counts_until_seen_or_expired() {
    let mut world =
        guarded("pod default/p1 app=web anti(app=web @zone)\npod default/p2 app=web anti(app=web @zone)");
    assert_eq!(world.bind("default/p1", "b"), Ok(None));
    // The same request again: its own held binding does not block it.
    assert_eq!(world.bind("default/p1", "b"), Ok(None));
    let elsewhere = world.bind("default/p1", "a").unwrap().unwrap();
    assert!(elsewhere.contains("has been allowed to be bound to node \"b\" a moment ago"), "{elsewhere}");
    assert!(world.bind("default/p2", "c").unwrap().is_some());
    world.now += Duration::from_secs(11);
    // The binding did not happen.
    assert_eq!(world.bind("default/p2", "c"), Ok(None));
    assert!(world.bind("default/p1", "b").unwrap().is_some());
    // The state shows this one, so it does not expire.
    world.saw(&one_pod("pod default/p2 on c app=web anti(app=web @zone)"));
    assert_eq!(world.state.lock().unwrap().n_held(), 0);
    world.now += Duration::from_secs(11);
    assert!(world.bind("default/p1", "b").unwrap().is_some());
    // The pod is deleted before the state shows its binding.
    assert_eq!(world.bind("default/p1", "a"), Ok(None));
    world.state.lock().unwrap().pod_deleted("default", "p1", "");
    assert_eq!(world.state.lock().unwrap().n_held(), 0);
}

#[test]
fn only_required_rules_are_checked_for_every_scheduler() {
    let world = guarded(
        "node full cpu=1 taint:dedicated=db:NoSchedule unschedulable
         pod default/huge cpu=64
         pod default/picky node(zone=z1)
         pod default/spread app=web spread(1 app=web @zone)
         pod default/web on a app=web",
    );
    assert_eq!(world.bind("default/huge", "full"), Ok(None));
    let refused = world.bind("default/picky", "b").unwrap().unwrap();
    assert!(refused.contains("node(s) didn't match Pod's node affinity/selector"), "{refused}");
    assert!(world.bind("default/spread", "a").unwrap().is_some());
    assert_eq!(world.bind("default/spread", "b"), Ok(None));
}

#[test]
fn an_unseen_pod_gets_an_error() {
    let world = guarded("pod default/p1\npod default/there on a");
    assert!(matches!(world.bind("default/absent", "a"), Err(ReviewError::Unseen(_))));
    assert!(matches!(world.bind("default/p1", "nowhere"), Err(ReviewError::Unseen(_))));
    // It is bound already: the API server reports that itself.
    assert_eq!(world.bind("default/there", "b"), Ok(None));
}

#[test]
fn dry_runs_hold_nothing_and_without_the_guard_all_bindings_pass() {
    let world = guarded("pod default/p1 app=web anti(app=web @zone)");
    let mut tried = binding("default/p1", "a");
    tried.dry_run = true;
    assert!(world.ask(Endpoint::ValidateBindings, &tried).unwrap().is_allowed());
    assert_eq!(world.state.lock().unwrap().n_held(), 0);
    let world = World::new(policy(""), NODES);
    assert_eq!(world.bind("default/absent", "nowhere"), Ok(None));
}

#[test]
fn a_pod_with_claims_of_devices_is_bound_although_the_webhook_does_not_watch_claims() {
    let world = guarded("");
    let mut pod = one_pod("pod default/p1 app=web");
    pod.metadata.uid.clone_from(&pod.metadata.name);
    let claim = json!({"name": "gpu", "resourceClaimName": "gpu"});
    pod.spec.resource_claims = vec![serde_json::from_value(claim).unwrap()].into();
    world.saw(&pod);
    assert_eq!(world.bind("default/p1", "a"), Ok(None));
}
