//! Budgets of namespaces.

use std::time::Duration;

use berth_admission::{Endpoint, Nothing, Policy, ReviewError, review};

use crate::world::{World, creation, one_pod, policy};

const NODES: &str = "
    node a zone=z1 cpu=4 mem=8Gi
    node b zone=z2 cpu=8 mem=16Gi
    node c zone=z2 cpu=12 mem=24Gi
    pod other/db-0 on a app=db
    pod other/db-1 on b app=db
";

fn refusal(world: &World, pod: &str) -> Option<String> {
    world.create(pod).denied.map(|denial| denial.text())
}

#[test]
fn a_term_may_block_only_the_allowed_nodes_and_pods() {
    let limit =
        |limit: &str| World::new(policy(&format!(r#""budgets": [{{"blastRadius": {{{limit}}}}}]"#)), NODES);
    let anti = "pod default/web anti(app=db @zone ns=other)";
    let term = "pods \"web\" is forbidden: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: \
                by symmetry, required anti-affinity would block";
    assert_eq!(refusal(&limit(r#""nodes": 2, "pods": 2"#), anti), None);
    assert_eq!(
        refusal(&limit(r#""nodes": 1"#), anti).unwrap(),
        format!(
            "{term} 2 nodes (its largest domain, topology.kubernetes.io/zone=z2), and 2 running pods match it; the budget of \
             namespace \"default\" allows 1 node"
        )
    );
    assert!(refusal(&limit(r#""pods": 1"#), anti).unwrap().ends_with("allows 1 running pod"));
    // Average: three nodes in two zones.
    assert!(
        refusal(&limit(r#""measure": "Average", "nodes": 1"#), anti)
            .unwrap()
            .contains("2 nodes (an average domain), and")
    );
    // Node affinity excludes the larger zone.
    let pinned = "pod default/web node(zone=z1) anti(app=db @zone ns=other)";
    assert_eq!(refusal(&limit(r#""nodes": 1"#), pinned), None);
    assert_eq!(refusal(&limit(r#""nodes": 0"#), "pod default/web aff(app=db @zone ns=other)"), None);
}

#[test]
fn the_domain_of_the_best_node_can_be_measured() {
    let budgets = r#""budgets": [{"blastRadius": {"measure": "Actual", "nodes": 1}}]"#;
    let world =
        World::new(policy(budgets), "node a zone=z1 cpu=4\nnode b zone=z2 cpu=1\nnode c zone=z2 cpu=1");
    assert_eq!(refusal(&world, "pod default/web cpu=2 anti(app=db @zone)"), None);
    let small = refusal(&world, "pod default/web select:zone=z2 anti(app=db @zone)");
    assert!(small.is_none() || small.unwrap().contains("the domain it would go to"));
    let pinned = "pod default/web node(zone=z2) anti(app=db @zone)";
    assert!(
        refusal(&world, pinned)
            .unwrap()
            .contains("the domain it would go to, topology.kubernetes.io/zone=z2")
    );
    // No node is feasible now: the largest counts.
    let huge = "pod default/web cpu=64 anti(app=db @zone)";
    assert!(refusal(&world, huge).unwrap().contains("its largest domain"));
}

#[test]
fn exclusive_nodes_are_charged_whole() {
    let budget = |charge: &str, limits: &str| {
        let budgets = format!(
            r#""budgets": [{{"namespaces": ["team"], "exclusiveNodes": {{"charge": "{charge}", {limits}}}}}]"#
        );
        World::new(policy(&budgets), NODES)
    };
    let alone = |name: &str| format!("pod team/{name} cpu=1m anti(* @hostname ns:*)");
    // The largest node has 12 CPUs: one fits into a budget of 20, two do not.
    let world = budget("Largest", r#""cpu": "20""#);
    assert_eq!(refusal(&world, &alone("p1")), None);
    let refused = refusal(&world, &alone("p2")).unwrap();
    let expected = "pods \"p2\" is forbidden: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: a \
                    pod that rejects all other pods on its node is charged the whole node, and namespace \"team\" would take \
                    24 of 20 cpu that its budget allows";
    assert!(refused.starts_with(expected), "{refused}");
    // A bound pod is charged for its node.
    world.saw(&one_pod("pod team/p1 on a cpu=1m anti(* @hostname ns:*)"));
    assert_eq!(refusal(&world, &alone("p2")), None);
    // Other namespaces are counted separately and have no budget.
    assert_eq!(refusal(&world, "pod else/p2 anti(* @hostname ns:*)"), None);

    let world = budget("Average", r#""cpu": "16", "memory": "40Gi""#);
    assert_eq!((refusal(&world, &alone("p1")), refusal(&world, &alone("p2"))), (None, None));
    assert!(refusal(&world, &alone("p3")).unwrap().contains("24 of 16 cpu and 48Gi of 40Gi memory"));

    let world = budget("Largest", r#""nodes": 1"#);
    assert_eq!(refusal(&world, &alone("p1")), None);
    assert!(refusal(&world, &alone("p2")).unwrap().contains("2 of 1 nodes"));
    // Not exclusive: it rejects only its own kind.
    assert_eq!(refusal(&world, "pod team/p3 app=web anti(app=web @hostname)"), None);
    // A pod that rejects all but its own kind is exclusive.
    assert!(refusal(&world, "pod team/p3 app=web anti(app!=web @hostname ns:*)").is_some());
    assert!(refusal(&world, "pod team/p3 anti(* @hostname ns:kubernetes.io/metadata.name)").is_some());
    // The pod is deleted and frees its charge.
    world.state.lock().unwrap().pod_applied(&one_pod(&alone("p1")));
    assert!(refusal(&world, &alone("p2")).is_some());
    world.state.lock().unwrap().pod_deleted("team", "p1", "");
    assert_eq!(refusal(&world, &alone("p2")), None);
}

#[test]
fn a_pod_pinned_to_a_node_is_charged_for_that_node() {
    let budgets = |charge: &str| {
        let text = format!(r#""budgets": [{{"exclusiveNodes": {{"charge": "{charge}", "cpu": 4}}}}]"#);
        World::new(policy(&text), NODES)
    };
    for charge in ["Largest", "Average", "Actual"] {
        for pin in ["select:hostname=a", "node(hostname=a)", "node(metadata.name=a)"] {
            let pod = format!("pod team/p1 {pin} anti(* @hostname ns:*)");
            assert_eq!(refusal(&budgets(charge), &pod), None, "{charge} {pin}");
        }
        assert!(refusal(&budgets(charge), "pod team/p1 node(hostname=b) anti(* @hostname ns:*)").is_some());
    }
    // The pod's own rules allow only b and c; c is larger, and b is taken.
    let actual = "pod team/p1 node(zone=z2) anti(* @hostname ns:*)";
    let text = r#""budgets": [{"exclusiveNodes": {"charge": "Actual", "cpu": 11}}]"#;
    assert!(refusal(&World::new(policy(text), NODES), actual).unwrap().contains("12 of 11 cpu"));
}

#[test]
fn a_reservation_without_a_pod_expires() {
    let mut world = World::new(policy(r#""budgets": [{"exclusiveNodes": {"nodes": 1}}]"#), NODES);
    assert_eq!(refusal(&world, "pod team/p1 anti(* @hostname ns:*)"), None);
    assert!(refusal(&world, "pod team/p2 anti(* @hostname ns:*)").is_some());
    world.now += Duration::from_secs(11);
    assert_eq!(refusal(&world, "pod team/p2 anti(* @hostname ns:*)"), None);
}

#[test]
fn preferred_anti_affinity_has_a_blast_radius_as_well() {
    let anti =
        "pod default/web prefer-anti(100 app=db @zone ns=other) prefer-anti(1 app=db @hostname ns=other)";
    let limit = |limit: &str| {
        let budgets = format!(r#""budgets": [{{"preferredBlastRadius": {{{limit}}}}}]"#);
        World::new(policy(&budgets), NODES)
    };
    // Off by default, and a budget of required anti-affinity is not one of preferences.
    assert_eq!(World::new(Policy::default(), NODES).create(anti).audit.len(), 0);
    let required = World::new(policy(r#""budgets": [{"blastRadius": {"nodes": 0, "pods": 0}}]"#), NODES);
    assert_eq!(refusal(&required, anti), None);

    let term = "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let largest = "2 nodes (its largest domain, topology.kubernetes.io/zone=z2), and 2 running pods match it";
    assert_eq!(
        refusal(&limit(r#""nodes": 1"#), anti).unwrap(),
        format!(
            "pods \"web\" is forbidden: {term}[0]: by symmetry, preferred anti-affinity would lower the scores of {largest}; \
             the budget of namespace \"default\" allows 1 node"
        )
    );
    assert!(
        refusal(&limit(r#""nodes": 9, "pods": 1"#), anti)
            .unwrap()
            .ends_with("allows 9 nodes and 1 running pod")
    );
    assert!(
        refusal(&limit(r#""measure": "Average", "nodes": 1"#), anti).unwrap().contains("an average domain")
    );
    // Within the limit it is reported: to the audit log.
    let answer = limit(r#""nodes": 2"#).create(anti);
    assert!(answer.is_allowed());
    let host = "1 node (its largest domain, kubernetes.io/hostname=c), and 2 running pods match it";
    let reported = format!("{term}[0]: {largest}; {term}[1]: {host}");
    assert_eq!(answer.response("1")["auditAnnotations"]["PreferredBlastRadius"], reported);
    // Affinity, and required anti-affinity, have none.
    let others = "pod default/web prefer-aff(1 app=db @zone ns=other) anti(app=db @zone ns=other)";
    assert_eq!(refusal(&limit(r#""nodes": 0, "pods": 0"#), others), None);
}

#[test]
fn a_budget_can_only_warn() {
    let budgets = r#""budgets": [{"action": "Warn", "blastRadius": {"nodes": 0}}]"#;
    let answer = World::new(policy(budgets), NODES).create("pod team/p1 anti(app=db @hostname)");
    assert!(answer.is_allowed());
    assert!(answer.warnings[0].ends_with("allows 0 nodes"), "{:?}", answer.warnings);
}

#[test]
fn exempt_pods_block_no_pod_and_are_not_charged() {
    let budgets = r#""budgets": [{"blastRadius": {"nodes": 0}, "exclusiveNodes": {"nodes": 0}}]"#;
    let world = World::new(policy(budgets), NODES);
    assert_eq!(refusal(&world, "pod kube-system/p1 rdrd-anti(* @hostname ns=)"), None);
    assert!(refusal(&world, "pod kube-system/p1 anti(* @hostname ns:*)").is_some());
}

#[test]
fn rules_that_need_a_state_get_an_error_without_one() {
    let policy = policy(r#""budgets": [{"blastRadius": {"nodes": 0}}]"#);
    let ask = |pod: &str| {
        review(Endpoint::ValidatePods, &creation(&one_pod(pod)), &policy, &Nothing, std::time::Instant::now())
    };
    assert!(ask("pod team/plain").unwrap().is_allowed());
    assert!(matches!(ask("pod team/p1 anti(app=db @hostname)"), Err(ReviewError::NoState(_))));
}
