//! HorizontalPodAutoscalers, and what they read: scales, pods and metrics.

use std::collections::BTreeMap;

use berth_api::object::{Container, ResourceRequirements};
use berth_api::syntax::quantity::Quantity;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Condition, Object, ObjectMeta, time};

pub(crate) type HorizontalPodAutoscaler = Object<HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus>;
/// A pod with its requests, which the shared cache does not keep.
pub(crate) type ScaledPod = Object<ScaledPodSpec, ScaledPodStatus>;

berth_api::object_types! {
    pub(crate) struct HorizontalPodAutoscalerSpec {
        pub(crate) scale_target_ref: ScaleTarget,
        pub(crate) min_replicas: Option<i32>,
        pub(crate) max_replicas: i32,
        pub(crate) metrics: Vec<MetricSpec>,
        pub(crate) behavior: Behavior,
    }

    pub(crate) struct ScaleTarget {
        pub(crate) api_version: String,
        pub(crate) kind: String,
        pub(crate) name: String,
    }

    pub(crate) struct MetricSpec {
        #[serde(rename = "type")]
        pub(crate) kind: String,
        pub(crate) resource: Option<ResourceMetric>,
        pub(crate) container_resource: Option<ResourceMetric>,
        pub(crate) pods: Option<PodsMetric>,
    }

    pub(crate) struct PodsMetric {
        pub(crate) metric: MetricIdentifier,
        pub(crate) target: MetricTarget,
    }

    pub(crate) struct MetricIdentifier {
        pub(crate) name: String,
    }

    pub(crate) struct ResourceMetric {
        pub(crate) name: String,
        pub(crate) container: String,
        pub(crate) target: MetricTarget,
    }

    pub(crate) struct MetricTarget {
        pub(crate) average_utilization: Option<i32>,
        pub(crate) average_value: Option<Quantity>,
    }

    pub(crate) struct Behavior {
        pub(crate) scale_up: ScalingRules,
        pub(crate) scale_down: ScalingRules,
    }

    pub(crate) struct ScalingRules {
        pub(crate) stabilization_window_seconds: Option<i32>,
        pub(crate) select_policy: Option<String>,
        pub(crate) policies: Vec<ScalingPolicy>,
        pub(crate) tolerance: Option<Quantity>,
    }

    pub(crate) struct ScalingPolicy {
        /// `Pods` or `Percent`.
        #[serde(rename = "type")]
        pub(crate) kind: String,
        pub(crate) value: i32,
        pub(crate) period_seconds: i32,
    }

    #[derive(PartialEq, Eq, Serialize)]
    pub(crate) struct HorizontalPodAutoscalerStatus {
        pub(crate) observed_generation: i64,
        pub(crate) current_replicas: i32,
        pub(crate) desired_replicas: i32,
        pub(crate) current_metrics: Vec<Value>,
        pub(crate) conditions: Vec<Condition>,
        ;
        #[serde(with = "time", skip_serializing_if = "Option::is_none")]
        pub(crate) last_scale_time: Option<Timestamp>,
    }

    /// `autoscaling/v1` Scale of a workload.
    pub(crate) struct Scale {
        pub(crate) spec: ScaleSpec,
        pub(crate) status: ScaleStatus,
    }

    pub(crate) struct ScaleSpec {
        pub(crate) replicas: i32,
    }

    pub(crate) struct ScaleStatus {
        /// In the form of a query.
        pub(crate) selector: String,
    }

    pub(crate) struct ScaledPodList {
        pub(crate) items: Vec<ScaledPod>,
    }

    pub(crate) struct PodMetricsList {
        pub(crate) items: Vec<PodMetrics>,
    }

    pub(crate) struct ScaledPodSpec {
        pub(crate) init_containers: Vec<Container>,
        pub(crate) containers: Vec<Container>,
        pub(crate) resources: Option<ResourceRequirements>,
    }

    pub(crate) struct ScaledPodStatus {
        pub(crate) phase: String,
        pub(crate) conditions: Vec<Condition>,
        ;
        #[serde(with = "time")]
        pub(crate) start_time: Option<Timestamp>,
    }

    /// `metrics.k8s.io/v1beta1` PodMetrics.
    pub(crate) struct PodMetrics {
        pub(crate) metadata: ObjectMeta,
        pub(crate) window: String,
        pub(crate) containers: Vec<ContainerMetrics>,
        ;
        #[serde(with = "time")]
        pub(crate) timestamp: Option<Timestamp>,
    }

    pub(crate) struct ContainerMetrics {
        pub(crate) name: String,
        pub(crate) usage: BTreeMap<String, Quantity>,
    }
}

impl HorizontalPodAutoscaler {
    pub(crate) fn min_replicas(&self) -> i32 {
        self.spec.min_replicas.unwrap_or(1)
    }
}
