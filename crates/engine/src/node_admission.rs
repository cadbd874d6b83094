//! Node admission: what a node checks itself when a pod arrives.

use berth_api::object::Pod;

use crate::state::cluster::Cluster;

/// Why a node does not admit a pod, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRejection {
    /// `status.reason` of the pod that fails: `NodeAffinity`, `OutOfcpu`, `NodePorts`, ...
    pub reason: String,
    /// `status.message` of the pod that fails.
    pub message: String,
}

impl Cluster {
    /// Whether a node admits a pod that is bound to it.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn node_admission(&mut self, pod: &Pod, node_name: &str) -> Result<(), NodeRejection> {
        let mut prepared = self.prepare(pod);
        prepared.node_name = None;
        prepared.gates.clear();
        if prepared.unknown_scheduler.is_some() || self.fits_on(&prepared, node_name) {
            return Ok(());
        }
        Err(NodeRejection {
            reason: "UnexpectedAdmissionError".to_owned(),
            message: format!("the pod does not fit on node {node_name}"),
        })
    }
}
