//! Well-known labels of nodes.

/// The name of the node as its kubelet knows it: the topology key of single nodes.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

pub const ZONE: &str = "topology.kubernetes.io/zone";

pub const REGION: &str = "topology.kubernetes.io/region";

/// The operating system of the node, which its kubelet sets.
pub const OS: &str = "kubernetes.io/os";

/// The labels of single nodes, zones and regions: from the smallest domains to the largest.
pub const NESTED_TOPOLOGIES: [&str; 3] = [HOSTNAME, ZONE, REGION];

/// Labels in the domains of Kubernetes that a kubelet may set (`k8s.io/kubelet/pkg/apis`).
const WELL_KNOWN: [&str; 11] = [
    HOSTNAME,
    "kubernetes.io/arch",
    OS,
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    REGION,
    ZONE,
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
];

/// Whether a kubelet may set the label with this key on its own node. The admission plugin `NodeRestriction` reserves the
/// others.
pub fn kubelet_may_set(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_within =
        |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if is_within("node-restriction.kubernetes.io") {
        return false;
    }
    !(is_within("kubernetes.io") || is_within("k8s.io"))
        || is_within("kubelet.kubernetes.io")
        || is_within("node.kubernetes.io")
        || WELL_KNOWN.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_may_set_some_labels() {
        for (key, may) in [
            ("color", true),
            ("example.com/color", true),
            ("kubernetes.io/hostname", true),
            ("topology.kubernetes.io/zone", true),
            ("kubelet.kubernetes.io/x", true),
            ("sub.node.kubernetes.io/x", true),
            ("node-role.kubernetes.io/control-plane", false),
            ("node-restriction.kubernetes.io/x", false),
            ("a.node-restriction.kubernetes.io/x", false),
            ("kubernetes.io/other", false),
            ("x.k8s.io/y", false),
            ("notkubernetes.io/y", true),
        ] {
            assert_eq!(kubelet_may_set(key), may, "{key}");
        }
    }
}
