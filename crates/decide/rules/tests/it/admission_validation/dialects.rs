//! Warnings, and the fields that only the proposals have.

use serde_json::{Value, json};

use berth_api::object::group::{
    GROUP_ANNOTATION, GROUP_MIN_ANNOTATION, GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION, GROUP_SLICE_TOPOLOGY_ANNOTATION,
};
use berth_rules::NODE_FIELDS;

use super::*;

#[test]
fn warnings_of_the_reference() {
    let preferred = json!([{"weight": 1, "preference": {"matchExpressions": [
        {"key": "node-role.kubernetes.io/master", "operator": "Exists"},
        {"key": "a", "operator": "In", "values": ["-2"]}]}}]);
    let mut spec =
        with_node_term(json!({"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}));
    spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
    spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"weight": 1, "podAffinityTerm": {"topologyKey": "z"}}]);
    spec["nodeSelector"] =
        json!({"beta.kubernetes.io/arch": "amd64", "failure-domain.beta.kubernetes.io/zone": "z"});
    spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
        "topologyKey": "failure-domain.beta.kubernetes.io/region"}]);
    spec["overhead"] = json!({"memory": "1500m"});
    spec["containers"] = json!([{"name": "c", "image": "i", "resources": {"limits": {"memory": "100m"}}, "ports": [
        {"containerPort": 80, "hostIP": "10.0.0.1", "name": "web"}, {"containerPort": 80, "hostPort": 1},
        {"containerPort": 80, "hostPort": 1, "hostIP": "10.0.0.1"}, {"containerPort": 81}, {"containerPort": 81}]}]);
    let node = "spec.affinity.nodeAffinity";
    let ports = "spec.containers[0].ports";
    check_warnings(
        json!({"name": "p.q", "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}}),
        spec,
        false,
        &[
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [must not contain dots]",
            "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "spec.nodeSelector[failure-domain.beta.kubernetes.io/zone]: deprecated since v1.17; use \
             \"topology.kubernetes.io/zone\" instead",
            &format!(
                "{node}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key: \
                 beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead"
            ),
            &format!(
                "{node}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key: \
                 node-role.kubernetes.io/master is use \"node-role.kubernetes.io/control-plane\" instead"
            ),
            &format!(
                "{node}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[1].values[0]: \
                 -2 is invalid, {LABEL_VALUE}"
            ),
            "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/region is deprecated \
             since v1.17; use \"topology.kubernetes.io/region\" instead",
            "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the \
             \"priorityClassName\" field instead",
            "spec.overhead[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
            "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an \
             integer",
            &format!(
                "{ports}[0]: hostIP set without hostPort: {{Name:web HostPort:0 ContainerPort:80 Protocol:TCP \
                 HostIP:10.0.0.1}}"
            ),
            &format!("{ports}[1]: overlapping port definition with {ports}[0]"),
            &format!("{ports}[2]: overlapping port definition with {ports}[0]"),
            &format!("{ports}[2]: dangerously ambiguous port definition with {ports}[1]"),
            &format!("{ports}[4]: duplicate port definition with {ports}[3]"),
            "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm\
             .labelSelector: a null labelSelector results in matching no pod",
        ],
    );
}

#[test]
fn comparisons_in_pod_terms_are_an_extension() {
    let with = |requirements: Value| {
        with_pod_term(json!({"topologyKey": "z", "labelSelector": {"matchExpressions": requirements}}))
    };
    let good = with(json!([{"key": "size", "operator": "Gt", "values": ["20"]},
        {"key": "size", "operator": "Lt", "values": ["-3"]}]));
    assert_eq!(admitted(json!({}), good.clone(), true).1.errors, []);
    let errors = admitted(json!({}), good, false).1.errors;
    assert_eq!(
        errors[0].error,
        format!(
            "{POD_TERM}.labelSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector \
                 operator"
        )
    );
    let bad = with(
        json!([{"key": "size", "operator": "Gt", "values": ["many"]}, {"key": "size", "operator": "Lt"},
        {"key": "size", "operator": "Gt", "values": ["1", "2"]}]),
    );
    let errors: Vec<String> = admitted(json!({}), bad, true).1.errors.into_iter().map(|e| e.error).collect();
    let path = format!("{POD_TERM}.labelSelector.matchExpressions");
    assert_eq!(
        errors,
        [
            format!(
                "{path}[0].values[0]: Invalid value: \"many\": must be an integer when `operator` is 'Lt' or 'Gt'"
            ),
            format!(
                "{path}[1].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
            ),
            format!(
                "{path}[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
            ),
        ]
    );
}

#[test]
fn proposal_fields_in_the_spec() {
    let spec = json!({"affinity": {
        "nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": null}},
        "podAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [
            {"topologyKey": "", "labelSelector": {}, "namespaces": [], "matchLabelKeys": ["app"]}]},
        "podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [
            {"topologyKey": "bad key", "labelSelector": {}}]}}});
    let labels = json!({"labels": {"app": "a"}});
    let (pod, admission) = admitted(labels.clone(), spec.clone(), true);
    let errors: Vec<String> = admission.errors.into_iter().map(|e| e.error).collect();
    assert_eq!(
        errors,
        [format!(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[0].topologyKey: Invalid \
             value: \"bad key\": {LABEL_KEY}"
        )]
    );
    let rules = pod.spec.affinity.as_ref().and_then(|a| a.pod_affinity.clone()).expect("pod affinity");
    let term = &rules.required_during_scheduling_required_during_execution[0];
    assert_eq!(term.namespaces, Some(vec![]));
    assert_eq!(term.label_selector.as_ref().map(|s| s.match_expressions.len()), Some(1), "app is merged");

    let (pod, admission) = admitted(labels, spec, false);
    assert_eq!(admission.errors, []);
    let off = |rules: &str| {
        format!(
            "spec.affinity.{rules}.requiredDuringSchedulingRequiredDuringExecution: ignored because Berth's \
                 extensions are switched off"
        )
    };
    assert_eq!(admission.warnings, [off("nodeAffinity"), off("podAffinity"), off("podAntiAffinity")]);
    let affinity = serde_json::to_value(&pod.spec.affinity).expect("JSON");
    assert_eq!(affinity, json!({"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}));
}

#[test]
fn the_annotations_of_groups_are_validated() {
    let errors = |annotations: Value| -> Vec<String> {
        let (_, admission) = admitted(json!({"annotations": annotations}), json!({}), true);
        admission.errors.into_iter().map(|e| e.error).collect()
    };
    let path = |name: &str| format!("metadata.annotations[scheduling.berth.dev/{name}]");
    let annotated = |group: &str, min: &str| json!({GROUP_ANNOTATION: group, GROUP_MIN_ANNOTATION: min});
    assert_eq!(errors(annotated("team", "3")), [""; 0]);
    assert_eq!(
        errors(json!({GROUP_ANNOTATION: "team"})),
        [format!("{}: Required value: how many members have to be placed at least", path("group-min"))]
    );
    assert_eq!(
        errors(json!({GROUP_MIN_ANNOTATION: "3"})),
        [format!("{}: Required value: names the group of which this is the minimum", path("group"))]
    );
    for min in ["0", "-1", "many", "100001", ""] {
        let expected =
            format!("{}: Invalid value: {min:?}: must be an integer from 1 to 100000", path("group-min"));
        assert_eq!(errors(annotated("team", min)), [expected]);
    }
    assert_eq!(
        errors(annotated("a b", "1")),
        [format!("{}: Invalid value: \"a b\": {DNS_SUBDOMAIN}", path("group"))]
    );
    let (required, preferred) = (GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_PREFERRED_TOPOLOGY_ANNOTATION);
    let label_key =
        |name: &str, value: &str| format!("{}: Invalid value: {value:?}: {LABEL_KEY}", path(name));
    assert_eq!(errors(json!({required: "zone", preferred: "block,example.com/rack"})), [""; 0]);
    assert_eq!(errors(json!({required: "a b"})), [label_key("group-required-topology", "a b")]);
    assert_eq!(errors(json!({preferred: "block,a b"})), [label_key("group-preferred-topology", "block,a b")]);
    assert_eq!(errors(json!({preferred: "rack, device:gpu.example.com/nvlink_0"})), [""; 0]);
    let of_devices = |value: &str, why: &str| {
        format!("{}: Invalid value: {value:?}: {why}", path("group-required-topology"))
    };
    for (key, why) in [
        ("device:link", "must have the domain of the attribute: device:DOMAIN/NAME"),
        ("device:gpu.example.com/", "must have the domain of the attribute: device:DOMAIN/NAME"),
        ("device:gpu.example.com/a-b", "\"a-b\" is no name of an attribute of devices"),
        ("device:a_b/link", DNS_SUBDOMAIN),
    ] {
        assert_eq!(errors(json!({required: key})), [of_devices(key, why)]);
    }
    let (topology, size) = (GROUP_SLICE_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION);
    assert_eq!(errors(json!({topology: "rack", size: "4"})), [""; 0]);
    assert_eq!(
        errors(json!({topology: "rack"})),
        [format!("{}: Required value: how many pods a slice has", path("group-slice-size"))]
    );
    assert_eq!(
        errors(json!({size: "4"})),
        [format!(
            "{}: Required value: the node label whose domains take whole slices",
            path("group-slice-topology")
        )]
    );
    assert_eq!(
        errors(json!({topology: "rack", size: "0"})),
        [format!("{}: Invalid value: \"0\": must be an integer from 1 to 100000", path("group-slice-size"))]
    );
    let (_, admission) = admitted(json!({"annotations": annotated("team", "0")}), json!({}), false);
    let ignored = format!("{}: ignored because Berth's extensions are switched off", path("group"));
    assert_eq!((admission.errors.len(), admission.warnings), (0, vec![ignored]));
}

#[test]
fn node_terms_of_the_proposals_select_by_versions_annotations_and_fields() {
    let term = json!({
        "matchExpressions": [
            {"key": "kernel", "operator": "VersionGt", "values": ["5.15.0-91-generic"]},
            {"key": "kernel", "operator": "VersionLt", "values": ["generic"]},
            {"key": "kernel", "operator": "VersionLt"}],
        "matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
            {"key": "spec.providerID", "operator": "Exists"},
            {"key": "status.nodeInfo.kernelVersion", "operator": "VersionLt", "values": ["6.0"]},
            {"key": "status.phase", "operator": "Gt", "values": ["x"]}],
        "matchAnnotations": [
            {"key": "Example.com/Rack", "operator": "Gt", "values": ["-3"]},
            {"key": "a b", "operator": "In", "values": ["any text at all!"]}],
    });
    let required = json!({"nodeSelectorTerms": [term]});
    let errors = |metadata: Value, spec: Value| -> Vec<String> {
        admitted(metadata, spec, true).1.errors.into_iter().map(|e| e.error).collect()
    };
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": required}});
    let annotation = json!({"annotations": {AFFINITY_ANNOTATION: affinity.to_string()}});
    let path = "nodeAffinity.requiredDuringSchedulingRequiredDuringExecution.nodeSelectorTerms[0]";
    let expected = |place: &str| {
        let path = format!("{place}.{path}");
        [
            format!(
                "{path}.matchExpressions[1].values[0]: Invalid value: \"generic\": must be a version that begins with a \
                 digit, such as 5.15.0-91-generic"
            ),
            format!(
                "{path}.matchExpressions[2].values: Required value: must be specified single value when `operator` is \
                 'VersionLt' or 'VersionGt'"
            ),
            format!(
                "{path}.matchFields[3].values[0]: Invalid value: \"x\": must be an integer when `operator` is 'Lt' or 'Gt'"
            ),
            format!(
                "{path}.matchFields[3].key: Unsupported value: \"status.phase\": supported values: {}",
                NODE_FIELDS.map(|field| format!("{field:?}")).join(", ")
            ),
            format!("{path}.matchAnnotations[1].key: Invalid value: \"a b\": {LABEL_KEY}"),
        ]
    };
    let annotations = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
    assert_eq!(errors(annotation, json!({})), expected(&annotations));
    assert_eq!(errors(json!({}), json!({ "affinity": affinity })), expected("spec.affinity"));

    let v1 = with_node_term(json!({
        "matchExpressions": [{"key": "kernel", "operator": "VersionGt", "values": ["5.15"]}],
        "matchAnnotations": [{"key": "a", "operator": "Exists"}]}));
    let path =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    assert_eq!(
        errors(json!({}), v1),
        [
            format!(
                "{path}.matchExpressions[0].operator: Invalid value: \"VersionGt\": not a valid selector operator"
            ),
            format!(
                "{path}.matchAnnotations: Forbidden: v1 has no such field: write the term in the annotation \
                 {AFFINITY_ANNOTATION}"
            ),
        ]
    );
}

#[test]
fn the_annotation_is_validated_under_the_proposals_meaning() {
    let annotated = |text: &str| json!({"annotations": {AFFINITY_ANNOTATION: text}});
    let errors_of = |text: &str, extensions: bool| -> Vec<String> {
        admitted(annotated(text), json!({}), extensions).1.errors.into_iter().map(|e| e.error).collect()
    };
    let path = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
    let fine = "nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}
  preferredDuringSchedulingIgnoredDuringExecution:
  - {weight: 1, matchExpressions: [{key: cores, operator: Gt, values: ['8']}]}
  - {weight: 100, preference: {}}
  - {weight: 50}
podAntiAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - {labelSelector: {matchExpressions: [{key: size, operator: Lt, values: [30]}]}, topologyKey: ''}
";
    assert_eq!(errors_of(fine, true), [""; 0]);
    let bad = "nodeAffinity:
  requiredDuringSchedulingRequiredDuringExecution:
    nodeSelectorTerms: [{matchExpressions: [{key: cores, operator: Gt, values: [many]}]}]
  preferredDuringSchedulingIgnoredDuringExecution:
  - {weight: 0, preference: {}, matchExpressions: [{key: a b, operator: Like}]}
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 101
    podAffinityTerm: {labelSelector: {}, namespaceSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}
";
    let node = format!("{path}.nodeAffinity");
    let preferred = format!("{node}.preferredDuringSchedulingIgnoredDuringExecution[0]");
    let pod = format!("{path}.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]");
    assert_eq!(
        errors_of(bad, true),
        [
            format!(
                "{node}.requiredDuringSchedulingRequiredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
                 .values[0]: Invalid value: \"many\": must be an integer when `operator` is 'Lt' or 'Gt'"
            ),
            format!("{preferred}.weight: Invalid value: 0: must be in the range 1-100"),
            format!(
                "{preferred}.matchExpressions: Forbidden: may not be specified together with `preference`"
            ),
            format!(
                "{preferred}.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"
            ),
            format!("{preferred}.matchExpressions[0].key: Invalid value: \"a b\": {LABEL_KEY}"),
            format!("{pod}.weight: Invalid value: 101: must be in the range 1-100"),
            format!(
                "{pod}.podAffinityTerm.namespaceSelector.matchExpressions[0].operator: Invalid value: \"Gt\": not a \
                 valid selector operator"
            ),
        ]
    );
    assert_eq!(errors_of(bad, false), [""; 0]);
    let (_, admission) = admitted(annotated(bad), json!({}), false);
    assert_eq!(admission.warnings, [format!("{path}: ignored because Berth's extensions are switched off")]);

    let wrong_type =
        errors_of("podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: many}]}", true);
    let start = format!("{pod}.weight: Invalid value: invalid type: string \"many\"");
    assert!(wrong_type.len() == 1 && wrong_type[0].starts_with(&start), "{wrong_type:?}");
    let broken = errors_of("{", true);
    let start = format!("{path}: Invalid value: neither JSON nor YAML: ");
    assert!(broken.len() == 1 && broken[0].starts_with(&start), "{broken:?}");

    let null_selector = "podAffinity: {requiredDuringSchedulingRequiredDuringExecution: [{topologyKey: z}]}";
    check_warnings(
        annotated(null_selector),
        json!({}),
        true,
        &[&format!(
            "{path}.podAffinity.requiredDuringSchedulingRequiredDuringExecution[0].labelSelector: a null \
             labelSelector results in matching no pod"
        )],
    );
}

#[test]
fn limits_are_for_required_anti_affinity_of_the_proposals() {
    let term = |limit: i64| json!({"topologyKey": "rack", "labelSelector": {}, "limit": limit});
    let rules = |limit: i64| {
        json!({
            "requiredDuringSchedulingRequiredDuringExecution": [term(limit)],
            "requiredDuringSchedulingIgnoredDuringExecution": [term(limit)],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term(limit)}]})
    };
    let affinity = |limit: i64| json!({"podAffinity": rules(limit), "podAntiAffinity": rules(limit)});
    let annotated = |limit: i64| json!({"annotations": {AFFINITY_ANNOTATION: affinity(limit).to_string()}});
    let errors_of = |metadata: Value, spec: Value| -> Vec<String> {
        let errors = admitted(metadata, spec, true).1.errors.into_iter().map(|e| e.error);
        errors.map(|e| e.split(": may only").next().unwrap_or_default().to_owned()).collect()
    };
    let lists = |root: &str, lists: &[&str]| -> Vec<String> {
        lists.iter().map(|list| format!("{root}.{list}.limit: Forbidden")).collect()
    };
    let (enforced, ignored, preferred) = (
        "requiredDuringSchedulingRequiredDuringExecution[0]",
        "requiredDuringSchedulingIgnoredDuringExecution[0]",
        "preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm",
    );
    let path = format!("metadata.annotations[{AFFINITY_ANNOTATION}]");
    let mut in_annotation = lists(&format!("{path}.podAffinity"), &[enforced, ignored, preferred]);
    in_annotation.extend(lists(&format!("{path}.podAntiAffinity"), &[preferred]));
    for limit in [0, 3] {
        assert_eq!(errors_of(annotated(limit), json!({})), in_annotation);
    }
    let mut in_spec = lists("spec.affinity.podAffinity", &[enforced, ignored, preferred]);
    in_spec.extend(lists("spec.affinity.podAntiAffinity", &[ignored, preferred]));
    assert_eq!(errors_of(json!({}), json!({"affinity": affinity(3)})), in_spec);

    let negative =
        json!({"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [term(-1)]}});
    assert_eq!(
        errors_of(json!({}), json!({"affinity": negative})),
        [format!(
            "spec.affinity.podAntiAffinity.{enforced}.limit: Invalid value: -1: must be greater than or equal to 0"
        )]
    );

    let (pod, admission) = admitted(json!({}), json!({"affinity": affinity(3)}), false);
    assert_eq!(admission.errors, []);
    let off =
        |field: &str| format!("spec.affinity.{field}: ignored because Berth's extensions are switched off");
    let expected = ["podAffinity", "podAntiAffinity"].iter().flat_map(|rules| {
        [
            off(&format!("{rules}.requiredDuringSchedulingRequiredDuringExecution")),
            off(&format!("{rules}.{ignored}.limit")),
            off(&format!("{rules}.{preferred}.limit")),
        ]
    });
    assert_eq!(admission.warnings, expected.collect::<Vec<_>>());
    assert!(!serde_json::to_string(&pod.spec.affinity).expect("JSON").contains("limit"));
}
