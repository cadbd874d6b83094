//! How much work the rules may be.

use berth_engine::Settings;
use berth_input::inventory::Inventory;
use berth_lint::{LintInput, Selection, lint_within};

use crate::report;

#[test]
fn a_rule_that_is_too_much_work_says_from_where_it_was_not_applied_and_finds_nothing_wrong_there() {
    let term = |i: usize| format!("{{topologyKey: zone, labelSelector: {{matchLabels: {{a{i}: b}}}}}}");
    let terms = (0..50).map(term).collect::<Vec<_>>().join(", ");
    let pod = |name: &str, affinity: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: x}}}}, spec: {{containers: [{{name: c, image: c}}],
               affinity: {affinity}}}}}"
        )
    };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let both =
        format!("{{podAffinity: {{{required}: [{terms}]}}, podAntiAffinity: {{{required}: [{terms}]}}}}");
    let text =
        [pod("small", &format!("{{podAffinity: {{{required}: [{}]}}}}", term(0))), pod("large", &both)];
    let inventory = Inventory::from_text(&text.join("\n---\n")).unwrap();
    let settings = Settings::default();
    let input = LintInput::new(&inventory, &settings, |_| true, None);
    let count = |steps: u64, rule: &str, name: &str| {
        let report = lint_within(&input, &Selection::default(), steps, u64::MAX);
        let n = report.findings.iter().filter(|f| f.rule == rule && f.name == name).count();
        (n, report.incomplete)
    };
    let rule = "affinity-conflicts-with-anti-affinity";
    assert_eq!(count(1 << 20, rule, "large"), (50, vec![]));
    let (n, incomplete) = count(1000, rule, "large");
    let expected = format!("{rule} was not applied from Pod default/large on: more than 1000 steps of work");
    assert!(n < 50 && incomplete.contains(&expected), "{n}: {incomplete:?}");
    // A rule that was cut does not take what it could not look for as missing.
    let (n, incomplete) = count(10, "selector/matches-nothing", "large");
    assert!(
        n == 0 && incomplete.iter().any(|text| text.starts_with("selector was not applied")),
        "{n}: {incomplete:?}"
    );
}

#[test]
fn a_rollout_of_billions_of_pods_is_not_simulated() {
    let anti = "{podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname,
        labelSelector: {matchLabels: {app: web}}}]}}";
    let text = format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{kubernetes.io/hostname: a}}}}}}
---
{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 2000000000, selector: {{matchLabels: {{app: web}}}},
  strategy: {{rollingUpdate: {{maxUnavailable: 0, maxSurge: 1}}}}, template: {{metadata: {{labels: {{app: web}}}},
  spec: {{affinity: {anti}, containers: [{{name: c, image: c}}]}}}}}}}}"
    );
    let report = report(&text, &["rollout-deadlock"]);
    let [incomplete] = report.incomplete.as_slice() else { panic!("{report:?}") };
    assert!(
        incomplete.starts_with("rollout-deadlock was not applied from Deployment default/web on"),
        "{incomplete}"
    );
}

fn manifest(terms: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: a}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{app: x}}}}, spec: {{containers: [{{name: c, image: c}}], affinity: {terms}}}}}"
    )
}

/// The findings of a rule with these steps for it and for all rules, and what was not applied.
fn within(text: &str, rule: &str, rule_steps: u64, all_steps: u64) -> (usize, Vec<String>) {
    let inventory = Inventory::from_text(text).unwrap();
    let settings = Settings::default();
    let input = LintInput::new(&inventory, &settings, |_| true, None);
    let report = lint_within(&input, &Selection::default(), rule_steps, all_steps);
    (report.findings.iter().filter(|finding| finding.rule == rule).count(), report.incomplete)
}

#[test]
fn terms_that_one_pod_could_match_are_not_compared_each_with_each() {
    let term = |i: usize| format!("{{topologyKey: zone, labelSelector: {{matchLabels: {{a{i}: b}}}}}}");
    let terms = |n: usize| {
        let terms = (0..n).map(term).collect::<Vec<_>>().join(", ");
        manifest(&format!("{{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{terms}]}}}}"))
    };
    // Pairs of terms would be two million.
    let (n, incomplete) = within(&terms(2000), "never-first", 100_000, u64::MAX);
    assert_eq!((n, incomplete.iter().any(|text| text.starts_with("never-first"))), (1, false));
    // Two that exclude each other are found as before.
    let excluded = terms(1).replace("}}]", "}}, {topologyKey: zone, labelSelector: {matchLabels: {a0: c}}}]");
    let report = report(&excluded, &["never-first"]);
    assert!(report.findings[0].message.contains("no pod can match both a0=b and a0=c"), "{report:?}");
}

#[test]
fn values_of_terms_that_are_compared_count_as_work() {
    let values = |of: &str| (0..500).map(|i| format!("{of}{i}")).collect::<Vec<_>>().join(", ");
    let expression =
        |of: &str| format!("matchExpressions: [{{key: k, operator: In, values: [{}]}}]", values(of));
    let terms = |of: &str, n: usize, around: &dyn Fn(String) -> String| {
        (0..n).map(|i| around(expression(&format!("{of}{i}-")))).collect::<Vec<_>>().join(", ")
    };
    let required = terms("r", 20, &|expression| format!("{{{expression}}}"));
    let preferred = terms("p", 20, &|expression| format!("{{weight: 1, preference: {{{expression}}}}}"));
    let text = manifest(&format!(
        "{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{required}]}},
            preferredDuringSchedulingIgnoredDuringExecution: [{preferred}]}}}}"
    ));
    let rule = "preference-without-effect";
    assert_eq!(within(&text, rule, 10_000_000, u64::MAX), (20, vec![]));
    let (n, incomplete) = within(&text, rule, 100_000, u64::MAX);
    assert!(n < 20 && incomplete.iter().any(|text| text.starts_with(rule)), "{n}: {incomplete:?}");
}

#[test]
fn selectors_of_devices_count_as_work_and_all_rules_share_a_budget() {
    let list = (1..=20).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let costly = format!("[{list}].exists(x, [{list}].exists(y, [{list}].exists(z, x + y + z < 0)))");
    let devices: Vec<_> =
        (0..20).map(|i| format!("{{name: d{i}, attributes: {{serial: {{string: s{i}}}}}}}")).collect();
    let text = format!(
        "{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: gpu}}}}
---
{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: a}}, spec: {{driver: gpu.example.com, nodeName: a,
  pool: {{name: a, generation: 1, resourceSliceCount: 1}}, devices: [{}]}}}}
---
{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c}}, spec: {{devices: {{requests: [{{name: r, exactly: {{
  deviceClassName: gpu, selectors: [{{cel: {{expression: '{costly}'}}}}]}}}}]}}}}}}",
        devices.join(", ")
    );
    let rule = "device/selector-matches-nothing";
    assert_eq!(within(&text, rule, u64::MAX, u64::MAX), (1, vec![]));
    let (n, incomplete) = within(&text, rule, 100_000, u64::MAX);
    assert!(n == 0 && incomplete.iter().any(|text| text.starts_with("device")), "{n}: {incomplete:?}");
    // What this rule takes of the budget, those after it do not have.
    let after = |all| within(&text, rule, 100_000, all).1.len();
    assert!(after(100_000) > after(u64::MAX), "{} {}", after(100_000), after(u64::MAX));
}

#[test]
fn rules_of_pods_that_are_placed_and_constraints_that_are_compared_count_as_work() {
    let node = |name: &str, more: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}, {more}
               status: {{allocatable: {{cpu: '8', pods: '110'}}}}}}"
        )
    };
    let deployment = |name: &str, rules: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}}}, spec: {{replicas: 3, selector: {{matchLabels: {{app: web}}}},
               strategy: {{rollingUpdate: {{maxUnavailable: 0, maxSurge: 1}}}}, template: {{metadata: {{labels: {{app: web}}}},
               spec: {{containers: [{{name: c, image: c}}], {rules}}}}}}}}}"
        )
    };
    let constraint = |i: usize| {
        format!(
            "{{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule,
               labelSelector: {{matchExpressions: [{{key: k{i}, operator: DoesNotExist}}]}}}}"
        )
    };
    let constraints = (0..100).map(constraint).collect::<Vec<_>>().join(", ");
    let constraints = format!("topologySpreadConstraints: [{constraints}]");
    let anti = |i: usize| {
        format!(
            "{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: web, k{i}: x}}}}}}"
        )
    };
    let anti = (0..100).map(anti).collect::<Vec<_>>().join(", ");
    let own = "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}";
    let anti = format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{own}, {anti}]}}}}"
    );
    let cordoned = "spec: {unschedulable: true},";
    for (rule, finding, nodes, rules) in [
        // One constraint alone does not stop the pods: each is left out in turn, and then all.
        (
            "replicas-exceed-domains",
            "replicas-exceed-domains",
            vec![node("a", ""), node("b", cordoned)],
            &constraints,
        ),
        ("rollout-deadlock", "rollout-deadlock", vec![node("a", ""), node("b", ""), node("c", "")], &anti),
        ("selector", "selector/counts-others", vec![node("a", "")], &constraints),
    ] {
        let deployments = if rule == "selector" { vec!["a", "b"] } else { vec!["a"] };
        let deployments = deployments.into_iter().map(|name| deployment(name, rules));
        let text = nodes.into_iter().chain(deployments).collect::<Vec<_>>().join("\n---\n");
        let (n, incomplete) = within(&text, finding, u64::MAX, u64::MAX);
        assert!(n > 0 && incomplete.is_empty(), "{rule}: {n} {incomplete:?}");
        let (_, incomplete) = within(&text, finding, 5000, u64::MAX);
        assert!(incomplete.iter().any(|text| text.starts_with(rule)), "{rule}: {incomplete:?}");
    }
}

#[test]
fn the_labels_of_namespaces_that_selectors_are_compared_with_count_as_work() {
    let term = |kind: &str| {
        format!(
            "{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: zone, labelSelector: {{matchLabels: {{a: b}}}},
               namespaceSelector: {{matchLabels: {{team: {kind}}}}}}}]}}"
        )
    };
    let pod = manifest(&format!("{{{}, {}}}", term("podAffinity"), term("podAntiAffinity")));
    let namespace = |i: usize| format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: n{i}}}}}");
    let with_namespaces =
        |n: usize| (0..n).map(namespace).chain([pod.clone()]).collect::<Vec<_>>().join("\n---\n");
    let rule = "affinity-conflicts-with-anti-affinity";
    let is_cut = |n: usize| {
        within(&with_namespaces(n), rule, 1000, u64::MAX).1.iter().any(|text| text.starts_with(rule))
    };
    assert_eq!([is_cut(1), is_cut(500)], [false, true]);
}

#[test]
fn requirements_that_are_copied_for_each_comparison_count_as_work() {
    let requirements: Vec<_> =
        (0..100).map(|i| format!("{{key: k, operator: Gt, values: ['{i}']}}")).collect();
    let term =
        format!("{{topologyKey: zone, labelSelector: {{matchExpressions: [{}]}}}}", requirements.join(", "));
    let text =
        manifest(&format!("{{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"));
    let rule = "label-not-an-integer";
    let is_cut =
        |steps: u64| within(&text, rule, steps, u64::MAX).1.iter().any(|text| text.starts_with(rule));
    assert_eq!([is_cut(100_000), is_cut(10_000)], [false, true]);
}
