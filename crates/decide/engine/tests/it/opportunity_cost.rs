//! What required anti-affinity keeps from other namespaces.

use berth_engine::{Reach, Settings};
use berth_testkit::text;

use crate::common::{admitted, cluster};

const CLUSTER: &str = "
    node a1 zone=a cpu=4 mem=8Gi
    node a2 zone=a cpu=8 mem=4Gi
    node b1 zone=b cpu=2 mem=4Gi
    node bare -hostname cpu=1 mem=1Gi
";

/// `nodes/milliCPU/GiB` of the largest and of the average domain.
fn cost(pod: &str, node: Option<&str>) -> Option<[String; 2]> {
    let mut cluster = cluster(&text::world(CLUSTER), Settings::default());
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    let shown = |r: &Reach| format!("{}/{}/{}", r.n_nodes, r.milli_cpu, r.memory >> 30);
    cluster.opportunity_cost(&prepared, node).map(|cost| [shown(&cost.largest), shown(&cost.average)])
}

#[test]
fn a_pod_costs_the_domains_from_which_it_excludes_others() {
    for (pod, node, expected) in [
        // The largest node, each resource by itself; the node that has no host name excludes nothing.
        ("anti(* @hostname ns:*)", None, ["1/8000/8", "1/4667/5"]),
        ("anti(* @hostname ns:*) select:zone=b", None, ["1/2000/4", "1/2000/4"]),
        ("anti(* @hostname ns:*)", Some("a1"), ["1/4000/8", "1/4000/8"]),
        ("anti(* @hostname ns:*)", Some("bare"), ["0/0/0", "0/0/0"]),
        // The node is not known: as if the pod had none.
        ("anti(* @hostname ns:*)", Some("unknown"), ["1/8000/8", "1/4667/5"]),
        ("anti(app=db @zone ns=other)", None, ["2/12000/12", "2/7000/8"]),
        ("anti(app=db @zone ns=other)", Some("b1"), ["1/2000/4", "1/2000/4"]),
        // The node is part of the zone, and counts once.
        ("anti(* @hostname ns:*) anti(app=db @zone ns=other)", Some("a1"), ["2/12000/12", "2/12000/12"]),
        ("rdrd-anti(* @* ns:*)", None, ["4/15000/17", "4/15000/17"]),
        ("rdrd-anti(* @* ns:*)", Some("a1"), ["2/12000/12", "2/12000/12"]),
        // No node may have the pod.
        ("anti(* @hostname ns:*) select:zone=c", None, ["0/0/0", "0/0/0"]),
    ] {
        let expected = expected.map(str::to_owned);
        assert_eq!(cost(&format!("pod d/p {pod}"), node), Some(expected), "{pod} {node:?}");
    }
}

#[test]
fn terms_that_exclude_no_pods_of_others_cost_nothing() {
    for pod in [
        "pod d/p app=web anti(app=web @hostname)",
        "pod d/p anti(* @zone ns=d)",
        "pod d/p aff(* @zone ns:*) prefer-anti(1 * @zone ns:*)",
        "pod kube-system/p rdrd-anti(* @zone ns:*)",
    ] {
        assert_eq!(cost(pod, None), None, "{pod}");
    }
}
