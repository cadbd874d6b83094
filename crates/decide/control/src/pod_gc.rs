//! Pods that no other component ends: the collector deletes them without a grace period.

use core::time::Duration;

use berth_api::object::Taint;
use jiff::Timestamp;

/// How long a node is missing before the pods that name it are deleted.
pub const QUARANTINE: Duration = Duration::from_secs(40);

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The node of a pod, as the collector looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNode {
    /// No scheduler has selected one.
    None,
    Missing,
    /// It is not ready, and a taint says that nothing runs there any more.
    OutOfService,
    InService,
}

impl PodNode {
    /// An existing node.
    pub fn of<'t>(is_ready: bool, mut taints: impl Iterator<Item = &'t Taint>) -> PodNode {
        match !is_ready && taints.any(|taint| taint.key == OUT_OF_SERVICE) {
            true => PodNode::OutOfService,
            false => PodNode::InService,
        }
    }
}

/// Whether a pod is deleted; on a missing node, after [`QUARANTINE`].
pub fn is_garbage(is_deleting: bool, node: PodNode) -> bool {
    match node {
        PodNode::Missing => true,
        PodNode::None | PodNode::OutOfService => is_deleting,
        PodNode::InService => false,
    }
}

/// The order in which pods that have ended are deleted where there are too many.
pub type Age<'a> = (bool, Option<Timestamp>, &'a str);

/// The age of a pod; those with the lowest go first. Those that a kubelet has evicted are not missed by controllers.
pub fn age<'a>(phase: &str, reason: &str, created: Option<Timestamp>, name: &'a str) -> Age<'a> {
    (phase != "Failed" || reason != "Evicted", created, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_garbage_by_their_nodes() {
        let taint = |key: &str| Taint { key: key.into(), value: String::new(), effect: "NoExecute".into() };
        let out = [taint("other"), taint("node.kubernetes.io/out-of-service")];
        for (is_deleting, node, expected) in [
            (false, PodNode::None, false),
            (true, PodNode::None, true),
            (false, PodNode::Missing, true),
            (true, PodNode::of(true, out.iter()), false),
            (true, PodNode::of(false, out.iter()), true),
            (false, PodNode::of(false, out.iter()), false),
            (true, PodNode::of(false, out[..1].iter()), false),
        ] {
            assert_eq!(is_garbage(is_deleting, node), expected, "{is_deleting} {node:?}");
        }
    }
}
