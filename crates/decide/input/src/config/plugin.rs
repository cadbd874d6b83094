//! The plugins that Berth implements: one row for each, with its extension points and its weight.

use Point::*;
use berth_api::feature_gates::KubernetesVersion::{self, V1_37, V1_38};

/// A stage of scheduling that plugins take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
    PlacementFeasible,
    PodGroupPostFilter,
}

impl Point {
    pub(super) const ALL: [Point; 16] = [
        Point::PreEnqueue,
        Point::QueueSort,
        Point::PreFilter,
        Point::Filter,
        Point::PostFilter,
        Point::PreScore,
        Point::Score,
        Point::Reserve,
        Point::Permit,
        Point::PreBind,
        Point::Bind,
        Point::PostBind,
        Point::PlacementGenerate,
        Point::PlacementScore,
        Point::PlacementFeasible,
        Point::PodGroupPostFilter,
    ];

    /// The first version with the point, and what plugins do there, if a supported version lacks it.
    pub(super) fn since(self) -> Option<(KubernetesVersion, &'static str)> {
        match self {
            Point::PlacementFeasible => Some((V1_38, "tells whether a group fits into a placement")),
            Point::PodGroupPostFilter => Some((V1_37, "preempts pods for groups")),
            _ => None,
        }
    }

    pub(super) fn field(self) -> &'static str {
        match self {
            Point::PreEnqueue => "preEnqueue",
            Point::QueueSort => "queueSort",
            Point::PreFilter => "preFilter",
            Point::Filter => "filter",
            Point::PostFilter => "postFilter",
            Point::PreScore => "preScore",
            Point::Score => "score",
            Point::Reserve => "reserve",
            Point::Permit => "permit",
            Point::PreBind => "preBind",
            Point::Bind => "bind",
            Point::PostBind => "postBind",
            Point::PlacementGenerate => "placementGenerate",
            Point::PlacementScore => "placementScore",
            Point::PlacementFeasible => "placementFeasible",
            Point::PodGroupPostFilter => "podGroupPostFilter",
        }
    }
}

macro_rules! plugins {
    ($($(#[doc = $doc:literal])+ $plugin:ident: [$($point:ident),+] $(weight $weight:literal)?;)+) => {
        /// A plugin that Berth implements, named as in kube-scheduler.
        ///
        /// The order is that of kube-scheduler's default configuration, which is the order filters run in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Plugin {
            $($(#[doc = $doc])+ $plugin,)+
        }

        impl Plugin {
            /// All plugins, in default order.
            pub const ALL: [Plugin; [$(Plugin::$plugin),+].len()] = [$(Plugin::$plugin),+];

            /// Its name in kube-scheduler.
            pub fn name(self) -> &'static str {
                match self {
                    $(Plugin::$plugin => stringify!($plugin),)+
                }
            }

            /// The extension points the plugin takes part in.
            pub(super) fn points(self) -> &'static [Point] {
                match self {
                    $(Plugin::$plugin => &[$($point),+],)+
                }
            }

            /// Weight at `score` in the default configuration.
            pub(super) fn default_weight(self) -> i64 {
                match self {
                    $($(Plugin::$plugin => $weight,)?)+
                    _ => 1,
                }
            }
        }
    };
}

plugins! {
    /// Keeps pods with scheduling gates out of the queue.
    SchedulingGates: [PreEnqueue];
    /// Orders the queue by priority.
    PrioritySort: [QueueSort];
    /// Cordoned nodes.
    NodeUnschedulable: [Filter];
    /// `spec.nodeName`.
    NodeName: [Filter];
    /// Taints and tolerations.
    TaintToleration: [Filter, PreScore, Score] weight 3;
    /// Node selector and node affinity.
    NodeAffinity: [PreFilter, Filter, PreScore, Score] weight 2;
    /// Host ports.
    NodePorts: [PreFilter, Filter];
    /// Requests against allocatable.
    NodeResourcesFit: [PreFilter, Filter, PreScore, Score];
    /// Disks and claims that one pod at a time may use.
    VolumeRestrictions: [PreFilter, Filter];
    /// The number of volumes that a CSI driver attaches to a node.
    NodeVolumeLimits: [PreFilter, Filter];
    /// Bound volumes, and claims to be bound or provisioned.
    VolumeBinding: [PreFilter, Filter, PreScore, Score];
    /// Zones of bound volumes.
    VolumeZone: [PreFilter, Filter];
    /// Topology spread constraints.
    PodTopologySpread: [PreFilter, Filter, PreScore, Score] weight 2;
    /// Inter-pod affinity and anti-affinity.
    InterPodAffinity: [PreFilter, Filter, PreScore, Score] weight 2;
    /// Claims of devices, and extended resources that devices provide.
    DynamicResources: [PreFilter, Filter, Score] weight 2;
    /// Balance between the resources of a node.
    NodeResourcesBalancedAllocation: [PreScore, Score];
    /// Images present on the node.
    ImageLocality: [Score];
    /// Features that the node's kubelet declares.
    NodeDeclaredFeatures: [PreFilter, Filter];
}

impl Plugin {
    /// The plugin with this name in kube-scheduler, if Berth implements it.
    pub fn from_name(name: &str) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|p| p.name() == name)
    }
}
