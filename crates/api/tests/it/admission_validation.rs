//! Validation errors and warnings of the API server that the recordings do not show, and those of the extensions.

use berth_api::admission::{AFFINITY_ANNOTATION, Admission, AdmissionOptions, admit};
use berth_api::object::Pod;
use serde_json::{Value, json};

const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn admitted(metadata: Value, spec: Value, extensions: bool) -> (Pod, Admission) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (part, given) in [("metadata", metadata), ("spec", spec)] {
        for (name, value) in given.as_object().expect("an object") {
            pod[part][name] = value.clone();
        }
    }
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    let admission = admit(&mut pod, &AdmissionOptions { extensions, ..AdmissionOptions::default() });
    (pod, admission)
}

#[track_caller]
fn check_spec(spec: Value, errors: &[&str]) {
    for extensions in [false, true] {
        let (_, admission) = admitted(json!({}), spec.clone(), extensions);
        let got: Vec<String> = admission.errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, errors, "{spec}, extensions: {extensions}");
    }
}

#[track_caller]
fn check_metadata(metadata: Value, errors: &[&str]) {
    let (_, admission) = admitted(metadata.clone(), json!({}), false);
    let got: Vec<String> = admission.errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, errors, "{metadata}");
}

#[track_caller]
fn check_warnings(metadata: Value, spec: Value, extensions: bool, warnings: &[&str]) {
    let (_, admission) = admitted(metadata, spec.clone(), extensions);
    assert_eq!(admission.warnings, warnings, "{spec}");
}

#[test]
fn metadata() {
    check_metadata(json!({}), &[]);
    check_metadata(json!({"name": ""}), &["metadata.name: Required value: name or generateName is required"]);
    check_metadata(json!({"name": "", "generateName": "web-"}), &[]);
    check_metadata(
        json!({"name": "", "generateName": "Web-"}),
        &[&format!("metadata.generateName: Invalid value: \"Web-\": {DNS_SUBDOMAIN}")],
    );
    check_metadata(
        json!({"name": "P", "namespace": "a.b"}),
        &[
            &format!("metadata.name: Invalid value: \"P\": {DNS_SUBDOMAIN}"),
            "metadata.namespace: Invalid value: \"a.b\": must not contain dots",
        ],
    );
    let long = "a".repeat(64);
    check_metadata(
        json!({"labels": {"a": long, "b c": "x"}, "annotations": {"Example.com/A": "", "x y": ""}}),
        &[
            &format!("metadata.labels: Invalid value: \"{long}\": must be no more than 63 bytes"),
            &format!("metadata.labels: Invalid value: \"b c\": {LABEL_KEY}"),
            &format!("metadata.annotations: Invalid value: \"x y\": {LABEL_KEY}"),
        ],
    );
    check_metadata(
        json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    check_metadata(
        json!({"annotations": {"kubernetes.io/config.mirror": "x"}}),
        &[
            "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror \
           pod annotation is set",
        ],
    );
}

#[test]
fn containers_and_ports() {
    check_spec(json!({"containers": []}), &["spec.containers: Required value"]);
    check_spec(
        json!({"containers": [{"name": "", "image": ""}, {"name": "A", "image": " i"}]}),
        &[
            "spec.containers[0].name: Required value",
            "spec.containers[0].image: Required value",
            &format!("spec.containers[1].name: Invalid value: \"A\": {DNS_LABEL}"),
            "spec.containers[1].image: Invalid value: \" i\": must not have leading or trailing whitespace",
        ],
    );
    check_spec(
        json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}],
            "initContainers": [{"name": "c", "image": "i", "restartPolicy": "Sometimes"}]}),
        &[
            "spec.containers[1].name: Duplicate value: \"c\"",
            "spec.initContainers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
             \"Never\", \"OnFailure\"",
            "spec.initContainers[0].name: Duplicate value: \"c\"",
        ],
    );
    check_spec(
        json!({"containers": [{"name": "c", "image": "i", "ports": [
            {}, {"containerPort": 70000, "hostPort": -1}, {"containerPort": 1, "protocol": "<TCP>"},
            {"containerPort": 2, "hostPort": 80}, {"containerPort": 3, "hostPort": 80},
            {"containerPort": 4, "hostPort": 80, "protocol": "UDP"},
            {"containerPort": 5, "hostPort": 80, "hostIP": "10.0.0.1"}]}]}),
        &[
            "spec.containers[0].ports[0].containerPort: Required value",
            "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            "spec.containers[0].ports[2].protocol: Unsupported value: \"\\u003cTCP\\u003e\": supported values: \
             \"SCTP\", \"TCP\", \"UDP\"",
            "spec.containers[0].ports[4].hostPort: Duplicate value: \"TCP//80\"",
        ],
    );
    check_spec(
        json!({"initContainers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "ports": [
            {"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]}]}),
        &["spec.initContainers[0].ports[1].hostPort: Duplicate value: \"TCP//5\""],
    );
    check_spec(
        json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [
            {"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]}]}),
        &[
            "spec.containers[0].ports[1].hostPort: Invalid value: 82: must match `containerPort` when `hostNetwork` is \
           true",
        ],
    );
}

fn with_resources(resources: Value) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": resources}]})
}

#[test]
fn resources() {
    let path = "spec.containers[0].resources";
    check_spec(
        with_resources(json!({"requests": {"cpu": "-1", "memory": "2Gi"}, "limits": {"memory": "1.5Gi"}})),
        &[
            &format!("{path}.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"),
            &format!(
                "{path}.requests: Invalid value: \"2Gi\": must be less than or equal to memory limit of 1536Mi"
            ),
        ],
    );
    check_spec(
        with_resources(json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}})),
        &[&format!("{path}.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2")],
    );
    check_spec(
        with_resources(json!({"requests": {"example.com/gpu": "1500m"}})),
        &[
            &format!("{path}.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer"),
            &format!("{path}.limits: Required value: Limit must be set for non overcommitable resources"),
        ],
    );
    check_spec(
        with_resources(
            json!({"limits": {"gpu": "1"}, "requests": {"gpu": "1", "requests.example.com/x": "1"}}),
        ),
        &[
            &format!(
                "{path}.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified"
            ),
            &format!(
                "{path}.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers"
            ),
            &format!(
                "{path}.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified"
            ),
            &format!(
                "{path}.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers"
            ),
            &format!(
                "{path}.requests[requests.example.com/x]: Invalid value: \"requests.example.com/x\": doesn't follow \
                 extended resource name standard"
            ),
            &format!("{path}.limits: Required value: Limit must be set for non overcommitable resources"),
        ],
    );
    check_spec(
        with_resources(json!({"limits": {"pods": "1", "a b": "1"}})),
        &[
            &format!("{path}.limits[a b]: Invalid value: \"a b\": {LABEL_KEY}"),
            &format!(
                "{path}.limits[a b]: Invalid value: \"a b\": must be a standard resource for containers"
            ),
            &format!(
                "{path}.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"
            ),
            &format!("{path}.requests[a b]: Invalid value: \"a b\": {LABEL_KEY}"),
            &format!(
                "{path}.requests[a b]: Invalid value: \"a b\": must be a standard resource for containers"
            ),
            &format!(
                "{path}.requests[pods]: Invalid value: \"pods\": must be a standard resource for containers"
            ),
        ],
    );
    check_spec(with_resources(json!({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}})), &[]);
    check_spec(
        with_resources(json!({"limits": {"hugepages-2Mi": "3Mi"}})),
        &[
            &format!(
                "{path}.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of \
                 hugepages-2Mi"
            ),
            &format!(
                "{path}.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of \
                 hugepages-2Mi"
            ),
            &format!("{path}: Forbidden: HugePages require cpu or memory"),
        ],
    );
    check_spec(
        with_resources(json!({"limits": {"cpu": "1", "hugepages-x": "1"}, "requests": {"hugepages-x": "1"}})),
        &[
            &format!(
                "{path}.limits[hugepages-x]: Invalid value: \"1\": 1 is not positive integer multiple of hugepages-x"
            ),
            &format!(
                "{path}.requests[hugepages-x]: Invalid value: \"1\": 1 is not positive integer multiple of hugepages-x"
            ),
        ],
    );
    check_spec(
        json!({"overhead": {"cpu": "-100m", "gpu": "1"}}),
        &[
            "spec.overhead.limits[cpu]: Invalid value: \"-100m\": must be greater than or equal to 0",
            "spec.overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            "spec.overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
        ],
    );
}

#[test]
fn pod_level_resources() {
    check_spec(
        json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "ephemeral-storage": "1Gi", "gpu": "1"}},
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}]}),
        &[
            "spec.resources.limits[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \
             \"cpu\", \"hugepages-\", \"memory\"",
            "spec.resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container \
             requests of 3",
            "spec.resources.containers[0][cpu].limits: Invalid value: \"3\": must be less than or equal to pod limits \
             of 2",
        ],
    );
}

fn with_node_term(term: Value) -> Value {
    let selector = json!({"nodeSelectorTerms": [term]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}})
}

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

fn with_pod_term(term: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

const POD_TERM: &str = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";

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
    let affinity = serde_json::to_value(pod.spec.affinity).expect("JSON");
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
            "spec.tolerations[2].operator: Unsupported value: \"Gt\": supported values: \"Equal\", \"Exists\"",
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
    let rules = pod.spec.affinity.and_then(|a| a.pod_affinity).expect("pod affinity");
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
    let affinity = serde_json::to_value(pod.spec.affinity).expect("JSON");
    assert_eq!(affinity, json!({"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}));
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
