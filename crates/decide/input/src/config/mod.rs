//! `KubeSchedulerConfiguration` v1: which plugins run, with which arguments and weights.
//!
//! A configuration is resolved once, when it is read: defaults are set, `multiPoint` is expanded, disabled plugins are
//! removed. The result are the [`Profile`]s that the engine uses.

mod args;
mod device_scoring;
mod devices;
mod parse;
mod plugin;
mod plugins;
mod process;
mod selector;
mod show;
#[cfg(test)]
mod tests;
mod version;

pub use berth_api::read::fields::{ConfigErrors, ConfigMessage};
pub use device_scoring::LeastWaste;
pub use devices::DynamicResourcesArgs;
pub use plugin::Plugin;
pub use process::{ClientConnectionConfig, LeaderElectionConfig, ProcessConfig};

use std::sync::Arc;

use self::plugin::Point;
use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NodeAffinity, TopologySpreadConstraint};

/// The default of `spec.schedulerName`.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// A resolved scheduler configuration: at least one profile, names unique.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfig {
    /// The profiles, in the order of the file.
    pub profiles: Vec<Profile>,
    pub process: ProcessConfig,
    /// The feature gates. They are not part of the file.
    pub feature_gates: FeatureGates,
}

impl SchedulerConfig {
    /// The profile that decides for pods with this `spec.schedulerName` (empty means the default name).
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        let name = if scheduler_name.is_empty() { DEFAULT_SCHEDULER_NAME } else { scheduler_name };
        self.profiles.iter().find(|p| p.scheduler_name == name)
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        SchedulerConfig {
            profiles: vec![Profile::default()],
            process: ProcessConfig::default(),
            feature_gates: FeatureGates::default(),
        }
    }
}

/// One scheduling profile: plugins by extension point, and their arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Pods with this `spec.schedulerName` are decided by this profile.
    pub scheduler_name: String,
    /// Whether scheduling gates are respected (`SchedulingGates` at `preEnqueue`).
    pub scheduling_gates: bool,
    /// Whether an unschedulable pod preempts pods of lower priority (`DefaultPreemption` at `postFilter`).
    pub preemption: bool,
    /// Extension: whether pods on several nodes are preempted where those of one node do not help (an argument of
    /// `DefaultPreemption`).
    pub preempt_across_nodes: bool,
    /// Plugins at `preFilter`, in order.
    pub pre_filter: Vec<Plugin>,
    /// Plugins at `filter`, in order: the first to reject a node gives the reason.
    pub filter: Vec<Plugin>,
    /// Plugins at `preScore`, in order.
    pub pre_score: Vec<Plugin>,
    /// Plugins at `score` with their weights (at least 1), in order.
    pub score: Vec<(Plugin, i64)>,
    pub inter_pod_affinity: InterPodAffinityArgs,
    pub node_affinity: NodeAffinityArgs,
    pub node_resources_fit: NodeResourcesFitArgs,
    pub balanced_allocation: BalancedAllocationArgs,
    pub pod_topology_spread: PodTopologySpreadArgs,
    pub volume_binding: VolumeBindingArgs,
    pub dynamic_resources: DynamicResourcesArgs,
    /// Extension: the scoring strategy of `DynamicResources`; none as in kube-scheduler.
    pub least_waste: Option<Arc<LeastWaste>>,
}

impl Default for Profile {
    /// kube-scheduler 1.36 without a configuration file.
    fn default() -> Self {
        let at = |point| Plugin::ALL.into_iter().filter(move |plugin| plugin.points().contains(&point));
        Profile {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            scheduling_gates: true,
            preemption: true,
            preempt_across_nodes: false,
            pre_filter: at(Point::PreFilter).collect(),
            filter: at(Point::Filter).collect(),
            pre_score: at(Point::PreScore).collect(),
            score: at(Point::Score).map(|plugin| (plugin, plugin.default_weight())).collect(),
            inter_pod_affinity: InterPodAffinityArgs::default(),
            node_affinity: NodeAffinityArgs::default(),
            node_resources_fit: NodeResourcesFitArgs::default(),
            balanced_allocation: BalancedAllocationArgs::default(),
            pod_topology_spread: PodTopologySpreadArgs::default(),
            volume_binding: VolumeBindingArgs::default(),
            dynamic_resources: DynamicResourcesArgs::default(),
            least_waste: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// Weight (0 to 100) of the required affinity of running pods as a preference of other pods.
    pub hard_pod_affinity_weight: i64,
    /// Whether preferences of running pods are ignored for pods without inter-pod preferences.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// Extension: whether preferred anti-affinity of running pods is ignored, so that it is not symmetric.
    pub ignore_preferred_anti_affinity_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        InterPodAffinityArgs {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            ignore_preferred_anti_affinity_of_existing_pods: false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAffinityArgs {
    /// Node affinity added to every pod of the profile.
    pub added_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that the filter ignores.
    pub ignored_resources: Vec<String>,
    /// Groups (`example.com` of `example.com/gpu`) of extended resources that the filter ignores.
    pub ignored_resource_groups: Vec<String>,
    pub scoring_strategy: ScoringStrategy,
}

impl Default for NodeResourcesFitArgs {
    fn default() -> Self {
        NodeResourcesFitArgs {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            scoring_strategy: ScoringStrategy {
                kind: ScoringStrategyKind::LeastAllocated,
                resources: cpu_and_memory(),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoringStrategy {
    pub kind: ScoringStrategyKind,
    /// The resources that count, with weights.
    pub resources: Vec<ResourceSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoringStrategyKind {
    /// Emptier nodes score higher.
    LeastAllocated,
    /// Fuller nodes score higher.
    MostAllocated,
    /// A piecewise linear function of the utilization, scores 0 to 10 at utilizations 0 to 100.
    RequestedToCapacityRatio {
        /// Points by ascending utilization.
        shape: Vec<UtilizationShapePoint>,
    },
}

/// A point of `requestedToCapacityRatio.shape`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtilizationShapePoint {
    /// Percent, 0 to 100.
    pub utilization: i64,
    pub score: i64,
}

/// A resource with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceSpec {
    pub name: String,
    /// 1 to 100.
    pub weight: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancedAllocationArgs {
    pub resources: Vec<ResourceSpec>,
}

impl Default for BalancedAllocationArgs {
    fn default() -> Self {
        BalancedAllocationArgs { resources: cpu_and_memory() }
    }
}

fn cpu_and_memory() -> Vec<ResourceSpec> {
    ["cpu", "memory"].map(|name| ResourceSpec { name: name.to_owned(), weight: 1 }).to_vec()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTopologySpreadArgs {
    /// The constraints of pods that have none.
    pub defaulting: SpreadDefaulting,
}

/// `defaultingType` and `defaultConstraints`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpreadDefaulting {
    /// kube-scheduler's own: zone with skew 5 and hostname with skew 3, both `ScheduleAnyway`.
    #[default]
    System,
    /// These (possibly none), without label selectors.
    List(Vec<TopologySpreadConstraint>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// How long a pod waits until its volumes are bound, in seconds.
    pub bind_timeout_seconds: i64,
    /// The score of a node by the utilization of its storage, with the gate `StorageCapacityScoring`: points by ascending
    /// utilization.
    pub shape: Vec<UtilizationShapePoint>,
}

impl Default for VolumeBindingArgs {
    fn default() -> Self {
        let points = [(0, 10), (100, 0)];
        let point = |(utilization, score)| UtilizationShapePoint { utilization, score };
        VolumeBindingArgs { bind_timeout_seconds: 600, shape: points.map(point).to_vec() }
    }
}
