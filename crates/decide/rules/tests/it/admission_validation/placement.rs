//! Rules about placement in the fields of Kubernetes.

use berth_api::feature_gates::FeatureGates;
use berth_rules::RuleOptions;
use berth_rules::admission::validate_pod;
use serde_json::json;

use super::*;

#[test]
fn node_affinity() {
    let path =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    check_spec(with_node_term(json!({})), &[]);
    // The reference leaves this one to the scheduler, which fails on it.
    let many = json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["many"]}]});
    check_spec(with_node_term(many), &[]);
    check_spec(
        with_node_term(json!({"matchExpressions": [
            {"key": "a", "operator": "Lt"}, {"key": "a", "operator": "Gt", "values": ["1", "2"]},
            {"key": "a", "operator": "In", "values": ["ok", "not ok"]},
            {"key": "", "operator": "", "values": ["-"]}]})),
        &[
            &format!(
                "{path}.matchExpressions[0].values: Required value: must be specified single value when `operator` is \
                 'Lt' or 'Gt'"
            ),
            &format!(
                "{path}.matchExpressions[1].values: Required value: must be specified single value when `operator` is \
                 'Lt' or 'Gt'"
            ),
            &format!("{path}.matchExpressions[2].values[1]: Invalid value: \"not ok\": {LABEL_VALUE}"),
            &format!(
                "{path}.matchExpressions[3].operator: Invalid value: \"\": not a valid selector operator"
            ),
            &format!("{path}.matchExpressions[3].key: Invalid value: \"\": name part must be non-empty"),
            &format!("{path}.matchExpressions[3].key: Invalid value: \"\": {LABEL_KEY}"),
            &format!("{path}.matchExpressions[3].values[0]: Invalid value: \"-\": {LABEL_VALUE}"),
        ],
    );
    check_spec(
        with_node_term(json!({"matchFields": [
            {"key": "metadata.name", "operator": "Exists"}, {"key": "metadata.name", "operator": "In", "values": ["N"]},
            {"key": "spec.x", "operator": "NotIn", "values": []}]})),
        &[
            &format!(
                "{path}.matchFields[0].operator: Invalid value: \"Exists\": not a valid selector operator"
            ),
            &format!("{path}.matchFields[1].values[0]: Invalid value: \"N\": {DNS_SUBDOMAIN}"),
            &format!(
                "{path}.matchFields[2].values: Required value: must be only one value when `operator` is 'In' or \
                 'NotIn' for node field selector"
            ),
            &format!("{path}.matchFields[2].key: Invalid value: \"spec.x\": not a valid field selector key"),
        ],
    );
    let preferred = json!([{"weight": 101, "preference": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": ["not ok"]}]}}, {"weight": 1}]);
    check_spec(
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}),
        &[
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: \
           must be in the range 1-100",
        ],
    );
}

#[test]
fn pod_affinity() {
    check_spec(
        with_pod_term(json!({"topologyKey": "z", "namespaces": ["A"],
            "labelSelector": {"matchLabels": {"a": "b c"}, "matchExpressions": [
                {"key": "k", "operator": "Exists", "values": ["v"]}, {"key": "k", "operator": "NotIn"},
                {"key": "k", "operator": "In", "values": ["not ok"]}]},
            "namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "Lt", "values": ["1"]}]}})),
        &[
            &format!("{POD_TERM}.labelSelector.matchLabels: Invalid value: \"b c\": {LABEL_VALUE}"),
            &format!(
                "{POD_TERM}.labelSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` \
                 is 'Exists' or 'DoesNotExist'"
            ),
            &format!(
                "{POD_TERM}.labelSelector.matchExpressions[1].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'"
            ),
            &format!(
                "{POD_TERM}.labelSelector.matchExpressions[2].values[0]: Invalid value: \"not ok\": {LABEL_VALUE}"
            ),
            &format!(
                "{POD_TERM}.namespaceSelector.matchExpressions[0].operator: Invalid value: \"Lt\": not a valid \
                 selector operator"
            ),
            &format!("{POD_TERM}.namespace: Invalid value: \"A\": {DNS_LABEL}"),
        ],
    );
    check_spec(
        with_pod_term(json!({"topologyKey": "z", "labelSelector": {},
            "matchLabelKeys": ["x y", "b"], "mismatchLabelKeys": ["b", "/"]})),
        &[
            &format!("{POD_TERM}.matchLabelKeys[0]: Invalid value: \"x y\": {LABEL_KEY}"),
            &format!("{POD_TERM}.mismatchLabelKeys[1]: Invalid value: \"/\": prefix part must be non-empty"),
            &format!("{POD_TERM}.mismatchLabelKeys[1]: Invalid value: \"/\": name part must be non-empty"),
            &format!("{POD_TERM}.mismatchLabelKeys[1]: Invalid value: \"/\": {LABEL_KEY}"),
            &format!(
                "{POD_TERM}.matchLabelKeys[1]: Invalid value: \"b\": exists in both matchLabelKeys and \
                      mismatchLabelKeys"
            ),
        ],
    );
    check_spec(
        with_pod_term(json!({"topologyKey": "z", "mismatchLabelKeys": ["a"]})),
        &[&format!(
            "{POD_TERM}.mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
        )],
    );
}

#[test]
fn label_keys_are_merged_before_validation() {
    let term = json!({"topologyKey": "z", "matchLabelKeys": ["app", "gone"], "mismatchLabelKeys": ["tier"],
        "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}});
    let constraint = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}}, "matchLabelKeys": ["tier", "app"]});
    let mut spec = with_pod_term(term);
    spec["topologySpreadConstraints"] = json!([constraint]);
    let (pod, admission) = admitted(json!({"labels": {"app": "a", "tier": "t"}}), spec.clone(), false);
    let errors: Vec<String> = admission.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.topologySpreadConstraints[0][1]: Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"
        ]
    );
    let affinity = serde_json::to_value(&pod.spec.affinity).expect("JSON");
    assert_eq!(
        affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"],
        json!({"matchExpressions": [{"key": "tier", "operator": "Exists"},
            {"key": "app", "operator": "In", "values": ["a"]}, {"key": "tier", "operator": "NotIn", "values": ["t"]}]})
    );
    // Without the label nothing is merged, so nothing is there twice.
    assert_eq!(admitted(json!({}), spec, false).1.errors, []);
}

#[test]
fn spread_constraints() {
    let path = "spec.topologySpreadConstraints";
    check_spec(
        json!({"topologySpreadConstraints": [
            {"whenUnsatisfiable": "Never", "minDomains": 0, "nodeAffinityPolicy": "no", "nodeTaintsPolicy": "",
             "matchLabelKeys": ["a"]},
            {"maxSkew": 1, "topologyKey": "bad key is fine", "whenUnsatisfiable": "ScheduleAnyway",
             "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}}]}),
        &[
            &format!("{path}[0].maxSkew: Invalid value: 0: must be greater than zero"),
            &format!("{path}[0].topologyKey: Required value: can not be empty"),
            &format!(
                "{path}[0].whenUnsatisfiable: Unsupported value: \"Never\": supported values: \"DoNotSchedule\", \
                 \"ScheduleAnyway\""
            ),
            &format!("{path}[0].minDomains: Invalid value: 0: must be greater than zero"),
            &format!(
                "{path}[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, \
                 not Never"
            ),
            &format!(
                "{path}[0].nodeAffinityPolicy: Unsupported value: \"no\": supported values: \"Honor\", \"Ignore\""
            ),
            &format!(
                "{path}[0].nodeTaintsPolicy: Unsupported value: \"\": supported values: \"Honor\", \"Ignore\""
            ),
            &format!(
                "{path}[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"
            ),
            &format!(
                "{path}[1].labelSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector \
                 operator"
            ),
        ],
    );
}

#[test]
fn gates_tolerations_and_priority() {
    check_spec(
        json!({"nodeName": "N", "schedulingGates": [{"name": "a"}, {"name": "a"}, {"name": "b c"}]}),
        &[
            "spec.schedulingGates[1]: Duplicate value: \"a\"",
            &format!("spec.schedulingGates[2]: Invalid value: \"b c\": {LABEL_KEY}"),
            &format!("spec.nodeName: Invalid value: \"N\": {DNS_SUBDOMAIN}"),
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ],
    );
    let long = format!("{}-", "a".repeat(64));
    check_spec(
        json!({"tolerations": [
            {}, {"key": "k", "operator": "Exists", "value": "v"}, {"key": "k", "operator": "Gt", "value": "1"},
            {"key": "k k", "effect": "Nothing", "tolerationSeconds": 1}, {"key": "k", "value": long}]}),
        &[
            "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which \
             means \"match all values and all keys\"",
            "spec.tolerations[1].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'",
            "spec.tolerations[2].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\", \"Lt\", \"Gt\"",
            &format!("spec.tolerations[3].key: Invalid value: \"k k\": {LABEL_KEY}"),
            "spec.tolerations[3].effect: Invalid value: \"Nothing\": effect must be 'NoExecute' when \
             `tolerationSeconds` is set",
            "spec.tolerations[3].effect: Unsupported value: \"Nothing\": supported values: \"NoSchedule\", \
             \"PreferNoSchedule\", \"NoExecute\"",
            &format!(
                "spec.tolerations[4].operator: Invalid value: \"{long}\": must be no more than 63 bytes;{LABEL_VALUE}"
            ),
        ],
    );
    check_spec(
        json!({"priorityClassName": "P", "preemptionPolicy": "Maybe"}),
        &[
            &format!("spec.priorityClassName: Invalid value: \"P\": {DNS_SUBDOMAIN}"),
            "spec.preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\"",
        ],
    );
    check_spec(json!({"preemptionPolicy": ""}), &["spec.preemptionPolicy: Required value"]);
}

#[test]
fn an_unknown_priority_class_is_forbidden() {
    let mut pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "priorityClassName": "none", "containers": []}}))
    .expect("a pod");
    let options = AdmissionOptions { priority_classes: Some(&[]), ..AdmissionOptions::default() };
    let admission = admit(&mut pod, &options);
    let denied = "pods \"p\" is forbidden: no PriorityClass with name none was found";
    assert_eq!((admission.denied.as_deref(), admission.errors.len()), (Some(denied), 0));
    assert!(!admission.is_accepted());
}

#[test]
fn a_runtime_class_has_a_name() {
    let why = format!("spec.runtimeClassName: Invalid value: \"No_Name\": {DNS_SUBDOMAIN}");
    check_spec(json!({"runtimeClassName": "No_Name"}), &[&why]);
}

#[test]
fn a_claim_has_a_name() {
    check_spec(
        json!({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "persistentVolumeClaim": {}}, {"name": "c", "emptyDir": {}}]}),
        &["spec.volumes[1].persistentVolumeClaim.claimName: Required value"],
    );
}

/// Enhancement 5471: with the gate, the operators `Gt` and `Lt` compare with an integer of 64 bits in the value.
#[test]
fn tolerations_that_compare_need_an_integer() {
    let pod = |value: &str| {
        let spec = json!({"tolerations": [
            {"key": "k", "operator": "Gt", "value": value, "effect": "NoSchedule"},
            {"key": "k", "operator": "Ge", "value": "1"}]});
        admitted(json!({}), spec, true).0
    };
    let feature_gates =
        FeatureGates { taint_toleration_comparison_operators: true, ..FeatureGates::default() };
    let errors = |value: &str| {
        let options = RuleOptions { feature_gates, ..RuleOptions::default() };
        let errors = validate_pod(&pod(value), options);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let other =
        "spec.tolerations[1].operator: Unsupported value: \"Ge\": supported values: \"Equal\", \"Exists\"";
    assert_eq!(errors("-950"), [other]);
    // What is no number is an error twice.
    for (value, n) in [("95.5", 3), ("0950", 2), ("+5", 2), ("", 3)] {
        let found = errors(value);
        assert_eq!(found.len(), n, "{value}: {found:?}");
        assert!(found[0].starts_with("spec.tolerations[0].value: Invalid value: "), "{value}: {found:?}");
    }
}
