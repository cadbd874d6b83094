//! A resolved configuration as a `KubeSchedulerConfiguration`: every default is written out.

use core::time::Duration;

use serde_json::{Value, json};

use super::version::API_VERSION;
use super::{
    LeaderElectionConfig, Plugin, Profile, ResourceSpec, SchedulerConfig, ScoringStrategyKind,
    SpreadDefaulting, UtilizationShapePoint,
};
use berth_api::feature_gates::FeatureGates;

impl SchedulerConfig {
    /// The configuration with the plugins of each extension point and all arguments. [`SchedulerConfig::from_value`]
    /// reads it back.
    pub fn to_value(&self) -> Value {
        let connection = &self.process.client_connection;
        json!({
            "apiVersion": API_VERSION,
            "kind": "KubeSchedulerConfiguration",
            "podInitialBackoffSeconds": self.process.pod_initial_backoff.as_secs(),
            "podMaxBackoffSeconds": self.process.pod_max_backoff.as_secs(),
            "leaderElection": leader_election(&self.process.leader_election),
            "clientConnection": {
                "kubeconfig": connection.kubeconfig.as_deref().unwrap_or_default(),
                "qps": connection.qps.unwrap_or_default(),
                "burst": connection.burst.unwrap_or_default(),
            },
            "profiles": self.profiles.iter().map(|p| profile(p, self.feature_gates)).collect::<Vec<_>>(),
        })
    }
}

fn leader_election(election: &LeaderElectionConfig) -> Value {
    let seconds = |duration: Option<Duration>| format!("{}s", duration.unwrap_or_default().as_secs_f64());
    json!({
        "leaderElect": election.leader_elect,
        "leaseDuration": seconds(election.lease_duration),
        "renewDeadline": seconds(election.renew_deadline),
        "retryPeriod": seconds(election.retry_period),
        "resourceLock": "leases",
        "resourceName": election.resource_name.as_deref().unwrap_or_default(),
        "resourceNamespace": election.resource_namespace.as_deref().unwrap_or_default(),
    })
}

fn profile(profile: &Profile, gates: FeatureGates) -> Value {
    let all = [json!({"name": "*"})];
    let set = |enabled: Vec<Value>| json!({"enabled": enabled, "disabled": all});
    let names = |plugins: &[Plugin]| set(plugins.iter().map(|p| json!({"name": p.name()})).collect());
    let one =
        |name: &str, is_enabled: bool| set(is_enabled.then(|| json!({"name": name})).into_iter().collect());
    let score = profile.score.iter().map(|(plugin, weight)| json!({"name": plugin.name(), "weight": weight}));
    json!({
        "schedulerName": profile.scheduler_name,
        "plugins": {
            "preEnqueue": one(Plugin::SchedulingGates.name(), profile.scheduling_gates),
            "queueSort": one(Plugin::PrioritySort.name(), true),
            "preFilter": names(&profile.pre_filter),
            "filter": names(&profile.filter),
            "postFilter": one("DefaultPreemption", profile.preemption),
            "preScore": names(&profile.pre_score),
            "score": set(score.collect()),
            "bind": one("DefaultBinder", true),
        },
        "pluginConfig": arguments(profile, gates),
    })
}

fn arguments(profile: &Profile, gates: FeatureGates) -> Value {
    let fit = &profile.node_resources_fit;
    let mut strategy = json!({"resources": resources(&fit.scoring_strategy.resources)});
    match &fit.scoring_strategy.kind {
        ScoringStrategyKind::LeastAllocated => strategy["type"] = json!("LeastAllocated"),
        ScoringStrategyKind::MostAllocated => strategy["type"] = json!("MostAllocated"),
        ScoringStrategyKind::RequestedToCapacityRatio { shape } => {
            strategy["type"] = json!("RequestedToCapacityRatio");
            strategy["requestedToCapacityRatio"] = json!({"shape": points(shape)});
        }
    }
    let spread = match &profile.pod_topology_spread.defaulting {
        SpreadDefaulting::System => json!({"defaultingType": "System"}),
        SpreadDefaulting::List(constraints) => {
            json!({"defaultingType": "List", "defaultConstraints": constraints})
        }
    };
    let affinity = profile.node_affinity.added_affinity.as_ref();
    let pods = &profile.inter_pod_affinity;
    let mut inter_pod_affinity = json!({
        "hardPodAffinityWeight": pods.hard_pod_affinity_weight,
        "ignorePreferredTermsOfExistingPods": pods.ignore_preferred_terms_of_existing_pods,
    });
    if pods.ignore_preferred_anti_affinity_of_existing_pods {
        inter_pod_affinity["ignorePreferredAntiAffinityOfExistingPods"] = json!(true);
    }
    let args = [
        (Plugin::InterPodAffinity, inter_pod_affinity),
        (Plugin::NodeAffinity, affinity.map_or_else(|| json!({}), |added| json!({"addedAffinity": added}))),
        (
            Plugin::NodeResourcesFit,
            json!({
                "ignoredResources": fit.ignored_resources,
                "ignoredResourceGroups": fit.ignored_resource_groups,
                "scoringStrategy": strategy,
            }),
        ),
        (
            Plugin::NodeResourcesBalancedAllocation,
            json!({"resources": resources(&profile.balanced_allocation.resources)}),
        ),
        (Plugin::PodTopologySpread, spread),
    ];
    let args = args.into_iter().map(|(plugin, args)| (plugin.name(), args));
    let mut volumes = json!({"bindTimeoutSeconds": profile.volume_binding.bind_timeout_seconds});
    if gates.storage_capacity_scoring {
        volumes["shape"] = points(&profile.volume_binding.shape);
    }
    let mut devices = profile.dynamic_resources.to_value();
    if let Some(least_waste) = &profile.least_waste {
        devices["scoringStrategy"] =
            json!({"type": "LeastWaste", "linkAttributes": least_waste.link_attributes});
    }
    let preemption =
        profile.preempt_across_nodes.then(|| ("DefaultPreemption", json!({"preemptAcrossNodes": true})));
    let entry = |(name, args): (&str, Value)| json!({"name": name, "args": args});
    let args = args.chain([("VolumeBinding", volumes), ("DynamicResources", devices)]).chain(preemption);
    args.map(entry).collect()
}

fn points(shape: &[UtilizationShapePoint]) -> Value {
    shape.iter().map(|p| json!({"utilization": p.utilization, "score": p.score})).collect()
}

fn resources(resources: &[ResourceSpec]) -> Value {
    resources.iter().map(|r| json!({"name": r.name, "weight": r.weight})).collect()
}
