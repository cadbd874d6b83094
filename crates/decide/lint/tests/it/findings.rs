//! What holds of the findings of all rules.

use berth_admission::Policy;
use berth_engine::Settings;
use berth_input::inventory::Inventory;
use berth_lint::{Finding, RULES, Selection, Severity, UnknownRule};
use serde_json::Value;

use crate::{report, report_with};

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

pub fn rules(text: &str) -> Vec<&'static str> {
    report(text, &["*"]).findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_finding_names_the_object_and_the_field() {
    let report = report(&deployment("", ""), &["selector/matches-nothing"]);
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    let path = "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector";
    assert_eq!((finding.kind.as_str(), finding.namespace.as_str()), ("Deployment", "default"));
    assert_eq!((finding.name.as_str(), finding.path.as_str()), ("web", path));
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.fix.contains("app=web"), "{}", finding.fix);
}

#[test]
fn annotations_exempt_objects_from_rules() {
    let both = ["selector/matches-nothing", "unknown-topology-key"];
    assert_eq!(rules(&deployment("", "")), both);
    let ignore = |rules: &str| format!("lint.berth.dev/ignore: '{rules}'");
    assert_eq!(rules(&deployment(&ignore("unknown-topology-key"), "")), both[..1]);
    assert_eq!(rules(&deployment("", &ignore("never-first, selector/matches-nothing"))), both[1..]);
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
fn a_finding_is_selected_by_its_name_its_former_name_and_the_name_of_its_rule() {
    let text =
        |annotation: &str| deployment(annotation, "").replace("{ap: web}}", "{}}, matchLabelKeys: [b]");
    let (absent, empty) = ("selector/match-label-key-absent", "selector/empty");
    let found = |text: &str, rule: &str| -> Vec<_> {
        report(text, &[rule]).findings.iter().map(|finding| finding.rule).collect()
    };
    for (name, expected) in
        [(empty, vec![empty]), ("empty-selector-selects-all", vec![empty]), ("selector", vec![empty, absent])]
    {
        assert_eq!(found(&text(""), name), expected, "{name}");
        let exempt = found(&text(&format!("lint.berth.dev/ignore: '{name}'")), "selector");
        let others = [empty, absent].into_iter().filter(|name| !expected.contains(name));
        assert_eq!(exempt, others.collect::<Vec<_>>(), "{name}");
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
pub fn workload(kind: &str, name: &str, fields: &str, spec: &str) -> String {
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
pub fn term(rules: &str, name: &str, topology: &str) -> String {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    format!(
        "{rules}: {{{required}: [{{topologyKey: {topology}, labelSelector: {{matchLabels: {{app: {name}}}}}}}]}}"
    )
}

pub fn affinity(terms: &[String]) -> String {
    format!("affinity: {{{}}},", terms.join(", "))
}

pub fn nodes(names: &[&str]) -> String {
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

pub const HOST: &str = "kubernetes.io/hostname";

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
        (web(&near), "selector/matches-nothing", Severity::Info),
        (web(&near) + &nodes(&["a"]) + running, "selector/matches-nothing", Severity::Warning),
        (web("nodeSelector: {a: b},") + &nodes(&["a"]), "selector/matches-nothing", Severity::Warning),
        (
            workload("DaemonSet", "web", "", "nodeSelector: {a: b},") + &nodes(&["a"]),
            "selector/matches-nothing",
            Severity::Info,
        ),
    ] {
        let report = report(&text, &[rule]);
        let found: Vec<_> = report.findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(found, [severity], "{rule}: {report:?}");
    }
}

/// A StatefulSet or Job of three pods with this affinity.
pub fn indexed(kind: &str, fields: &str, affinity: &str) -> String {
    let (version, selector) = match kind {
        "Job" => ("batch/v1", ""),
        "DaemonSet" => ("apps/v1", "selector: {matchLabels: {app: db}},"),
        _ => ("apps/v1", "selector: {matchLabels: {app: db}}, serviceName: db, replicas: 3,"),
    };
    format!(
        "---
apiVersion: {version}
kind: {kind}
metadata: {{name: db}}
spec: {{{fields} {selector} template: {{metadata: {{labels: {{app: db}}}}, spec: {{
  restartPolicy: {}, {affinity} containers: [{{name: c, image: c}}]}}}}}}
",
        if kind == "Job" { "Never" } else { "Always" }
    )
}

#[test]
fn labels_that_the_api_server_adds_to_pods_of_jobs_stateful_sets_and_daemon_sets_count_as_labels_of_the_pods()
{
    let near = |key: &str, value: &str| {
        let selector = format!("labelSelector: {{matchLabels: {{{key}: '{value}'}}}}");
        format!(
            "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
  {{topologyKey: topology.kubernetes.io/zone, {selector}}}]}}}},"
        )
    };
    let of =
        |kind: &str, fields: &str, key: &str, value: &str| rules(&indexed(kind, fields, &near(key, value)));
    for key in ["job-name", "batch.kubernetes.io/job-name"] {
        assert_eq!(of("Job", "parallelism: 3, completions: 3,", key, "db"), [""; 0], "{key}");
        assert_eq!(of("Job", "", key, "other"), ["never-first", "selector/matches-nothing"], "{key}");
    }
    // The first pod of a StatefulSet, or any if they start in parallel.
    let pod_name = "statefulset.kubernetes.io/pod-name";
    assert_eq!(of("StatefulSet", "", pod_name, "db-0"), [""; 0]);
    assert_eq!(of("StatefulSet", "", "apps.kubernetes.io/pod-index", "0"), [""; 0]);
    assert_eq!(of("StatefulSet", "", pod_name, "db-2"), ["affinity-cycle"]);
    assert_eq!(of("StatefulSet", "podManagementPolicy: Parallel,", pod_name, "db-2"), [""; 0]);
    assert_eq!(of("StatefulSet", "ordinals: {start: 2},", pod_name, "db-2"), [""; 0]);
    let index = "batch.kubernetes.io/job-completion-index";
    let indexed_job = "completionMode: Indexed, parallelism: 3, completions: 3,";
    assert_eq!(of("Job", indexed_job, index, "2"), [""; 0]);
    assert_eq!(of("Job", "", index, "2"), ["never-first", "selector/matches-nothing"]);

    let keys = |kind: &str, fields: &str, keys: &str| {
        let affinity = format!(
            "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
  {{topologyKey: kubernetes.io/hostname, labelSelector: {{matchLabels: {{app: db}}}}, matchLabelKeys: [{keys}]}}]}}}},"
        );
        rules(&(indexed(kind, fields, &affinity) + &nodes(&["a"])))
    };
    // Each of the three pods has another index, and excludes no other pod.
    assert_eq!(keys("StatefulSet", "", "apps.kubernetes.io/pod-index"), [""; 0]);
    assert_eq!(keys("StatefulSet", "", "controller-revision-hash"), ["replicas-exceed-domains"]);
    assert_eq!(keys("Job", "parallelism: 3,", "controller-uid"), ["replicas-exceed-domains"]);
    assert_eq!(keys("Job", "", index), ["selector/match-label-key-absent"]);
    assert_eq!(keys("Job", "manualSelector: true,", "controller-uid"), ["selector/match-label-key-absent"]);
    assert_eq!(keys("DaemonSet", "", "pod-template-generation, controller-revision-hash"), [""; 0]);
}

#[test]
fn nodes_without_the_topology_key_have_no_limit() {
    let apart = |more: &str| {
        let terms = [term("podAntiAffinity", "web", "zone")];
        affinity(&terms).replace("}}]}", &format!("}}}}{more}]}}"))
    };
    let in_zones = nodes(&["a", "b"]).replace("hostname: a}", "hostname: a, zone: a}");
    let in_zones = in_zones.replace("hostname: b}", "hostname: b, zone: b}");
    let messages = |replicas: i64, spec: &str, nodes: &str| {
        let text = workload("Deployment", "web", &format!("replicas: {replicas},"), spec) + nodes;
        let report = report(&text, &["replicas-exceed-domains"]);
        report.findings.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    let outside = in_zones.clone() + &nodes(&["c"]);
    assert_eq!(messages(5, &apart(""), &in_zones).len(), 1);
    // One such node takes the rest: ten pods.
    assert_eq!(messages(5, &apart(""), &outside), [""; 0]);
    assert_eq!(messages(12, &apart(""), &outside), [""; 0]);
    let message = &messages(13, &apart(""), &outside)[0];
    assert!(
        message.ends_with("each, and room for 10 on nodes without zone: 1 cannot be placed"),
        "{message}"
    );
    // Not if the pods are too large for it, or if another rule limits it.
    let large = apart("") + " resources: {requests: {cpu: 3}},";
    assert_eq!((messages(3, &large, &outside).len(), messages(4, &large, &outside).len()), (0, 1));
    let by_host = format!(", {{topologyKey: {HOST}, labelSelector: {{matchLabels: {{app: web}}}}}}");
    assert_eq!(messages(3, &apart(&by_host), &outside), [""; 0]);
    assert_eq!(messages(4, &apart(&by_host), &outside).len(), 2);
    // A spread constraint admits no node without its key.
    let spread = "topologySpreadConstraints: [{maxSkew: 1, minDomains: 3, topologyKey: zone,
  whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}],";
    assert_eq!(messages(3, spread, &outside).len(), 1);
}

/// A Deployment with required anti-affinity during execution, required node affinity during execution, and Gt on pod labels.
fn with_fields_of_the_proposals(annotations: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{{annotations}}}}}
    spec:
      affinity:
        nodeAffinity:
          requiredDuringSchedulingRequiredDuringExecution:
            nodeSelectorTerms: [{{matchExpressions: [{{key: disk, operator: In, values: [\"it's\"]}}]}}]
        podAntiAffinity:
          requiredDuringSchedulingRequiredDuringExecution:
          - {{topologyKey: '', namespaces: [], labelSelector: {{matchLabels: {{app: db}}}}, limit: 2}}
          requiredDuringSchedulingIgnoredDuringExecution:
          - {{topologyKey: topology.kubernetes.io/zone, labelSelector: {{matchLabels: {{app: cache}}}}}}
          - {{topologyKey: topology.kubernetes.io/zone, labelSelector: {{matchExpressions: [{{key: load, operator: Gt, values: ['5']}}]}}}}
      containers: [{{name: c, image: c}}]
"
    )
}

#[test]
fn fields_of_the_proposals_in_the_spec_for_a_standard_api_server_are_errors_with_the_annotation_ready_to_paste()
 {
    let rule = ["proposal-field-dropped"];
    let node = |fields: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: a, uid: u}}, status: {{nodeInfo: {{{fields}}}}}}}\n"
        )
    };
    let found = |text: &str| report(text, &rule).findings;
    let text = with_fields_of_the_proposals("");
    // Nothing shows which API server it is, or it is Berth's.
    assert_eq!(found(&text), []);
    assert_eq!(found(&(text.clone() + &node("containerRuntimeVersion: 'berth://1.0'"))), []);
    let kept = text.replace("{name: web}", "{name: other, uid: u}");
    assert_eq!(found(&(text.clone() + &kept)), []);
    // A dump of a standard one, or --strict-v1.
    let of_dump = found(&(text.clone() + &node("containerRuntimeVersion: 'containerd://2.0'")));
    let inventory = Inventory::from_text(&text).unwrap();
    let strict = report_with(&inventory, &Settings::strict_v1(Default::default()), Policy::default(), &rule);
    // The error of the API server about Gt is the finding.
    assert!(strict.invalid.is_empty(), "{strict:?}");
    let paths = |findings: &[Finding]| findings.iter().map(|f| f.path.clone()).collect::<Vec<_>>();
    let affinity = "spec.template.spec.affinity";
    let executing = "requiredDuringSchedulingRequiredDuringExecution";
    let expected = [
        format!("{affinity}.nodeAffinity.{executing}"),
        format!("{affinity}.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[1].labelSelector"),
        format!("{affinity}.podAntiAffinity.{executing}"),
    ];
    assert_eq!((paths(&of_dump), paths(&strict.findings)), (expected.to_vec(), expected.to_vec()));
    assert!(of_dump.iter().all(|finding| finding.severity == Severity::Error));
    assert!(of_dump[0].message.contains("stored the objects of the input"), "{}", of_dump[0].message);
    assert!(strict.findings[0].message.contains("extensions are switched off"), "{strict:?}");

    // What is to be pasted has exactly the rules that are lost, in the template.
    let pasted = |finding: &Finding| -> Value {
        let (begin, yaml) = finding.fix.split_once('\n').unwrap();
        assert!(begin.starts_with("remove it from the spec, and "), "{begin}");
        serde_saphyr::from_str(yaml).unwrap()
    };
    let object = pasted(&of_dump[0]);
    assert_eq!(object["spec"]["template"]["spec"]["schedulerName"], "berth");
    let annotation = |object: &Value| -> Value {
        let annotations = &object["spec"]["template"]["metadata"]["annotations"];
        serde_json::from_str(annotations["scheduling.berth.dev/affinity"].as_str().unwrap()).unwrap()
    };
    let lost = serde_json::json!({
        "nodeAffinity": {executing: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["it's"]}]}]}},
        "podAntiAffinity": {
            executing: [
                {"labelSelector": {"matchLabels": {"app": "db"}}, "namespaces": [], "limit": 2}],
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchExpressions": [{"key": "load", "operator": "Gt", "values": ["5"]}]},
                "topologyKey": "topology.kubernetes.io/zone"}],
        },
    });
    assert_eq!(annotation(&object), lost);

    // An annotation that the pod has is extended: both node selectors must match.
    let existing = r#"scheduling.berth.dev/affinity: '{"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution":
        {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}, {}]}}}'"#;
    let extended = found(&(with_fields_of_the_proposals(existing) + &node("")));
    let all = annotation(&pasted(&extended[0]));
    let terms = all["nodeAffinity"][executing]["nodeSelectorTerms"].as_array().unwrap();
    assert_eq!(terms.len(), 2);
    assert_eq!(terms[0]["matchFields"][0]["values"][0], "a");
    assert_eq!(terms.iter().map(|t| &t["matchExpressions"][0]["key"]).collect::<Vec<_>>(), ["disk", "disk"]);
    assert_eq!(all["podAntiAffinity"], lost["podAntiAffinity"]);
}

#[test]
fn budgets_of_blast_radius_are_checked_against_the_nodes_of_the_input() {
    let zone = "topology.kubernetes.io/zone";
    let in_zone = |names: &[&str]| {
        names
            .iter()
            .map(|name| nodes(&[name]).replace("labels: {", &format!("labels: {{{zone}: z, ")))
            .collect::<String>()
    };
    let policy = |budget: &str| {
        let file = format!(
            r#"{{"apiVersion": "admission.berth.dev/v1alpha1", "kind": "AdmissionPolicy", "budgets": [{budget}]}}"#
        );
        Policy::from_value(&serde_json::from_str(&file).unwrap()).unwrap()
    };
    let found = |terms: &str, nodes: &str, budget: &str| {
        let text = workload("Deployment", "web", "", &affinity(&[terms.to_owned()])) + nodes;
        let inventory = Inventory::from_text(&text).unwrap();
        let report = report_with(&inventory, &Settings::default(), policy(budget), &["policy-refuses"]);
        report.findings.into_iter().map(|f| (f.severity, f.message)).collect::<Vec<_>>()
    };
    let required = term("podAntiAffinity", "db", zone);
    let two = r#"{"blastRadius": {"nodes": 2}}"#;
    assert_eq!(found(&required, &in_zone(&["a", "b"]), two), []);
    // Without nodes it is not known.
    assert_eq!(found(&required, "", two), []);
    let [(severity, message)] = &found(&required, &in_zone(&["a", "b", "c"]), two)[..] else { panic!() };
    assert_eq!(*severity, Severity::Error);
    assert!(
        message.starts_with("by symmetry, required anti-affinity would block 3 nodes")
            && message.ends_with("allows 2 nodes"),
        "{message}"
    );
    let warn = r#"{"action": "Warn", "blastRadius": {"nodes": 2}}"#;
    assert_eq!(found(&required, &in_zone(&["a", "b", "c"]), warn)[0].0, Severity::Warning);
    let preferred = format!(
        "podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 1, podAffinityTerm: {{
  topologyKey: {zone}, labelSelector: {{matchLabels: {{app: db}}}}}}}}]}}"
    );
    assert_eq!(found(&preferred, &in_zone(&["a", "b", "c"]), two), []);
    let budget = r#"{"preferredBlastRadius": {"nodes": 2}}"#;
    assert!(
        found(&preferred, &in_zone(&["a", "b", "c"]), budget)[0].1.contains("lower the scores of 3 nodes")
    );
}

#[test]
fn a_selector_of_every_namespace_of_a_cluster_is_refused_as_all_namespaces() {
    let pod = "---
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: c}], affinity: {podAntiAffinity: {
  requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {},
  namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}}]}}}}
";
    let namespace = |name: &str, team: &str| {
        format!("---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{team}}}}}}}\n")
    };
    let n_found = |namespaces: &[String]| {
        report(&(pod.to_owned() + &namespaces.concat()), &["policy-refuses"]).findings.len()
    };
    let all = [namespace("kube-system", "team: a"), namespace("default", "team: b")];
    assert_eq!(n_found(&all), 1);
    // Without kube-system, they are not all namespaces of a cluster.
    assert_eq!(n_found(&[namespace("shop", "team: a"), namespace("default", "team: b")]), 0);
    assert_eq!(n_found(&[all.concat(), namespace("shop", "")]), 0);
}

#[test]
fn common_label_keys_that_all_pods_must_carry() {
    let labelled = |labels: &str| workload("Deployment", "web", "", "").replace("labels: {app: web}", labels);
    let found = |text: &str| report(text, &["required-label-missing"]).findings;
    assert_eq!(found(&labelled("labels: {app: web, example.com/team: a}")), []);
    let [finding] = &found(&labelled("labels: {app: web}"))[..] else { panic!() };
    assert_eq!((finding.severity, finding.path.as_str()), (Severity::Error, "spec.template.metadata.labels"));
    assert_eq!(finding.message, "the pods lack the label example.com/team, which all pods must carry");
    assert_eq!(finding.fix, "add example.com/team to spec.template.metadata.labels");
    let of_system =
        labelled("labels: {app: web}").replace("{name: web}", "{name: web, namespace: kube-system}");
    assert_eq!(found(&of_system), []);
    // Without configuration there is no convention.
    assert!(!rules(&labelled("labels: {app: web}")).contains(&"required-label-missing"));
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
fn an_update_that_host_ports_block_was_said_to_be_blocked_by_a_spread_constraint() {
    let spread =
        "topologySpreadConstraints: [{maxSkew: 3, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway,
  labelSelector: {matchLabels: {app: web}}}], hostNetwork: true,";
    let text =
        workload("Deployment", "web", "replicas: 2, strategy: {rollingUpdate: {maxUnavailable: 0}},", spread)
            + &nodes(&["a", "b"]);
    let report =
        report(&text.replace("image: c}", "image: c, ports: [{containerPort: 80}]}"), &["rollout-deadlock"]);
    let [found] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!(found.path, "spec.template.spec.containers");
    assert_eq!(found.fix, "set spec.strategy.rollingUpdate.maxUnavailable to 1, or add a node");
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
fn an_invalid_object_does_not_hide_what_happens_to_the_other_pods_that_name_a_node() {
    let node = "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 50}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ghost}, spec: {nodeName: nope, containers: [{name: c, image: i}]}}
---
";
    // Extended resources need limits; a workload selects its own pods.
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: wrong}, spec: {nodeName: n1, containers: [
  {name: c, image: i, resources: {requests: {example.com/gpu: 1}}}]}}";
    let workload = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: wrong}, spec: {replicas: -9,
  selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {nodeName: n1, containers: [
  {name: c, image: i}]}}}}";
    for invalid in [pod, workload] {
        let report = report(&format!("{node}{invalid}"), &["named-node-rejects"]);
        let found: Vec<_> = report.findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(found, ["node nope is not in the input: the pod does not run"], "{invalid}");
    }
}

/// Enhancement 5729: with the gate, the pods of a PodGroup share one claim, which is reserved for the group.
#[test]
fn claims_that_pods_of_a_group_share_count_once_with_their_gate() {
    let pods = |entry: &str, replicas: usize| {
        format!(
            "{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: ring}}, spec: {{replicas: {replicas}, selector: {{matchLabels: {{app: ring}}}}, \
             template: {{metadata: {{labels: {{app: ring}}}}, spec: {{schedulingGroup: {{podGroupName: ring}}, resourceClaims: [{entry}], \
             containers: [{{name: c, image: c}}]}}}}}}}}"
        )
    };
    let group = |entry: &str| {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {{name: ring}}, spec: {{schedulingPolicy: {{gang: {{minCount: 2}}}}, \
             resourceClaims: [{entry}]}}}}"
        )
    };
    let objects = "
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {driver: d, nodeName: a, \
  pool: {name: a, generation: 1, resourceSliceCount: 1}, devices: [{name: g}]}}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: one, namespace: default}, \
  spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: each, namespace: default}, \
  spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}}
"
    .replace("\\\n", "");
    let selected =
        ["device/claim-once-per-node", "device/claim-shared-by-too-many", "device/feature-gate-off"];
    for (entry, replicas, rule) in [
        ("{name: gpu, resourceClaimName: one}", 300, "device/claim-shared-by-too-many"),
        ("{name: gpu, resourceClaimTemplateName: each}", 2, "device/claim-once-per-node"),
    ] {
        let text = [objects.clone(), pods(entry, replicas), group(entry)].join("\n---\n");
        for (is_on, expected) in [(false, vec![rule, "device/feature-gate-off"]), (true, vec![])] {
            let mut settings = Settings::default();
            settings.config.feature_gates.dra_workload_resource_claims = is_on;
            let inventory = Inventory::from_text(&text).expect("the objects are valid");
            let report = report_with(&inventory, &settings, Policy::default(), &selected);
            let found: Vec<_> = report.findings.iter().map(|finding| finding.rule).collect();
            assert_eq!(found, expected, "{entry} {is_on}");
        }
    }
}

#[test]
fn a_comparison_without_its_gate_did_not_lack_a_toleration() {
    let text = "{apiVersion: v1, kind: Node, metadata: {name: small}, status: {allocatable: {cpu: 2, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Node, metadata: {name: large}, spec: {taints: [{key: sla, value: '5', effect: NoSchedule}]},
  status: {allocatable: {cpu: 8, memory: 8Gi, pods: 10}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: p, creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {
  tolerations: [{key: sla, operator: Gt, value: '3', effect: NoSchedule}],
  containers: [{name: c, image: c, resources: {requests: {cpu: 4}}}]}}
";
    let inventory = Inventory::from_text(text).expect("the objects are valid");
    for (is_on, n_findings) in [(true, 0), (false, 1)] {
        let mut settings = Settings::default();
        settings.config.feature_gates.taint_toleration_comparison_operators = is_on;
        let report = report_with(&inventory, &settings, Policy::default(), &["request-exceeds-every-node"]);
        let found: Vec<_> = report.findings.iter().map(|finding| &finding.message).collect();
        assert_eq!(found.len(), n_findings, "{is_on}: {found:?}");
        assert!(found.iter().all(|message| message.contains("taint sla:NoSchedule")), "{found:?}");
    }
}

#[test]
fn a_policy_refused_rules_that_strict_v1_ignores() {
    let term = "{topologyKey: zone, labelSelector: {}, namespaceSelector: {}}";
    let text = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{app: a}}}}, spec: {{containers: [{{name: c, image: c}}], \
         affinity: {{podAntiAffinity: {{requiredDuringSchedulingRequiredDuringExecution: [{term}]}}}}}}}}"
    );
    let inventory = Inventory::from_text(&text).expect("the objects are valid");
    for (extensions, n_findings) in [(true, 1), (false, 0)] {
        let settings = Settings { extensions, ..Settings::default() };
        let report = report_with(&inventory, &settings, Policy::default(), &["policy-refuses"]);
        assert_eq!(report.findings.len(), n_findings, "{extensions}: {:?}", report.findings);
    }
}

#[test]
fn a_misspelt_rule_in_the_annotation_was_not_reported() {
    let annotation = "scheduling.berth.dev/affinity: '{podAntiAfinity: {}}'";
    let pod = |metadata: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {{{annotation}}}{metadata}}}\n\
             spec: {{containers: [{{name: c, image: c}}]}}\n"
        )
    };
    for (text, path) in [
        (pod(""), "metadata"),
        // An API server that does not know the annotation has stored it.
        (pod(", creationTimestamp: '2026-01-01T00:00:00Z'"), "metadata"),
        (deployment("", annotation), "spec.template.metadata"),
    ] {
        let report = report(&text, &["unknown-field"]);
        let errors: Vec<_> = report.invalid.iter().flat_map(|invalid| &invalid.errors).collect();
        let expected = format!(
            "{path}.annotations[scheduling.berth.dev/affinity].podAntiAfinity: Invalid value: unknown field; did you mean \
             \"podAntiAffinity\"?"
        );
        assert_eq!(errors, [&expected], "{text}");
    }
}
