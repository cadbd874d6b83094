//! The result of a decision, as data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::object::VolumeDecision;
use berth_api::object::device::DeviceDecision;
use berth_input::config::Plugin;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::verdict::Rejection;

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is placed on this node.
    Placed {
        /// Node name.
        node: String,
        /// The score of the node: the sum over the plugins of 0 to 100 times the weight; none for a pod that ran there
        /// before.
        score: Option<i64>,
        /// How its claims are bound that are not bound yet; none if there is nothing to do.
        volumes: Option<Box<VolumeDecision>>,
        /// What is done about its claims of devices; none if it has none.
        devices: Option<Box<DeviceDecision>>,
    },
    /// The pod fits on no node now.
    Unschedulable {
        /// kube-scheduler's message.
        message: String,
        /// The plugins that reject the pod or nodes, each once, in default order.
        plugins: Vec<Plugin>,
    },
    /// The pod has scheduling gates.
    Gated {
        /// Their names.
        gates: Vec<String>,
    },
    /// The scores cannot be computed, or no profile has the scheduler name of the pod.
    Failed {
        /// Why.
        error: String,
    },
}

impl Outcome {
    /// The pod is on a node already, or goes there without a decision about it.
    pub fn on(node: String) -> Outcome {
        Outcome::Placed { node, score: None, volumes: None, devices: None }
    }

    /// The node, if the pod is placed.
    pub fn node(&self) -> Option<&str> {
        match self {
            Outcome::Placed { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Why the pod is not placed, in kube-scheduler's words; empty if it is.
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Outcome::Placed { .. } => Cow::Borrowed(""),
            Outcome::Unschedulable { message, .. } => Cow::Borrowed(message),
            Outcome::Gated { gates } => Cow::Owned(
                format!("Scheduling is blocked due to scheduling gates: {gates:?}").replace('"', ""),
            ),
            Outcome::Failed { error } => Cow::Borrowed(error),
        }
    }
}

impl Serialize for Outcome {
    /// As an object with the members `node` and `message`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Outcome", 2)?;
        members.serialize_field("node", &self.node())?;
        members.serialize_field("message", &self.message())?;
        members.end()
    }
}

/// A decision with the results of every node.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The result of the decision.
    pub outcome: Outcome,
    /// The rejection before any node was filtered.
    pub pre_filter: Option<Rejection>,
    /// The result of every node, by name.
    pub nodes: BTreeMap<String, NodeEvaluation>,
    /// The names of the nodes with the highest total, sorted.
    pub best: Vec<String>,
}

/// The result of the rules for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvaluation {
    /// Excluded by this plugin before the filters ran.
    NotConsidered(Plugin),
    /// Rejected; this is the first rejection in the order of the profile.
    Rejected(Rejection),
    /// It is feasible.
    Feasible(NodeScore),
}

/// Scores of a feasible node. Each plugin scores 0 to 100, times its weight; the total is the sum.
///
/// ```
/// # use berth_input::inventory::Inventory;
/// # use berth_engine::{Cluster, Settings};
/// # let objects = Inventory::from_text(
/// #     "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}}
/// # ---
/// # {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [
/// #   {name: web, image: web, resources: {requests: {cpu: 1500m}}}]}}",
/// # )?;
/// # let mut cluster = Cluster::new(Settings::default());
/// # cluster.set_node(&objects.nodes[0].object);
/// # let pod = &objects.pods[0].object;
/// use berth_engine::NodeEvaluation;
///
/// let prepared = cluster.prepare(pod);
/// let evaluation = cluster.evaluate(&prepared);
/// let NodeEvaluation::Feasible(score) = &evaluation.nodes["a"] else { panic!("the pod fits") };
/// assert_eq!(score.total, score.by_plugin.iter().map(|(_, score)| score).sum::<i64>());
/// // The mean of 62 % free CPU (1.5 of 4 cores requested) and 97 % free memory (the default request), times weight 1.
/// let fit = score.by_plugin.iter().find(|(plugin, _)| plugin.name() == "NodeResourcesFit");
/// assert_eq!(fit.map(|(_, score)| *score), Some(79));
/// # Ok::<(), berth_input::inventory::InputError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeScore {
    /// Normalized score (0 to 100) times the weight, by plugin in the order of the profile. Plugins that do not concern
    /// the pod are absent.
    pub by_plugin: Vec<(Plugin, i64)>,
    /// Their sum.
    pub total: i64,
}
