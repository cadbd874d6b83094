//! Findings about required terms between pods, and about disruption budgets.

use berth_lint::Severity;

use crate::findings::{HOST, affinity, indexed, nodes, rules, term, workload};
use crate::report;

#[test]
fn a_term_that_another_one_implies_is_reported_and_no_other() {
    let deployment = |annotation: &str, affinity: &str| {
        let annotations = format!("annotations: {{scheduling.berth.dev/affinity: '{annotation}'}}, labels");
        workload("Deployment", "web", "", affinity).replacen(
            "metadata: {labels",
            &format!("metadata: {{{annotations}"),
            1,
        )
    };
    let term = |key: &str, labels: &str, more: &str| {
        format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{{labels}}}}}{more}}}")
    };
    let list = |rules: &str, terms: &[String]| {
        format!("{{{rules}: {{requiredDuringSchedulingIgnoredDuringExecution: [{}]}}}}", terms.join(", "))
    };
    let v1 = |list: &str| format!("affinity: {list},");
    let found = |annotation: &str, affinity: &str| {
        let report = report(&deployment(annotation, affinity), &["redundant-term"]);
        report.findings.len()
    };
    let (near, apart) = ("podAffinity", "podAntiAffinity");
    let zone = "topology.kubernetes.io/zone";
    let both = |more: &str| [term(HOST, "app: web", ""), term(zone, "app: web", more)];
    assert_eq!(found("{}", &v1(&list(apart, &both("")))), 1);
    assert_eq!(found(&list(apart, &both("")), ""), 1);
    // The term that excludes more ends before the other one.
    assert_eq!(found(&list(apart, &both(", relaxAfter: 5m")), ""), 0);
    // Terms of two dialects: other namespaces are exempt, and one pod has to match those of v1.
    let [host, zone_term] = both("");
    assert_eq!(
        found(&list(apart, std::slice::from_ref(&zone_term)), &v1(&list(apart, std::slice::from_ref(&host)))),
        0
    );
    assert_eq!(found(&list(near, &[host]), &v1(&list(near, &[zone_term]))), 0);
    // The first pod disregards its own requirement, and not the other one.
    let narrow = term(HOST, "app: web, tier: be", "");
    let wide = term(zone, "app: web", "");
    assert_eq!(found(&list(near, &[narrow.clone(), wide.clone()]), ""), 0);
    assert_eq!(found("{}", &v1(&list(near, &[narrow, wide]))), 1);
}

#[test]
fn match_label_keys_that_can_never_match_pods_of_another_workload_are_an_error() {
    let near_db = |keys: &str| {
        format!(
            "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [
  {{topologyKey: topology.kubernetes.io/zone, labelSelector: {{matchLabels: {{app: db}}}}, matchLabelKeys: [{keys}]}}]}}}},"
        )
    };
    let web = workload("Deployment", "web", "", &near_db("pod-template-hash"));
    let [finding] = &report(&(web + &workload("Deployment", "db", "", "")), &["*"]).findings[..] else {
        panic!()
    };
    assert_eq!((finding.rule, finding.severity), ("never-first", Severity::Error));
    assert_eq!(finding.fix, "remove pod-template-hash from matchLabelKeys");
    // Pods of all workloads are numbered alike.
    let index = "apps.kubernetes.io/pod-index";
    let web = workload("StatefulSet", "web", "", &near_db(index));
    assert_eq!(rules(&(web.clone() + &indexed("StatefulSet", "", ""))), [""; 0]);
    assert_eq!(
        rules(&(web + &workload("Deployment", "db", "", ""))),
        ["never-first", "selector/matches-nothing"]
    );
}

#[test]
fn two_v1_terms_that_differ_in_their_namespaces_are_named_with_them_and_the_annotation_is_the_fix() {
    let term = |namespace: &str| {
        format!(
            "{{topologyKey: {HOST}, namespaces: [{namespace}], labelSelector: {{matchLabels: {{app: db}}}}}}"
        )
    };
    let affinity = format!(
        "affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{}, {}]}}}},",
        term("a"),
        term("b")
    );
    let report = report(&workload("Deployment", "web", "", &affinity), &["never-first"]);
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert!(finding.message.contains("both app=db in a and app=db in b"), "{}", finding.message);
    assert!(finding.fix.contains("annotation scheduling.berth.dev/affinity"), "{}", finding.fix);
}

#[test]
fn budgets_that_allow_no_eviction_at_all_are_reported() {
    let budget = |spec: &str| {
        format!(
            "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: b}}
spec: {{{spec}, selector: {{matchLabels: {{app: db}}}}}}
"
        )
    };
    let found = |pods: &str, spec: &str| {
        let report = report(&(pods.to_owned() + &budget(spec)), &["budget-blocks-evictions"]);
        report.findings.into_iter().map(|finding| finding.path).collect::<Vec<_>>()
    };
    let deployment = workload("Deployment", "db", "replicas: 3,", "");
    assert_eq!(found(&deployment, "maxUnavailable: 0"), ["spec.maxUnavailable"]);
    assert_eq!(found(&deployment, "minAvailable: 3"), ["spec.minAvailable"]);
    assert_eq!(found(&deployment, "minAvailable: 2"), [""; 0]);
    assert_eq!(found(&deployment, "maxUnavailable: 1"), [""; 0]);
    // What has no scale counts as nothing, or not at all.
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: db, labels: {app: db}}\nspec: {containers: [{name: c, image: c}]}\n";
    let job = indexed("Job", "", "");
    let daemons = indexed("DaemonSet", "", "");
    for pods in [pod, &job, &daemons] {
        assert_eq!(found(pods, "maxUnavailable: 1"), ["spec.maxUnavailable"], "{pods}");
        assert_eq!(found(pods, "minAvailable: 50%"), ["spec.minAvailable"], "{pods}");
    }
    // A pod on each of the nodes.
    let daemons = daemons + &nodes(&["a", "b"]);
    assert_eq!(found(&daemons, "minAvailable: 2"), ["spec.minAvailable"]);
    assert_eq!(found(&daemons, "minAvailable: 1"), [""; 0]);
}

#[test]
fn two_budgets_of_a_pod_which_the_api_server_evicts_for_neither_were_not_reported() {
    let budget = |name: &str, spec: &str| {
        format!(
            "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
        )
    };
    let all = "minAvailable: 1, selector: {}";
    let found = |other: &str| {
        let db = workload("Deployment", "db", "replicas: 3,", "");
        let text = db + &budget("all", all) + &budget("one", &format!("minAvailable: 1, selector: {other}"));
        let findings = report(&text, &["budget-blocks-evictions"]).findings;
        findings.into_iter().map(|finding| (finding.name, finding.path)).collect::<Vec<_>>()
    };
    assert_eq!(found("{matchLabels: {app: web}}"), []);
    assert_eq!(found("{matchLabels: {app: db}}"), [("one".to_owned(), "spec.selector".to_owned())]);
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
fn the_zone_does_not_cover_the_host_name_on_nodes_without_a_zone() {
    let both = affinity(&[term("podAntiAffinity", "web", HOST).replace(
        "}}]}",
        "}}, {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}",
    )]);
    let text = workload("StatefulSet", "web", "", &both);
    let in_zone = nodes(&["a", "c"]).replace("labels: {", "labels: {topology.kubernetes.io/zone: z, ");
    assert_eq!(rules(&(text.clone() + &in_zone)), ["redundant-term"]);
    assert_eq!(rules(&(text + &in_zone + &nodes(&["b"]))), [""; 0]);
}

#[test]
fn the_fix_of_opposite_terms_would_have_excluded_every_node() {
    let fix = |second: &str| {
        let term =
            |operator: &str| format!("{{matchExpressions: [{{key: a, operator: {operator}, values: [x]}}]}}");
        let spec = format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{}, {}]}}}}}},",
            term("NotIn"),
            second.replace("IN", &term("In")),
        );
        let text = crate::findings::workload("Deployment", "web", "", &spec);
        crate::report(&text, &["terms-exclude-nothing"]).findings.remove(0).fix
    };
    assert_eq!(
        fix("IN"),
        "keep the term that is meant: in one term, the requirements would exclude every node"
    );
    let other = "{matchExpressions: [{key: b, operator: NotIn, values: [w]}]}";
    assert_eq!(fix(other), "write the requirements in one term, where all of them must hold");
}
