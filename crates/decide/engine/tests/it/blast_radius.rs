//! What required anti-affinity shuts out.

use berth_api::work::WorkBudget;
use berth_engine::{Reach, Settings, TermRadius};
use berth_testkit::text;

use crate::common::{self, admitted, cluster};

const CLUSTER: &str = "
    node a1 zone=a cpu=4 mem=8Gi
    node a2 zone=a cpu=8 mem=8Gi
    node b1 zone=b cpu=2 mem=4Gi
    node bare -hostname cpu=1 mem=1Gi
    pod d/x on a1 app=x
    pod d/y on b1 app=x
    pod e/z on b1 app=x
";

fn radius(pod: &str) -> (Option<String>, Vec<TermRadius>) {
    let mut cluster = cluster(&text::world(CLUSTER), Settings::default());
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    let radius = cluster.blast_radius(&prepared);
    (radius.node, radius.terms)
}

/// `nodes/milliCPU/pods domain`.
fn shown(reach: &Option<Reach>) -> String {
    let Some(reach) = reach else { return "-".to_owned() };
    let domain = reach.domain.as_ref().and_then(|d| d.value.as_deref()).unwrap_or("?");
    format!("{}/{}/{} {domain}", reach.n_nodes, reach.milli_cpu, reach.n_matching_pods)
}

#[test]
fn largest_average_and_actual_domain() {
    for (pod, node, matching, n_domains, expected) in [
        ("anti(app=none @zone)", Some("a2"), 0, 2, ["2/12000/0 a", "2/7000/0 ?", "2/12000/0 a"]),
        ("anti(app=x @zone)", Some("bare"), 2, 2, ["2/12000/1 a", "2/7000/1 ?", "-"]),
        ("anti(app=x @zone ns:*)", Some("bare"), 3, 2, ["2/12000/1 a", "2/7000/2 ?", "-"]),
        ("anti(app=none @hostname)", Some("a2"), 0, 3, ["1/8000/0 a2", "1/4667/0 ?", "1/8000/0 a2"]),
        // Node affinity settles where the pod can go at all.
        ("anti(app=none @zone) select:zone=b", Some("b1"), 0, 1, ["1/2000/0 b", "1/2000/0 b", "1/2000/0 b"]),
        // Any topology: all that share a zone or the name with the node.
        ("rdrd-anti(app=none @*)", Some("a2"), 0, 2, ["2/12000/0 ?", "2/7000/0 ?", "2/12000/0 ?"]),
        ("anti(app=x @rack)", Some("a2"), 2, 0, ["-", "-", "-"]),
        ("anti(app=none @zone) cpu=100", None, 0, 2, ["2/12000/0 a", "2/7000/0 ?", "-"]),
    ] {
        let (placed, terms) = radius(&format!("pod d/p cpu=100m {pod}"));
        let [term] = terms.as_slice() else { panic!("{pod}: {terms:?}") };
        assert_eq!(placed.as_deref(), node, "{pod}");
        assert_eq!((term.n_matching_pods, term.n_domains), (matching, n_domains), "{pod}");
        let mut got = [shown(&term.largest), shown(&term.average), shown(&term.actual)];
        // The average of one domain has no name either.
        got[1] = got[1].replace(" ?", if n_domains == 1 { " b" } else { " ?" });
        assert_eq!(got, expected, "{pod}");
    }
}

#[test]
fn preferred_anti_affinity_makes_nodes_worse_for_the_pods_that_match() {
    let mut cluster = cluster(&text::world(CLUSTER), Settings::default());
    let pod = "pod d/p prefer-aff(9 app=x @zone) prefer-anti(7 app=x @zone ns:*) prefer-anti(3 app=x @hostname) cpu=100m";
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    let radius = cluster.preferred_blast_radius(&prepared);
    let of = |term: &TermRadius| (term.weight, term.n_matching_pods, term.n_domains, shown(&term.largest));
    let terms: Vec<_> = radius.preferred.iter().map(of).collect();
    assert_eq!(terms, [(7, 3, 2, "2/12000/1 a".to_owned()), (3, 2, 3, "1/8000/0 a2".to_owned())]);
    assert!(radius.terms.is_empty() && radius.preferred[1].term.ends_with("IgnoredDuringExecution[1]"));
    // With profiles that ignore the preferences of running pods, no pod is worse off.
    let mut settings = Settings::default();
    for profile in &mut settings.config.profiles {
        profile.inter_pod_affinity.ignore_preferred_anti_affinity_of_existing_pods = true;
    }
    let mut ignoring = common::cluster(&text::world(CLUSTER), settings);
    let prepared = ignoring.prepare(&admitted(&text::pod(pod), true));
    assert!(ignoring.preferred_blast_radius(&prepared).is_empty());
    // The explanation has both.
    let required = format!("{pod} anti(app=none @zone)");
    let pod = admitted(&text::pod(&required), true);
    let prepared = cluster.prepare(&pod);
    let radius = cluster.explain(&pod, &prepared, None, &WorkBudget::unlimited()).blast_radius.unwrap();
    assert_eq!((radius.terms.len(), radius.preferred.len()), (1, 2));
    let too_little = cluster.explain(&pod, &prepared, None, &WorkBudget::new(5)).blast_radius;
    assert_eq!(too_little, None);
}

#[test]
fn only_required_anti_affinity_that_acts_on_anybody_counts() {
    assert_eq!(radius("pod d/p prefer-anti(1 app=x @zone) aff(app=x @zone)"), (None, vec![]));
    assert_eq!(radius("pod kube-system/p rdrd-anti(app=x @hostname ns=)"), (None, vec![]));
    let (_, terms) = radius("pod d/p anti(app=x @hostname) rdrd-anti(app=y @hostname)");
    let paths: Vec<_> = terms.iter().map(|t| (t.term.as_str(), t.topology_key.as_str())).collect();
    let path = |field: &str| format!("spec.affinity.podAntiAffinity.{field}[0]");
    assert_eq!(
        paths,
        [
            (path("requiredDuringSchedulingIgnoredDuringExecution").as_str(), "kubernetes.io/hostname"),
            (path("requiredDuringSchedulingRequiredDuringExecution").as_str(), "kubernetes.io/hostname")
        ]
    );
}
