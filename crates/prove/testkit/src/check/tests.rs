//! Each kind of violation is planted once, beside the same placement done right.

use berth_api::object::{Namespace, Node, Pod};
use berth_input::inventory::Inventory;

use super::*;

const NODES: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {host: a, zone: z1}},
 status: {allocatable: {cpu: "1", memory: 1Gi, pods: "2"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {host: b, zone: z1, disk: ssd}},
 status: {allocatable: {cpu: "1", memory: 1Gi, pods: "2"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c, labels: {host: c, zone: z2}},
 spec: {taints: [{key: gpu, effect: NoSchedule}]},
 status: {allocatable: {cpu: "1", memory: 1Gi, pods: "2"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: d, labels: {host: d}}, spec: {unschedulable: true},
 status: {allocatable: {cpu: "1", memory: 1Gi, pods: "2"}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: default}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: far, labels: {far: "yes"}}}
"#;

/// Places pods of templates, written as `spec` after a name, and tells the rules broken.
fn broken(templates: &[&str], placed: &[(u32, u32)]) -> Vec<Rule> {
    let mut text = NODES.to_owned();
    for (i, template) in templates.iter().enumerate() {
        text.push_str(&format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, labels: {{app: p{i}}}}}, spec: {{{template}}}}}\n"
        ));
    }
    let inventory = Inventory::from_text(&text).unwrap();
    let nodes: Vec<Node> = inventory.nodes.into_iter().map(|e| e.object).collect();
    let namespaces: Vec<Namespace> = inventory.namespaces.into_iter().map(|e| e.object).collect();
    let templates: Vec<Pod> = inventory.pods.into_iter().map(|e| e.object).collect();
    let placed: Vec<_> =
        placed.iter().map(|(template, node)| Placed { template: *template, node: *node }).collect();
    let findings = check(nodes.into_iter(), &namespaces, &templates, &placed);
    assert_eq!(findings.pods, placed.len());
    assert_eq!(findings.n_violations, findings.violations.len());
    findings.violations.into_iter().map(|v| v.rule).collect()
}

const NONE: [Rule; 0] = [];

#[test]
fn resources_and_the_number_of_pods() {
    let half = "containers: [{resources: {requests: {cpu: 500m}}}, {resources: {limits: {memory: 100Mi}}}]";
    let more = "containers: [{resources: {requests: {cpu: 501m}}}]";
    let nothing = "containers: [{}]";
    assert_eq!(broken(&[half, more], &[(0, 0), (0, 0), (1, 1)]), NONE);
    assert_eq!(broken(&[half, more], &[(0, 0), (1, 0)]), [Rule::Resources]);
    assert_eq!(broken(&[nothing], &[(0, 0), (0, 0), (0, 0)]), [Rule::PodCount]);
}

#[test]
fn ports() {
    let everywhere = "containers: [{ports: [{containerPort: 80, hostPort: 80}]}]";
    let local = "containers: [{ports: [{hostPort: 80, hostIP: 127.0.0.1, protocol: TCP}]}]";
    let other = "containers: [{ports: [{hostPort: 80, protocol: UDP}, {containerPort: 80}]}]";
    assert_eq!(broken(&[everywhere, other], &[(0, 0), (1, 0)]), NONE);
    assert_eq!(broken(&[everywhere, local], &[(0, 0), (1, 0)]), [Rule::Ports]);
}

#[test]
fn nodes_and_taints() {
    let ssd = "nodeSelector: {disk: ssd}";
    let in_z1 =
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: zone, operator: In, values: [z1]}]},
        {matchFields: [{key: metadata.name, operator: In, values: [nowhere]}]}]}}}";
    let tolerates = "tolerations: [{key: gpu, operator: Exists}]";
    let cordon = "tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]";
    assert_eq!(broken(&[ssd, in_z1, tolerates, cordon], &[(0, 1), (1, 0), (2, 2), (3, 3)]), NONE);
    assert_eq!(broken(&[ssd], &[(0, 0)]), [Rule::NodeAffinity]);
    assert_eq!(broken(&[in_z1], &[(0, 3)]), [Rule::NodeAffinity, Rule::Unschedulable]);
    assert_eq!(broken(&["containers: []"], &[(0, 2)]), [Rule::Taint]);
    assert_eq!(broken(&["containers: []"], &[(0, 4)]), [Rule::UnknownNode]);
}

#[test]
fn anti_affinity_whoever_came_first() {
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {labelSelector: {matchLabels: {app: p1}}, topologyKey: zone}]}}";
    let itself = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {labelSelector: {matchLabels: {app: p0}}, topologyKey: host}]}}";
    let elsewhere = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {labelSelector: {}, namespaceSelector: {matchLabels: {far: 'yes'}}, topologyKey: zone}]}}";
    let plain = "tolerations: [{operator: Exists}]";
    assert_eq!(broken(&[apart, plain], &[(0, 0), (1, 2), (0, 1)]), NONE);
    assert_eq!(broken(&[apart, plain], &[(0, 0), (1, 1)]), [Rule::PodAntiAffinity]);
    assert_eq!(broken(&[apart, plain], &[(1, 1), (0, 0)]), [Rule::PodAntiAffinity]);
    assert_eq!(broken(&[itself], &[(0, 0), (0, 1)]), NONE);
    assert_eq!(broken(&[itself], &[(0, 0), (0, 0)]), [Rule::PodAntiAffinity, Rule::PodAntiAffinity]);
    assert_eq!(broken(&[elsewhere, plain], &[(0, 0), (1, 0)]), NONE);
}

#[test]
fn affinity_as_of_the_placement() {
    let near = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {labelSelector: {matchLabels: {app: p1}}, topologyKey: zone}]}}";
    let itself = "tolerations: [{operator: Exists}], affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
        {labelSelector: {matchLabels: {app: p0}}, topologyKey: zone}]}}";
    let plain = "tolerations: [{operator: Exists}]";
    assert_eq!(broken(&[near, plain], &[(1, 0), (0, 1)]), NONE);
    assert_eq!(broken(&[near, plain], &[(0, 1), (1, 0)]), [Rule::PodAffinity]);
    assert_eq!(broken(&[near, plain], &[(1, 2), (0, 1)]), [Rule::PodAffinity]);
    assert_eq!(broken(&[itself], &[(0, 0), (0, 1)]), NONE);
    assert_eq!(broken(&[itself], &[(0, 0), (0, 2)]), [Rule::PodAffinity]);
    // The node has no zone.
    assert_eq!(broken(&[itself], &[(0, 3)]), [Rule::PodAffinity]);
}

#[test]
fn spread_as_of_the_placement() {
    let spread = |extra: &str| {
        format!(
            "tolerations: [{{key: x, operator: Exists}}], topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone,
             whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: p0}}}}{extra}}}]"
        )
    };
    let plain = "tolerations: [{operator: Exists}]";
    let tolerating = spread("").replace("key: x, ", "");
    assert_eq!(broken(&[&tolerating, plain], &[(0, 0), (0, 2), (1, 1), (0, 1)]), NONE);
    assert_eq!(broken(&[&tolerating], &[(0, 0), (0, 1), (0, 2)]), [Rule::TopologySpread]);
    // The tainted node in z2 does not count: z1 is the only domain.
    assert_eq!(broken(&[&spread(", nodeTaintsPolicy: Honor")], &[(0, 0), (0, 1)]), NONE);
    assert_eq!(broken(&[&spread("")], &[(0, 0), (0, 1)]), [Rule::TopologySpread]);
    assert_eq!(
        broken(&[&spread(", nodeTaintsPolicy: Honor, minDomains: 2")], &[(0, 0), (0, 1)]),
        [Rule::TopologySpread]
    );
}
