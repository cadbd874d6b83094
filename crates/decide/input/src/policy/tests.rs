//! Which rules a pod gets from its policies.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use berth_api::object::{Pod, StringMap};

fn policy(name: &str, spec: Value) -> PlacementPolicy {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let value = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
    PlacementPolicy::read(&value).unwrap()
}

/// Applies policies to a pod of namespace `team`, twice: the second time changes nothing.
fn apply(pod: Value, policies: Vec<PlacementPolicy>) -> (Value, Applied) {
    let mut pod: Pod = serde_json::from_value(pod).unwrap();
    pod.metadata.namespace = "team".to_owned();
    let team = StringMap::from([("tier".to_owned(), "gold".to_owned())]);
    let set = PolicySet::new(policies, HashMap::from([("team".to_owned(), team.into())]));
    let applied = set.apply(&mut pod).unwrap();
    let once = pod.clone();
    set.apply(&mut pod).unwrap();
    assert_eq!(pod, once, "policies are applied again without effect");
    (serde_json::to_value(&pod).unwrap(), applied)
}

fn zone(zones: Value) -> Value {
    node(json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]}]))
}

fn node(terms: Value) -> Value {
    json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
}

fn node_terms(pod: &Value) -> Value {
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"].clone()
}

const NODE_PATH: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";

#[test]
fn policies_select_by_namespace_and_labels() {
    let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
    let gold = |tier: &str| json!({"tolerations": tolerations, "namespaceSelector": {"matchLabels": {"tier": tier}}});
    let web = json!({"tolerations": tolerations, "podSelector": {"matchLabels": {"app": "web"}}});
    let named = json!({"tolerations": tolerations,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "team"}}});
    for (policy, is_selected) in [
        (policy("team/a", json!({"tolerations": tolerations})), true),
        (policy("other/a", json!({"tolerations": tolerations})), false),
        (policy("a", gold("gold")), true),
        (policy("a", gold("silver")), false),
        (policy("a", named), true),
        (policy("team/a", web.clone()), true),
        (policy("b", web), true),
    ] {
        let shown = format!("{policy:?}");
        let (_, applied) = apply(json!({"metadata": {"labels": {"app": "web"}}}), vec![policy]);
        assert_eq!(!applied.policies.is_empty(), is_selected, "{shown}");
    }
}

#[test]
fn node_affinity_holds_together_with_that_of_the_pod() {
    let own = node(json!([
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]));
    let (pod, applied) = apply(
        json!({"spec": {"affinity": own}}),
        vec![policy("zones", json!({"affinity": zone(json!(["a", "b"]))}))],
    );
    let in_zone = json!({"key": "zone", "operator": "In", "values": ["a", "b"]});
    assert_eq!(
        node_terms(&pod),
        json!([
            {"matchExpressions": [{"key": "disk", "operator": "Exists"}, in_zone]},
            {"matchExpressions": [in_zone], "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ])
    );
    assert_eq!(applied.policies, [("ClusterPlacementPolicy zones".to_owned(), vec![NODE_PATH.to_owned()])]);
    assert_eq!(pod["metadata"]["annotations"][APPLIED_ANNOTATION], "zones");
}

#[test]
fn the_own_rule_of_a_pod_wins_unless_it_is_overridden() {
    for own in [json!({"affinity": zone(json!(["c"]))}), json!({"nodeSelector": {"zone": "c"}})] {
        let rules = json!({"affinity": zone(json!(["a"]))});
        let (pod, applied) = apply(json!({"spec": own}), vec![policy("team/zones", rules.clone())]);
        assert_eq!(pod["spec"]["affinity"], own.get("affinity").cloned().unwrap_or_default());
        let warning =
            format!("PlacementPolicy team/zones: {NODE_PATH}: not applied: the pod has its own rule");
        assert_eq!(applied, Applied { warnings: vec![warning], ..Applied::default() });

        let mut overriding = rules;
        overriding["override"] = json!(true);
        let (pod, applied) = apply(json!({"spec": own}), vec![policy("team/zones", overriding)]);
        assert_eq!(node_terms(&pod)[0]["matchExpressions"][0]["values"], json!(["a"]));
        assert_eq!(pod["spec"].get("nodeSelector"), None);
        assert!(applied.warnings[0].ends_with(": replaces the pod's own rule"), "{applied:?}");
    }
}

#[test]
fn the_first_of_two_policies_wins() {
    let spread = |priority: i32, skew: i32, overrides: bool| {
        json!({"priority": priority, "override": overrides, "topologySpreadConstraints": [
            {"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]})
    };
    let skew = |policies: Vec<PlacementPolicy>| {
        let (pod, applied) = apply(json!({}), policies);
        (pod["spec"]["topologySpreadConstraints"][0]["maxSkew"].clone(), applied.warnings)
    };
    // Priority, then scope, then name.
    for (a, b) in [
        (policy("team/b", spread(2, 1, false)), policy("a", spread(1, 2, true))),
        (policy("b", spread(1, 1, false)), policy("team/a", spread(1, 2, true))),
        (policy("team/a", spread(0, 1, false)), policy("team/b", spread(0, 2, true))),
    ] {
        let path = "spec.topologySpreadConstraints[0]";
        let warning = format!("{b}: {path}: not applied: {a} comes first");
        assert_eq!(skew(vec![b, a]), (json!(1), vec![warning]));
    }
}

#[test]
fn defaults_are_for_pods_without_such_rules() {
    let term = |key: &str| json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}});
    let anti =
        |term: Value| json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let defaults = json!({"mode": "Default", "affinity": anti(term("zone")),
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 30}]});
    let keys = |pod: &Value| {
        let terms =
            &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        terms.as_array().unwrap().iter().map(|t| t["topologyKey"].clone()).collect::<Vec<_>>()
    };
    let (pod, _) = apply(json!({}), vec![policy("defaults", defaults.clone())]);
    assert_eq!(keys(&pod), ["zone"]);
    // The default toleration of the API server is no rule of the pod.
    let default = |key: &str| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 300})
    };
    let own = json!({"affinity": anti(term("rack")), "tolerations": [default("not-ready"), default("unreachable")]});
    let (pod, applied) = apply(json!({"spec": own}), vec![policy("defaults", defaults.clone())]);
    assert_eq!(keys(&pod), ["rack"]);
    assert_eq!(applied.warnings.len(), 1, "{applied:?}");
    let seconds: Vec<_> =
        pod["spec"]["tolerations"].as_array().unwrap().iter().map(|t| &t["tolerationSeconds"]).collect();
    assert_eq!(seconds, [30, 300]);
    // The other mode adds the term.
    let mut added = defaults;
    added["mode"] = json!("Add");
    let (pod, _) = apply(json!({"spec": own}), vec![policy("defaults", added)]);
    assert_eq!(keys(&pod), ["rack", "zone"]);
}

#[test]
fn extended_affinity_goes_into_the_annotation() {
    let term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": []});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term]}});
    let rules = policy("team/alone", json!({"extendedAffinity": affinity}));
    let (pod, _) = apply(json!({}), vec![rules.clone()]);
    let annotation = |pod: &Value| {
        let text = pod["metadata"]["annotations"]["scheduling.berth.dev/affinity"].as_str().unwrap();
        serde_json::from_str::<Value>(text).unwrap()
    };
    assert_eq!(annotation(&pod), affinity);
    let own = "{podAffinity: {}}";
    let own = json!({"metadata": {"annotations": {"scheduling.berth.dev/affinity": own}}});
    let (pod, _) = apply(own, vec![rules.clone()]);
    assert_eq!(annotation(&pod)["podAntiAffinity"], affinity["podAntiAffinity"]);
    let own = json!({"metadata": {"annotations": {"scheduling.berth.dev/affinity": "["}}});
    let (_, applied) = apply(own, vec![rules]);
    assert!(
        applied.warnings[0].contains("extendedAffinity: not applied: neither JSON nor YAML"),
        "{applied:?}"
    );
}

#[test]
fn a_dry_run_only_warns() {
    let rules = json!({"dryRun": true, "tolerations": [{"key": "gpu", "operator": "Exists"}]});
    let (pod, applied) = apply(json!({}), vec![policy("gpu", rules)]);
    assert_eq!(pod["spec"].get("tolerations"), None);
    let warning = "ClusterPlacementPolicy gpu: spec.tolerations[0]: dry run: would be added";
    assert_eq!(applied, Applied { warnings: vec![warning.to_owned()], ..Applied::default() });
}

/// One policy with 2,000 terms stopped a server: each was compared with all others, three times over.
#[test]
fn policies_with_many_rules_are_applied_within_a_budget_or_not_at_all() {
    let terms = |n: usize, name: &str| {
        let term = |i| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {format!("{name}-{i}"): "v"}}});
        let terms: Vec<Value> = (0..n).map(term).collect();
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    };
    let tolerations = |n: usize| {
        let tolerations: Vec<Value> =
            (0..n).map(|i| json!({"key": format!("k{i}"), "operator": "Exists"})).collect();
        json!({ "tolerations": tolerations })
    };
    let alternatives = |n: usize, key: &str| {
        let term = |i| json!({"matchExpressions": [{"key": format!("{key}-{i}"), "operator": "Exists"}]});
        let terms: Vec<Value> = (0..n).map(term).collect();
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    for (policies, is_applied) in [
        (vec![policy("team/a", tolerations(1000))], true),
        (vec![policy("team/a", terms(100, "a")), policy("team/b", terms(100, "b"))], true),
        (vec![policy("team/a", terms(2000, "a"))], false),
        (vec![policy("team/a", tolerations(10_000))], false),
        (vec![policy("team/a", alternatives(30, "a")), policy("team/b", alternatives(30, "b"))], true),
        (vec![policy("team/a", alternatives(300, "a")), policy("team/b", alternatives(300, "b"))], false),
    ] {
        let mut pod: Pod = serde_json::from_value(json!({"metadata": {"namespace": "team"}})).unwrap();
        let before = pod.clone();
        let applied = PolicySet::new(policies, HashMap::new()).apply(&mut pod);
        assert_eq!(applied.is_ok(), is_applied, "{applied:?}");
        assert_eq!(pod != before, is_applied);
    }
}
