//! Sets of pods: what counts twice, and sizes of the comparison.

use std::fmt::Write as _;

use berth_input::inventory::Inventory;
use berth_simulate::sets::{Conflict, NotCounted, SelectorRole, SelectorSets, SetComparison};
use berth_simulate::{SimulatedPod, Simulation, SimulationOptions};

fn of_text(text: &str) -> SetComparison {
    let inventory = Inventory::from_text(text).expect("valid");
    let mut sets = SelectorSets::new(&inventory).expect("valid");
    let simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid");
    sets.add_terms(&simulation);
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    sets.compare(&pods)
}

/// Two pods with the label `app=web`, and these objects of the namespace `shop`.
fn with_two_pods(objects: &str) -> SetComparison {
    of_text(&format!(
        "{objects}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web, namespace: shop}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
"
    ))
}

fn service(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop, labels: {{app: web}}}}, \
         spec: {{selector: {{app: web}}, {spec}}}}}\n"
    )
}

fn monitor(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: monitoring.coreos.com/v1, kind: {kind}, metadata: {{name: {name}, namespace: monitoring}}, \
         spec: {{{spec}}}}}\n"
    )
}

const IN_SHOP: &str = "selector: {matchLabels: {app: web}}, namespaceSelector: {matchNames: [shop]}";

/// The pairs of a role with pods: names, pods, and why they are not counted.
fn pairs(comparison: &SetComparison, role: SelectorRole) -> Vec<(String, usize, Option<NotCounted>)> {
    let of_role = comparison.conflicts.iter().filter(|conflict| conflict.role == role && conflict.n_pods > 0);
    let pair = |Conflict { first, second, n_pods, not_counted, .. }: &Conflict| {
        (format!("{} + {}", first.object, second.object), *n_pods, *not_counted)
    };
    of_role.map(pair).collect()
}

#[test]
fn pods_of_two_services_are_counted_twice() {
    let both = [service("a", "ports: [{port: 80}]"), service("b", "ports: [{port: 8080, targetPort: 80}]")];
    let comparison = with_two_pods(&both.concat());
    assert_eq!(pairs(&comparison, SelectorRole::Service), [("Service a + Service b".to_owned(), 2, None)]);
    assert_eq!(comparison.summary.n_pods_of_two_services, 2);
    let one = with_two_pods(&both[0]);
    assert_eq!((pairs(&one, SelectorRole::Service), one.summary.n_pods_of_two_services), (Vec::new(), 0));
}

#[test]
fn a_headless_service_and_services_of_other_ports_count_no_pod_twice() {
    for (a, b, expected) in [
        ("ports: [{port: 80}]", "clusterIP: None, ports: [{port: 80}]", Some(NotCounted::Headless)),
        ("ports: [{port: 80}]", "ports: [{port: 81}]", Some(NotCounted::OtherPorts)),
        ("ports: [{port: 53, protocol: UDP}]", "ports: [{port: 53}]", Some(NotCounted::OtherPorts)),
        (
            "ports: [{port: 80, targetPort: http}]",
            "ports: [{port: 80, targetPort: admin}]",
            Some(NotCounted::OtherPorts),
        ),
        // The number of the named port is not known.
        ("ports: [{port: 80, targetPort: http}]", "ports: [{port: 80}]", None),
        ("ports: [{port: 80}, {port: 443}]", "ports: [{port: 443}]", None),
        ("ports: []", "ports: [{port: 80}]", None),
    ] {
        let comparison = with_two_pods(&[service("a", a), service("b", b)].concat());
        let found = pairs(&comparison, SelectorRole::Service);
        assert_eq!(found, [("Service a + Service b".to_owned(), 2, expected)], "{a} and {b}");
        let n_twice = if expected.is_none() { 2 } else { 0 };
        assert_eq!(comparison.summary.n_pods_of_two_services, n_twice, "{a} and {b}");
    }
}

#[test]
fn pods_that_two_monitors_scrape_are_counted_twice() {
    let service = service("web", "ports: [{name: metrics, port: 9090, targetPort: 8080}]");
    let by_service = monitor("ServiceMonitor", "s", &format!("{IN_SHOP}, endpoints: [{{port: metrics}}]"));
    for (endpoint, expected) in [
        ("{portNumber: 8080}", None),
        ("{portNumber: 8081}", Some(NotCounted::OtherPorts)),
        ("{port: metrics}", None),
        ("{portNumber: 8080, path: /other}", Some(NotCounted::OtherPorts)),
    ] {
        let by_pods = monitor("PodMonitor", "p", &format!("{IN_SHOP}, podMetricsEndpoints: [{endpoint}]"));
        let comparison = with_two_pods(&[service.as_str(), &by_service, &by_pods].concat());
        let found = pairs(&comparison, SelectorRole::Monitor);
        assert_eq!(found, [("ServiceMonitor s + PodMonitor p".to_owned(), 2, expected)], "{endpoint}");
        let n_twice = if expected.is_none() { 2 } else { 0 };
        assert_eq!(comparison.summary.n_pods_of_two_monitors, n_twice, "{endpoint}");
    }
}

#[test]
fn a_service_monitor_scrapes_pods_once_for_each_of_its_services() {
    let services = [
        service("a", "ports: [{name: m, port: 80}]"),
        service("b", "clusterIP: None, ports: [{name: m, port: 80}]"),
    ];
    let monitor = monitor("ServiceMonitor", "s", &format!("{IN_SHOP}, endpoints: [{{port: m}}]"));
    let comparison = with_two_pods(&[services.concat(), monitor].concat());
    assert_eq!(
        pairs(&comparison, SelectorRole::Monitor),
        [("ServiceMonitor s + ServiceMonitor s".to_owned(), 2, None)]
    );
    let conflict = comparison.conflicts.iter().find(|c| c.role == SelectorRole::Monitor).expect("found");
    let through = [&conflict.first, &conflict.second].map(|owner| owner.through_service.as_deref());
    assert_eq!(through, [Some("shop/a"), Some("shop/b")]);
}

#[test]
fn a_service_monitor_scrapes_nothing_of_a_service_without_its_port() {
    let services =
        [service("a", "ports: [{name: metrics, port: 80}]"), service("b", "ports: [{name: grpc, port: 80}]")];
    let monitor = monitor("ServiceMonitor", "s", &format!("{IN_SHOP}, endpoints: [{{port: metrics}}]"));
    let comparison = with_two_pods(&[services.concat(), monitor].concat());
    assert_eq!(pairs(&comparison, SelectorRole::Monitor), []);
    assert_eq!(comparison.summary.n_pods_of_two_monitors, 0);
}

#[test]
fn monitors_select_by_namespace() {
    let selected = |namespaces: &str| {
        let spec = format!("selector: {{matchLabels: {{app: web}}}}, namespaceSelector: {{{namespaces}}}");
        let both = ["PodMonitor", "ServiceMonitor"].map(|kind| monitor(kind, "m", &spec));
        let comparison = with_two_pods(&[&service("web", ""), both[0].as_str(), &both[1]].concat());
        let empty: Vec<_> = comparison.empty.iter().map(|empty| empty.selector.clone()).collect();
        (comparison.summary.n_pods_of_two_monitors, empty)
    };
    assert_eq!(selected("any: true"), (2, Vec::new()));
    assert_eq!(selected("matchNames: [other, shop]"), (2, Vec::new()));
    assert_eq!(selected("matchNames: [other]"), (0, vec!["no Service with app=web".to_owned()]));
    // The namespace of the monitors.
    assert_eq!(selected(""), (0, vec!["no Service with app=web".to_owned()]));
}

#[test]
fn spread_constraints_are_compared_with_their_label_keys_merged() {
    let comparison = of_text(
        "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, version: '2'}}
spec:
  containers: [{name: c, image: i}]
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}}}
",
    );
    let sets: Vec<_> =
        comparison.sets.iter().map(|set| (set.selector.as_str(), set.owners[0].role, set.n_pods)).collect();
    assert_eq!(
        sets,
        [("app=web", SelectorRole::Service, 1), ("app=web, version=2", SelectorRole::SpreadConstraint, 1)]
    );
    assert_eq!(comparison.sets[1].owners[0].field, "spec.topologySpreadConstraints[0]");
    assert_eq!((comparison.summary.n_contained, comparison.summary.n_overlapping), (1, 0));
}

/// Budgets in turn with each of some selectors, and a pod for each of these.
fn compared(n_budgets: usize, n_selectors: usize) -> SetComparison {
    let mut text = String::new();
    for i in 0..n_budgets {
        let key = i % n_selectors;
        writeln!(
            text,
            "---\n{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: b{i:05}, namespace: default}}, \
             spec: {{selector: {{matchLabels: {{key{key}: v}}}}}}}}"
        )
        .expect("a string takes all");
    }
    for key in 0..n_selectors.min(3) {
        writeln!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{key}, namespace: default, labels: {{key{key}: v}}}}, \
             spec: {{containers: [{{name: c, image: i}}]}}}}"
        )
        .expect("a string takes all");
    }
    let inventory = Inventory::from_text(&text).expect("valid");
    let sets = SelectorSets::new(&inventory).expect("valid");
    let simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid");
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    sets.compare(&pods)
}

#[test]
fn conflicts_are_listed_by_set_and_not_by_pair_of_owners() {
    for n_budgets in [40, 400] {
        let comparison = compared(n_budgets, 4);
        let n_owners = n_budgets / 4;
        assert_eq!(comparison.sets.len(), 4);
        assert!(comparison.sets.iter().all(|set| set.owners.len() == n_owners));
        // Four distinct sets, and six pairs of them.
        assert_eq!((comparison.conflicts.len(), comparison.summary.n_conflicts), (10, 10));
        let first = &comparison.conflicts[0];
        assert_eq!((first.role, first.n_pods), (SelectorRole::DisruptionBudget, 1));
        assert_eq!(
            (first.first.object.as_str(), first.second.object.as_str()),
            ("PodDisruptionBudget b00000", "PodDisruptionBudget b00004")
        );
        assert_eq!(first.n_pairs, n_owners * (n_owners - 1) / 2);
        let n_pairs: usize = comparison.conflicts.iter().map(|conflict| conflict.n_pairs).sum();
        assert_eq!(n_pairs, n_budgets * (n_budgets - 1) / 2, "every pair of budgets is counted");
        assert_eq!(comparison.summary.n_pods_of_two_budgets, 3);
    }
}

#[test]
fn too_many_different_sets_are_compared_in_part() {
    let comparison = compared(2000, 2000);
    let summary = &comparison.summary;
    assert_eq!(summary.n_sets, 2000);
    assert!((1..2000).contains(&summary.n_not_compared), "{summary:?}");
    let n_compared = summary.n_sets - summary.n_not_compared;
    assert_eq!(comparison.relations.len(), n_compared * (n_compared - 1) / 2);
    assert_eq!((summary.n_overlapping, summary.n_disjoint), (comparison.relations.len(), 0));
    assert!(comparison.conflicts.len() < summary.n_conflicts);
    assert_eq!(comparison.conflicts.len(), 10_000);
}

#[test]
fn services_with_too_many_ports_to_compare_count() {
    let services = (0..4000).map(|i| service(&format!("s{i}"), &format!("ports: [{{port: {}}}]", i + 1)));
    let comparison = with_two_pods(&services.collect::<String>());
    let found = comparison.conflicts.iter().filter(|conflict| conflict.role == SelectorRole::Service);
    let n_pairs: usize = found.clone().map(|conflict| conflict.n_pairs).sum();
    assert_eq!(n_pairs, 4000 * 3999 / 2, "every pair of Services is counted");
    let kinds: Vec<_> = found.map(|conflict| conflict.not_counted).collect();
    assert_eq!(kinds, [None, Some(NotCounted::OtherPorts)]);
    assert_eq!(comparison.summary.n_pods_of_two_services, 2);
}
