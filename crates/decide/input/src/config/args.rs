//! `pluginConfig`: the arguments of plugins, with kube-scheduler's defaults and validation.

use std::sync::Arc;

use super::plugins::is_known_plugin;
use super::process::warn_without_effect;
use super::selector::read_node_affinity;
use super::version::{API_VERSION, is_readable_version};
use super::{
    BalancedAllocationArgs, DynamicResourcesArgs, InterPodAffinityArgs, LeastWaste, NodeResourcesFitArgs,
    PodTopologySpreadArgs, Profile, ResourceSpec, ScoringStrategy, ScoringStrategyKind, SpreadDefaulting,
    UtilizationShapePoint, VolumeBindingArgs, cpu_and_memory,
};
use berth_api::object::TopologySpreadConstraint;
use berth_api::read::fields::{Fields, Findings, Kind, Node};
use berth_api::syntax::label_key;

impl Profile {
    pub(super) fn read_plugin_config(&mut self, fields: &mut Fields<'_>) {
        let mut seen: Vec<&str> = Vec::new();
        for entry in fields.items("pluginConfig") {
            let Some(mut entry) = entry.fields() else { continue };
            let name = entry.required_string("name").filter(is_known_plugin);
            let args = entry.get("args");
            entry.finish();
            let Some(name) = name else { continue };
            let Some(plugin) = name.string() else { continue };
            if seen.contains(&plugin) {
                name.error(format!("Duplicate value: {plugin:?}"));
                continue;
            }
            seen.push(plugin);
            if let Some(args) = args {
                self.read_args(plugin, &args);
            }
        }
    }

    fn read_args(&mut self, plugin: &str, node: &Node<'_>) {
        let Some(mut args) = node.fields() else { return };
        read_type(&mut args, plugin);
        match plugin {
            "InterPodAffinity" => self.inter_pod_affinity = inter_pod_affinity(&mut args),
            "NodeAffinity" => {
                self.node_affinity.added_affinity =
                    args.get("addedAffinity").and_then(|affinity| read_node_affinity(&affinity));
            }
            "NodeResourcesFit" => self.node_resources_fit = node_resources_fit(&mut args),
            "NodeResourcesBalancedAllocation" => self.balanced_allocation = balanced_allocation(&mut args),
            "PodTopologySpread" => self.pod_topology_spread = pod_topology_spread(&mut args),
            "DefaultPreemption" => {
                for name in ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"] {
                    args.accept(&[(name, Kind::Int)]);
                    warn_without_effect(args.get(name), "all nodes are candidates");
                }
                self.preempt_across_nodes = args.extension_flag("preemptAcrossNodes");
            }
            "VolumeBinding" => self.volume_binding = volume_binding(&mut args),
            "DynamicResources" => {
                self.dynamic_resources = DynamicResourcesArgs::read(&mut args);
                let strategy = args.get("scoringStrategy").filter(|strategy| strategy.is_extension_enabled());
                if let Some(mut strategy) = strategy.and_then(|strategy| strategy.fields()) {
                    self.least_waste = Some(Arc::new(LeastWaste::read(&mut strategy)));
                    strategy.finish();
                }
            }
            _ => {
                node.findings
                    .warn(node.path.as_str(), format!("{plugin} takes no arguments; they are ignored"));
                return;
            }
        }
        args.finish();
    }
}

/// `apiVersion` and `kind` of an argument object, which may be left out or empty.
fn read_type(args: &mut Fields<'_>, plugin: &str) {
    if let Some(version) = args.get("apiVersion")
        && let Some(text) = version.string().filter(|text| !text.is_empty())
        && !is_readable_version(text)
    {
        version.invalid(&format!("must be {:?}", API_VERSION));
    }
    if let Some(kind) = args.get("kind")
        && let Some(text) = kind.string().filter(|text| !text.is_empty())
        && text.strip_suffix("Args") != Some(plugin)
    {
        kind.invalid(&format!("must be \"{plugin}Args\" for plugin {plugin}"));
    }
}

fn volume_binding(args: &mut Fields<'_>) -> VolumeBindingArgs {
    let mut binding = VolumeBindingArgs::default();
    if let Some(node) = args.get("bindTimeoutSeconds") {
        match node.int64() {
            Some(seconds @ 0..) => binding.bind_timeout_seconds = seconds,
            Some(_) => node.invalid("invalid BindTimeoutSeconds, should not be a negative value"),
            None => {}
        }
    }
    let shape = args.get("shape").filter(|shape| !shape.value.is_null());
    if let Some(shape) = shape.filter(|_| !args.findings.feature_gates.storage_capacity_scoring) {
        // What Kubernetes writes from 1.37 on.
        if shape_points(shape.items()) == binding.shape {
            let text = "is ignored: nodes are scored by storage capacity with the feature gate StorageCapacityScoring, which is on in \
                        Kubernetes 1.37";
            shape.findings.warn(shape.path.as_str(), text);
        } else {
            shape.invalid(
                "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
            );
        }
    }
    let points = shape_points(args.items("shape"));
    if !points.is_empty() {
        binding.shape = points;
    }
    binding
}

fn inter_pod_affinity(args: &mut Fields<'_>) -> InterPodAffinityArgs {
    let default = InterPodAffinityArgs::default();
    InterPodAffinityArgs {
        hard_pod_affinity_weight: args
            .get("hardPodAffinityWeight")
            .and_then(|weight| weight.int_between(0, 100))
            .map_or(default.hard_pod_affinity_weight, i64::from),
        ignore_preferred_terms_of_existing_pods: args
            .get("ignorePreferredTermsOfExistingPods")
            .and_then(|flag| flag.bool())
            .unwrap_or_default(),
        ignore_preferred_anti_affinity_of_existing_pods: args
            .extension_flag("ignorePreferredAntiAffinityOfExistingPods"),
    }
}

fn node_resources_fit(args: &mut Fields<'_>) -> NodeResourcesFitArgs {
    let mut fit = NodeResourcesFitArgs::default();
    if let Some(list) = args.get("ignoredResources") {
        fit.ignored_resources = list.strings();
        check_names(&list);
    }
    if let Some(list) = args.get("ignoredResourceGroups") {
        fit.ignored_resource_groups = list.strings();
        for group in list.items().iter().filter(|g| g.value.as_str().is_some_and(|g| g.contains('/'))) {
            group.invalid("resource group name can't contain '/'");
        }
        check_names(&list);
    }
    if let Some(mut strategy) = args.get("scoringStrategy").and_then(|node| node.fields()) {
        fit.scoring_strategy = scoring_strategy(&mut strategy);
        strategy.finish();
    }
    fit
}

fn check_names(list: &Node<'_>) {
    for item in list.items() {
        for problem in item.value.as_str().map(label_key).unwrap_or_default() {
            item.invalid(&problem);
        }
    }
}

fn scoring_strategy(fields: &mut Fields<'_>) -> ScoringStrategy {
    const TYPES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];
    let kind = one_of(fields, "type", &TYPES, None);
    let resources = resources(fields, 100);
    let ratio = fields.get("requestedToCapacityRatio");
    let ratio_path = fields.path_of("requestedToCapacityRatio");
    let kind = match (kind, ratio) {
        (Some("RequestedToCapacityRatio"), None) => {
            let text = "Required value: must be specified when type is RequestedToCapacityRatio";
            fields.findings.error(ratio_path, text);
            ScoringStrategyKind::LeastAllocated
        }
        (Some("RequestedToCapacityRatio"), Some(ratio)) => {
            ScoringStrategyKind::RequestedToCapacityRatio { shape: ratio_shape(&ratio) }
        }
        (kind, ratio) => {
            if let Some(ratio) = ratio {
                ratio.error("Forbidden: must be nil when type is not RequestedToCapacityRatio");
            }
            match kind {
                Some("MostAllocated") => ScoringStrategyKind::MostAllocated,
                _ => ScoringStrategyKind::LeastAllocated,
            }
        }
    };
    ScoringStrategy { kind, resources }
}

fn ratio_shape(ratio: &Node<'_>) -> Vec<UtilizationShapePoint> {
    let Some(mut fields) = ratio.fields() else { return Vec::new() };
    let points = fields.items("shape");
    if points.is_empty() {
        fields
            .findings
            .error(fields.path_of("shape"), "Required value: at least one point must be specified");
    }
    fields.finish();
    shape_points(points)
}

/// Points of a shape function: utilizations 0 to 100 and ascending, scores 0 to 10.
fn shape_points(points: Vec<Node<'_>>) -> Vec<UtilizationShapePoint> {
    let mut shape: Vec<UtilizationShapePoint> = Vec::new();
    for point in points {
        let Some(mut fields) = point.fields() else { continue };
        let utilization = fields.get("utilization");
        let within = |node: Option<Node<'_>>, high| node.map_or(Some(0), |n| n.int_between(0, high));
        let read = (within(utilization.clone(), 100), within(fields.get("score"), 10));
        fields.finish();
        let (Some(x), Some(score)) = read else { continue };
        if shape.last().is_some_and(|last| last.utilization >= i64::from(x)) {
            utilization.unwrap_or(point).invalid("values must be sorted in increasing order");
        }
        shape.push(UtilizationShapePoint { utilization: x.into(), score: score.into() });
    }
    shape
}

/// `resources`: cpu and memory when empty; a weight that is absent or 0 is 1.
fn resources(fields: &mut Fields<'_>, highest_weight: i64) -> Vec<ResourceSpec> {
    let mut resources = Vec::new();
    for item in fields.items("resources") {
        let Some(mut resource) = item.fields() else { continue };
        let name = resource.required_string("name");
        let mut weight = 1;
        if let Some(node) = resource.get("weight") {
            weight = node.int64().filter(|w| *w != 0).unwrap_or(1);
            if weight < 1 || weight > highest_weight {
                node.invalid(&match highest_weight {
                    1 => "must be 1".to_owned(),
                    _ => format!("not in valid range (0, {highest_weight}]"),
                });
            }
        }
        resource.finish();
        if let Some(name) = name.and_then(|name| name.string()) {
            resources.push(ResourceSpec { name: name.to_owned(), weight });
        }
    }
    if resources.is_empty() { cpu_and_memory() } else { resources }
}

fn balanced_allocation(args: &mut Fields<'_>) -> BalancedAllocationArgs {
    let resources = resources(args, 1);
    for (i, resource) in resources.iter().enumerate() {
        if resources[..i].iter().any(|earlier| earlier.name == resource.name) {
            let path = format!("{}[{i}].name", args.path_of("resources"));
            args.findings.error(path, format!("Duplicate value: {:?}", resource.name));
        }
    }
    BalancedAllocationArgs { resources }
}

fn pod_topology_spread(args: &mut Fields<'_>) -> PodTopologySpreadArgs {
    let defaulting = one_of(args, "defaultingType", &["System", "List"], Some("System"));
    let mut constraints: Vec<TopologySpreadConstraint> = Vec::new();
    for node in args.items("defaultConstraints") {
        let Some(constraint) = default_constraint(&node) else { continue };
        let same = |c: &TopologySpreadConstraint| {
            c.topology_key == constraint.topology_key && c.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if constraints.iter().any(same) {
            let pair = format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable);
            node.error(format!("Duplicate value: {pair:?}"));
        }
        constraints.push(constraint);
    }
    if defaulting != Some("System") {
        return PodTopologySpreadArgs { defaulting: SpreadDefaulting::List(constraints) };
    }
    if !constraints.is_empty() {
        let text = "Invalid value: \"System\": when .defaultConstraints are not empty; set defaultingType to \"List\"";
        args.findings.error(args.path_of("defaultingType"), text);
    }
    PodTopologySpreadArgs { defaulting: SpreadDefaulting::System }
}

fn default_constraint(node: &Node<'_>) -> Option<TopologySpreadConstraint> {
    const POLICIES: [&str; 2] = ["Honor", "Ignore"];
    let mut fields = node.fields()?;
    let max_skew = match fields.get("maxSkew") {
        Some(skew) => skew.int32().inspect(|value| {
            if *value <= 0 {
                skew.invalid("not in valid range (0, inf)");
            }
        }),
        None => {
            fields.findings.error(fields.path_of("maxSkew"), "Required value: must be 1 or more");
            None
        }
    };
    let topology_key = fields.required_string("topologyKey").and_then(|key| {
        let text = key.string()?;
        for problem in label_key(text) {
            key.invalid(&problem);
        }
        Some(text.to_owned())
    });
    let when_unsatisfiable =
        one_of(&mut fields, "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"], None);
    if let Some(selector) = fields.get("labelSelector") {
        selector.error("Forbidden: constraint must not define a selector, as they deduced for each pod");
    }
    let min_domains = fields.get("minDomains").and_then(|n| n.int32());
    let mut policy = |name| match fields.get(name) {
        Some(_) => one_of(&mut fields, name, &POLICIES, None).map(str::to_owned),
        None => None,
    };
    let node_affinity_policy = policy("nodeAffinityPolicy");
    let node_taints_policy = policy("nodeTaintsPolicy");
    let match_label_keys = fields.get("matchLabelKeys").map(|list| list.strings()).unwrap_or_default();
    fields.finish();
    Some(TopologySpreadConstraint {
        max_skew: max_skew?,
        topology_key: topology_key?,
        when_unsatisfiable: when_unsatisfiable?.to_owned(),
        label_selector: None,
        min_domains,
        node_affinity_policy,
        node_taints_policy,
        match_label_keys,
    })
}

/// A string field with a closed set of values. An empty or absent value is the default, or an error without one.
fn one_of<'v>(
    fields: &mut Fields<'_>,
    name: &'static str,
    values: &[&'v str],
    default: Option<&'v str>,
) -> Option<&'v str> {
    let supported = || values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ");
    let given = match fields.get(name) {
        Some(node) => node.string()?,
        None => "",
    };
    if given.is_empty() && default.is_some() {
        return default;
    }
    let found = values.iter().find(|v| **v == given).copied();
    if found.is_none() {
        unsupported(fields.findings, fields.path_of(name), given, &supported());
    }
    found
}

fn unsupported(findings: &Findings, path: String, given: &str, supported: &str) {
    findings.error(path, format!("Unsupported value: {given:?}: supported values: {supported}"));
}
