//! What holds of the findings of all rules.

use berth_api::inventory::Inventory;
use berth_engine::Settings;
use berth_lint::{LintInput, RULES, Selection, Severity, UnknownRule, lint_within};

use crate::report;

/// A Deployment whose anti-affinity selects nothing.
fn deployment(annotations: &str, template_annotations: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, annotations: {{{annotations}}}}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{{template_annotations}}}}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {{topologyKey: kubernetes.io/zone, labelSelector: {{matchLabels: {{ap: web}}}}}}
      containers: [{{name: c, image: c}}]
"
    )
}

fn rules(text: &str) -> Vec<&'static str> {
    report(text, &["*"]).findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_finding_names_the_object_and_the_field() {
    let report = report(&deployment("", ""), &["selector-matches-nothing"]);
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    let path = "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector";
    assert_eq!((finding.kind.as_str(), finding.namespace.as_str()), ("Deployment", "default"));
    assert_eq!((finding.name.as_str(), finding.path.as_str()), ("web", path));
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.fix.contains("app=web"), "{}", finding.fix);
}

#[test]
fn annotations_exempt_objects_from_rules() {
    let both = ["selector-matches-nothing", "unknown-topology-key"];
    assert_eq!(rules(&deployment("", "")), both);
    let ignore = |rules: &str| format!("lint.berth.dev/ignore: '{rules}'");
    assert_eq!(rules(&deployment(&ignore("unknown-topology-key"), "")), both[..1]);
    assert_eq!(rules(&deployment("", &ignore("never-first, selector-matches-nothing"))), both[1..]);
    assert_eq!(rules(&deployment("", &ignore("*"))), [""; 0]);
}

#[test]
fn rules_are_selected_by_name() {
    let mut selection = Selection::default();
    assert_eq!(selection.disable(&["no-such-rule".to_owned()]), Err(UnknownRule("no-such-rule".to_owned())));
    for info in RULES {
        assert_eq!(selection.enable(&[info.name.to_owned()]), Ok(()));
    }
}

#[test]
fn an_object_that_the_api_server_rejects_is_invalid_unless_a_finding_says_why() {
    let pod = |expression: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: c}}], affinity: {{
  nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [
    {expression}]}}]}}}}}}}}}}"
        )
    };
    let stated = report(&pod("{key: a, operator: Gt, values: [x]}"), &["*"]);
    assert_eq!((stated.findings.len(), stated.invalid.len()), (1, 0), "{stated:?}");
    let rejected = report(&pod("{key: a, operator: Exists, values: [x]}"), &["*"]);
    assert_eq!((rejected.findings.len(), rejected.invalid.len()), (0, 1), "{rejected:?}");
    assert_eq!(rejected.invalid[0].object, "Pod default/p");
}

#[test]
fn pods_of_an_owner_that_is_not_in_the_input_are_reported_once() {
    let pod = |name: &str| {
        format!(
            "---
{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: web}}, ownerReferences: [{{
  apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u, controller: true}}]}}, spec: {{nodeName: node-1,
  containers: [{{name: c, image: c}}], nodeSelector: {{beta.kubernetes.io/os: linux}}}}}}
"
        )
    };
    let text: String = ["web-0", "web-1"].map(pod).concat();
    assert_eq!(rules(&text), ["deprecated-topology-key"]);
}

/// A workload with pods labelled `app: NAME`; `spec` is the beginning of its pod spec in flow style.
fn workload(kind: &str, name: &str, fields: &str, spec: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec: {{{fields} selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {{
  {spec} containers: [{{name: c, image: c, ports: [{{containerPort: 80}}]}}]}}}}}}
"
    )
}

/// A required term that selects `app: NAME`.
fn term(rules: &str, name: &str, topology: &str) -> String {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    format!(
        "{rules}: {{{required}: [{{topologyKey: {topology}, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}"
    )
}

fn affinity(terms: &[String]) -> String {
    format!("affinity: {{{}}},", terms.join(", "))
}

fn nodes(names: &[&str]) -> String {
    let node = |name: &&str| {
        format!(
            "---
{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}, status: {{
  allocatable: {{cpu: 4, memory: 8Gi, pods: 10}}}}}}
"
        )
    };
    names.iter().map(node).collect()
}

const HOST: &str = "kubernetes.io/hostname";

#[test]
fn severities_depend_on_what_the_input_shows() {
    let apart = affinity(&[term("podAntiAffinity", "web", HOST)]);
    let near = affinity(&[term("podAffinity", "cache", HOST)]);
    let web = |spec: &str| workload("Deployment", "web", "replicas: 2,", spec);
    let running = "---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}}, spec: {nodeName: a, containers: [{name: c, image: c}]}}
";
    for (text, rule, severity) in [
        (web(&apart), "rollout-deadlock", Severity::Info),
        (web(&apart) + &nodes(&["a", "b"]), "rollout-deadlock", Severity::Error),
        (web(&near), "never-first", Severity::Info),
        (web(&near) + &nodes(&["a"]) + running, "never-first", Severity::Error),
        (web(&near), "selector-matches-nothing", Severity::Info),
        (web(&near) + &nodes(&["a"]) + running, "selector-matches-nothing", Severity::Warning),
        (web("nodeSelector: {a: b},") + &nodes(&["a"]), "selector-matches-nothing", Severity::Warning),
        (
            workload("DaemonSet", "web", "", "nodeSelector: {a: b},") + &nodes(&["a"]),
            "selector-matches-nothing",
            Severity::Info,
        ),
    ] {
        let report = report(&text, &[rule]);
        let found: Vec<_> = report.findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(found, [severity], "{rule}: {report:?}");
    }
}

#[test]
fn affinity_to_itself_whose_namespaces_leave_out_the_own_one_is_never_first() {
    let near = |namespaces: &str| {
        let own =
            term("podAffinity", "web", HOST).replace("topologyKey", &format!("{namespaces}topologyKey"));
        let text = workload("Deployment", "web", "", &affinity(&[own]));
        let report = report(&text, &["never-first"]);
        report.findings.iter().map(|finding| (finding.severity, finding.message.clone())).collect::<Vec<_>>()
    };
    assert_eq!(near(""), []);
    assert_eq!(near("namespaces: [other, default], "), []);
    let [(severity, message)] = &near("namespaces: [other], ")[..] else { panic!() };
    assert_eq!(*severity, Severity::Warning);
    assert!(message.contains("its namespace default is not among those of the term, other"), "{message}");
}

#[test]
fn the_fix_of_a_deadlock_is_the_smallest_that_lets_a_pod_in() {
    let spread =
        "topologySpreadConstraints: [{maxSkew: 2, minDomains: 3, topologyKey: kubernetes.io/hostname,
  whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}],";
    let strategy = "replicas: 4, strategy: {rollingUpdate: {maxUnavailable: 0}},";
    let text = workload("Deployment", "web", strategy, spread) + &nodes(&["a", "b"]);
    let report = report(&text, &["rollout-deadlock"]);
    assert!(
        report.findings[0].fix.starts_with("set spec.strategy.rollingUpdate.maxUnavailable to 1,"),
        "{report:?}"
    );
}

#[test]
fn anti_affinity_and_a_spread_constraint_block_an_update_together() {
    // Zone a has one node, so that a third pod of zone b would be one too many.
    let node = |name: &str, zone: &str| {
        let labels = format!("kubernetes.io/hostname: {name}, zone: {zone}");
        nodes(&[name]).replace(&format!("kubernetes.io/hostname: {name}"), &labels)
    };
    let spread =
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule,
  labelSelector: {matchLabels: {app: web}}}],";
    let both = format!("{spread} {}", affinity(&[term("podAntiAffinity", "web", HOST)]));
    let web = |spec: &str| {
        let nodes = [("a1", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b")].map(|(name, zone)| node(name, zone));
        let text = workload("Deployment", "web", "replicas: 3,", spec) + &nodes.concat();
        report(&text, &["rollout-deadlock"]).findings.len()
    };
    assert_eq!((web(&both), web(spread)), (1, 0));
}

#[test]
fn a_daemon_set_cannot_surge_with_host_ports() {
    let surge = "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},";
    let daemon = |fields: &str, spec: &str| rules(&workload("DaemonSet", "agent", fields, spec));
    assert_eq!(daemon(surge, "hostNetwork: true,"), ["rollout-deadlock"]);
    assert_eq!(daemon(surge, ""), [""; 0]);
    assert_eq!(daemon("", "hostNetwork: true,"), [""; 0]);
}

#[test]
fn cycles_of_three_are_found_and_what_waits_for_them_is_not_part_of_them() {
    let waits = |name: &str, partner: &str| {
        workload("StatefulSet", name, "", &affinity(&[term("podAffinity", partner, HOST)]))
    };
    let cycle = [waits("a", "b"), waits("b", "c"), waits("c", "a"), waits("d", "a")].concat();
    let report = report(&cycle, &["affinity-cycle"]);
    let names: Vec<_> = report.findings.iter().map(|finding| finding.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(
        report.findings[0]
            .message
            .starts_with("StatefulSet a -> StatefulSet b -> StatefulSet c -> StatefulSet a:")
    );
}

#[test]
fn static_volumes_of_a_class_are_alternatives() {
    let volume = |host: &str| {
        format!(
            "---
{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: pv-{host}}}, spec: {{storageClassName: local, capacity: {{storage: 1Gi}},
  accessModes: [ReadWriteOnce], nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [
  {{key: kubernetes.io/hostname, operator: In, values: [{host}]}}]}}]}}}}}}}}
"
        )
    };
    let objects = "---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: kubernetes.io/no-provisioner}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: local,
  accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
";
    let on = |host: &str| {
        let spec = format!(
            "nodeSelector: {{kubernetes.io/hostname: {host}}}, volumes: [{{name: d, persistentVolumeClaim: {{claimName: data}}}}],"
        );
        rules(
            &[workload("Deployment", "db", "", &spec), volume("a"), volume("b"), objects.to_owned()].concat(),
        )
    };
    assert_eq!(on("b"), [""; 0]);
    assert_eq!(on("c"), ["volume-outside-affinity"]);
}

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
        let report = lint_within(&input, &Selection::default(), steps);
        let n = report.findings.iter().filter(|f| f.rule == rule && f.name == name).count();
        (n, report.incomplete)
    };
    let rule = "affinity-conflicts-with-anti-affinity";
    assert_eq!(count(1 << 20, rule, "large"), (50, vec![]));
    let (n, incomplete) = count(1000, rule, "large");
    let expected = format!("{rule} was not applied from Pod default/large on: more than 1000 steps of work");
    assert!(n < 50 && incomplete.contains(&expected), "{n}: {incomplete:?}");
    // A rule that was cut does not take what it could not look for as missing.
    let (n, incomplete) = count(10, "selector-matches-nothing", "large");
    assert!(
        n == 0 && incomplete.iter().any(|text| text.starts_with("selector-matches-nothing")),
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
