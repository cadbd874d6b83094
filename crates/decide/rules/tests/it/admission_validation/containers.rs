//! Metadata, containers and resources of pods.

use serde_json::{Value, json};

use super::*;

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
    let own_users =
        json!({"hostNetwork": true, "hostUsers": false, "containers": [{"name": "c", "image": "i"}]});
    check_spec(own_users, &["spec.hostNetwork: Forbidden: when `hostUsers` is false"]);
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
