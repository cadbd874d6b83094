//! Findings about topology spread constraints on given nodes.

use crate::findings::workload;
use crate::report;

/// A node of a zone.
fn node(name: &str, zone: &str, spec: &str, cpu: &str) -> String {
    let zone = if zone.is_empty() { String::new() } else { format!(", topology.kubernetes.io/zone: {zone}") };
    format!(
        "---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}{zone}}}}}, spec: {{{spec}}}, status: {{
  allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 10}}}}}}
"
    )
}

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const TAINT: &str = "taints: [{key: gpu, effect: NoSchedule}]";

fn constraint(key: &str, more: &str) -> String {
    format!(
        "{{topologyKey: {key}, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: web}}}}{more}}}"
    )
}

fn spread(constraints: &[String], more: &str) -> String {
    format!("topologySpreadConstraints: [{}], {more}", constraints.join(", "))
}

/// What is found about a Deployment with six replicas, in the zones a (two nodes), b and c (one node each).
fn found(spec: &str, c: (&str, &str), more: &str) -> Vec<String> {
    let nodes = node("a1", "a", "", "4")
        + &node("a2", "a", "", "4")
        + &node("b1", "b", "", "4")
        + &node("c1", "c", c.0, c.1);
    let text = workload("Deployment", "web", "replicas: 6,", spec) + &nodes + more;
    let report = report(&text, &["replicas-exceed-domains"]);
    assert!(report.invalid.is_empty() && report.incomplete.is_empty(), "{report:?}");
    report.findings.into_iter().map(|f| format!("{} {}: {}", f.severity, f.path, f.message)).collect()
}

#[test]
fn a_domain_that_counts_and_takes_no_pod_capped_the_replicas_without_a_word() {
    let zones = spread(&[constraint(ZONE, "")], "");
    let requests = "resources: {requests: {cpu: 1}}";
    let large = |spec: &str| format!("{spec} initContainers: [{{name: i, image: i, {requests}}}],");
    let running = "---
{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {app: web}}, spec: {nodeName: c1, containers: [{name: c, image: c}]}}
";
    for (spec, c, more, n_fit, why) in [
        (zones.clone(), (TAINT, "4"), "", 2, "and its nodes have taints that the pods do not tolerate"),
        (zones.clone(), ("unschedulable: true", "4"), "", 2, "and its nodes are cordoned"),
        (large(&zones), ("", "500m"), "", 2, "and its nodes have no room for a pod"),
        (large(&zones), ("", "1500m"), "", 5, "and its nodes have room for 1 pod only"),
        (
            spread(&[constraint(ZONE, ", nodeAffinityPolicy: Ignore")], &not_in("c1")),
            ("", "4"),
            "",
            2,
            "and the node affinity excludes its nodes",
        ),
        (
            spread(&[constraint(HOST, "")], ""),
            (TAINT, "4"),
            "",
            3,
            "have taints that the pods do not tolerate",
        ),
        // A pod of another workload that the constraint counts raises the minimum.
        (zones.clone(), (TAINT, "4"), running, 4, "more than its 1 pod: 2 cannot be placed"),
        // The domain does not count.
        (spread(&[constraint(ZONE, ", nodeTaintsPolicy: Honor")], ""), (TAINT, "4"), "", 6, ""),
        (
            spread(&[constraint(ZONE, ", nodeTaintsPolicy: Honor")], ""),
            ("unschedulable: true", "4"),
            "",
            6,
            "",
        ),
        (spread(&[constraint(ZONE, "")], &not_in("c1")), ("", "4"), "", 6, ""),
        (spread(&[constraint(ZONE, "")], "tolerations: [{operator: Exists}],"), (TAINT, "4"), "", 6, ""),
        (zones.replace("DoNotSchedule", "ScheduleAnyway"), (TAINT, "4"), "", 6, ""),
        (zones.replace("maxSkew: 1", "maxSkew: 6"), (TAINT, "4"), "", 6, ""),
        (zones.replace("{app: web}", "{app: db}"), (TAINT, "4"), "", 6, ""),
        // Nodes without the key do not count, and take no pod.
        (zones.clone(), ("", "4"), &node("d1", "", TAINT, "4"), 6, ""),
        // The zone with one node takes one pod for each name of a node.
        (spread(&[constraint(ZONE, ""), constraint(HOST, "")], ""), ("", "4"), "", 6, ""),
        (
            spread(&[constraint(ZONE, "")], &apart(HOST)),
            ("", "4"),
            &(5..9).map(|i| node(&format!("a{i}"), "a", "", "4")).collect::<String>(),
            4,
            "topology.kubernetes.io/zone b, c counts",
        ),
    ] {
        let found = found(&spec, c, more);
        if n_fit == 6 {
            assert!(found.is_empty(), "{spec} {c:?} {found:?}");
            continue;
        }
        let [finding] = &found[..] else { panic!("{spec} {c:?} {found:?}") };
        let severity = if why.contains("cordoned") { "warning" } else { "error" };
        let start = format!(
            "{severity} spec.template.spec.topologySpreadConstraints[0]: 6 replicas, and {n_fit} fit: "
        );
        assert!(finding.starts_with(&start) && finding.contains(why), "{finding}");
    }
}

/// Node affinity that excludes a node.
fn not_in(node: &str) -> String {
    format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [
  {{matchExpressions: [{{key: kubernetes.io/hostname, operator: NotIn, values: [{node}]}}]}}]}}}}}},"
    )
}

fn apart(key: &str) -> String {
    crate::findings::affinity(&[crate::findings::term("podAntiAffinity", "web", key)])
}

#[test]
fn a_constraint_that_counts_pods_of_other_workloads_was_not_reported() {
    let web = |policy: &str, selector: &str| {
        let constraint = format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: {policy}, labelSelector: {selector}}}],"
        );
        workload("StatefulSet", "web", "", &constraint)
            .replace("labels: {app: web}", "labels: {app: web, role: db}")
    };
    let job = "{template: {metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: c, image: c}]}}}";
    let pod = |more: &str, spec: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: single, labels: {{app: web}}{more}}}, spec: {{{spec}containers: [{{name: c, image: c}}]}}}}\n"
        )
    };
    let (all, hard) = ("{matchLabels: {app: web}}", "DoNotSchedule");
    for (policy, selector, others, expected) in [
        (
            hard,
            all,
            format!("---\n{{apiVersion: batch/v1, kind: Job, metadata: {{name: join}}, spec: {job}}}\n"),
            "warning Job join",
        ),
        (
            hard,
            all,
            format!(
                "---\n{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: nightly}}, spec: {{schedule: '@daily', jobTemplate: {{spec: {job}}}}}}}\n"
            ),
            "warning CronJob nightly",
        ),
        (
            hard,
            all,
            workload("DaemonSet", "agent", "", "").replace("app: agent", "app: web"),
            "warning DaemonSet agent",
        ),
        (hard, all, pod("", ""), "warning Pod single"),
        (
            hard,
            all,
            pod(
                ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: old-5f, controller: true}]",
                "nodeName: a1, ",
            ),
            "warning ReplicaSet old-5f",
        ),
        ("ScheduleAnyway", all, pod("", ""), "info Pod single"),
        (hard, all, web(hard, all).replace("name: web", "name: twin"), "info StatefulSet twin"),
        (hard, "{matchLabels: {app: web, role: db}}", pod("", ""), ""),
        (hard, all, pod(", namespace: other", ""), ""),
        (
            hard,
            all,
            pod(
                ", ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true}]",
                "nodeName: a1, ",
            ),
            "",
        ),
    ] {
        let report = report(&(web(policy, selector) + &others), &["selector/counts-others"]);
        let of_web: Vec<_> = report.findings.iter().filter(|finding| finding.name == "web").collect();
        match (of_web.as_slice(), expected.split_once(' ')) {
            ([], None) => {}
            ([finding], Some((severity, name))) => {
                assert_eq!(finding.severity.to_string(), severity, "{others}");
                assert!(
                    finding.message.starts_with(&format!("the constraint also counts pods of {name}: ")),
                    "{finding:?}"
                );
            }
            _ => panic!("{others}: {report:?}"),
        }
    }
}

#[test]
fn a_constraint_that_counts_no_pod_was_said_to_have_no_effect_or_to_count_all() {
    for (policy, selector, rule, effect) in [
        (
            "DoNotSchedule",
            "",
            "selector/null",
            "it only requires the label zone of nodes, and spreads nothing",
        ),
        ("ScheduleAnyway", "", "selector/null", "it only prefers nodes with the label zone"),
        (
            "DoNotSchedule",
            ", labelSelector: {}",
            "selector/empty",
            "counts no pod: it only requires the label zone of nodes",
        ),
        (
            "ScheduleAnyway",
            ", labelSelector: {}",
            "selector/empty",
            "counts no pod: it only prefers nodes with the label zone",
        ),
    ] {
        let constraint = format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: {policy}{selector}}}],"
        );
        let report = report(&workload("Deployment", "web", "", &constraint), &["selector"]);
        let [finding] = &report.findings[..] else { panic!("{report:?}") };
        assert!(finding.rule == rule && finding.message.contains(effect), "{finding:?}");
    }
    // Without pods that count, too few domains cap nothing.
    let constraint =
        spread(&[constraint(ZONE, ", minDomains: 3")], "").replace("{matchLabels: {app: web}}", "{}");
    assert_eq!(found(&constraint, (TAINT, "4"), ""), [""; 0]);
}
