//! The arguments of plugins.

use berth_api::feature_gates::KubernetesVersion::V1_36;

use super::*;

#[test]
fn added_affinity_of_the_documentation() {
    let config = value(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n\
         profiles:\n  - schedulerName: default-scheduler\n  - schedulerName: foo-scheduler\n    pluginConfig:\n\
         \x20     - name: NodeAffinity\n        args:\n          addedAffinity:\n\
         \x20           requiredDuringSchedulingIgnoredDuringExecution:\n              nodeSelectorTerms:\n\
         \x20             - matchExpressions:\n                - {key: scheduler-profile, operator: In, values: [foo]}\n",
    );
    let config = SchedulerConfig::from_value(&config).expect("valid");
    assert_eq!(config.profile(""), Some(&Profile::default()));
    let added = config.profile("foo-scheduler").and_then(|p| p.node_affinity.added_affinity.clone());
    let required = added.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    let requirement = &required.expect("required").node_selector_terms[0].match_expressions[0];
    assert_eq!((requirement.key.as_str(), requirement.operator.as_str()), ("scheduler-profile", "In"));
    assert_eq!(requirement.values, ["foo"]);
    assert_eq!(config.profile("bar"), None);
}

#[test]
fn added_affinity_lets_empty_terms_through() {
    let profile = args(
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}, \
          preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {}}]}}",
    );
    let added = profile.node_affinity.added_affinity.expect("present");
    let required = added.required_during_scheduling_ignored_during_execution.expect("present");
    assert_eq!(required.node_selector_terms, [Default::default()]);
    assert_eq!(added.preferred_during_scheduling_ignored_during_execution.len(), 1);
}

#[test]
fn findings_about_added_affinity() {
    let expression = |text: &str| {
        let term = format!("{{matchExpressions: [{text}]}}");
        let required =
            format!("{{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{term}]}}}}");
        arg_errors("NodeAffinity", &format!("{{addedAffinity: {required}}}")).replace(
            "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].",
            "",
        )
    };
    for (text, expected) in [
        ("{key: a, operator: In, values: [b]}", "none"),
        ("{key: a, operator: Gt, values: ['20']}", "none"),
        (
            "{key: a, operator: In}",
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            "{key: a, operator: Exists, values: [b]}",
            "values: Invalid value: \"[b]\": values set must be empty for exists and does not exist",
        ),
        (
            "{key: a, operator: Gt, values: ['1', '2']}",
            "values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            "{key: a, operator: Lt, values: [b]}",
            "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "{key: a, operator: Equals, values: [b]}",
            "operator: Invalid value: \"Equals\": not a valid selector operator",
        ),
        (
            "{key: a, operator: In, values: ['-b']}",
            "values[0][a]: Invalid value: \"-b\": a valid label must be an empty string or consist of alphanumeric \
             characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        ("{key: a, operator: Exists, vales: [b]}", "vales: unknown field; did you mean \"values\"?"),
    ] {
        assert_eq!(expression(text), expected, "{text}");
    }
    assert_eq!(
        arg_errors("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingRequiredDuringExecution: {}}}")
            .split(';')
            .next(),
        Some("addedAffinity.requiredDuringSchedulingRequiredDuringExecution: unknown field")
    );
}

#[test]
fn inter_pod_affinity_args() {
    let set = args(
        "InterPodAffinity",
        "{hardPodAffinityWeight: 100, ignorePreferredTermsOfExistingPods: true,
          ignorePreferredAntiAffinityOfExistingPods: true}",
    );
    assert_eq!(
        set.inter_pod_affinity,
        InterPodAffinityArgs {
            hard_pod_affinity_weight: 100,
            ignore_preferred_terms_of_existing_pods: true,
            ignore_preferred_anti_affinity_of_existing_pods: true
        }
    );
    assert_eq!(
        args("InterPodAffinity", "{hardPodAffinityWeight: null}").inter_pod_affinity.hard_pod_affinity_weight,
        1
    );
    assert_eq!(
        args("InterPodAffinity", "{hardPodAffinityWeight: 0}").inter_pod_affinity.hard_pod_affinity_weight,
        0
    );
    for (given, expected) in [
        (
            "{hardPodAffinityWeight: 101}",
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "{hardPodAffinityWeight: 1.5}",
            "hardPodAffinityWeight: Invalid value: 1.5: must be an integer of 64 bits",
        ),
        ("{hardPodAffinityWeight: '1'}", "hardPodAffinityWeight: must be an integer, not a string"),
        (
            "{kind: NodeAffinityArgs}",
            "kind: Invalid value: \"NodeAffinityArgs\": must be \"InterPodAffinityArgs\" for plugin InterPodAffinity",
        ),
    ] {
        assert_eq!(arg_errors("InterPodAffinity", given), expected, "{given}");
    }
}

#[test]
fn devices_are_scored_by_least_waste_if_a_profile_says_so() {
    let given = "{scoringStrategy: {type: LeastWaste, linkAttributes: [gpu.example.com/link]}}";
    let expected = LeastWaste { link_attributes: vec!["gpu.example.com/link".to_owned()] };
    assert_eq!(args("DynamicResources", given).least_waste, Some(Arc::new(expected)));
    let without = args("DynamicResources", "{scoringStrategy: {type: LeastWaste}}").least_waste;
    assert_eq!(without, Some(Arc::default()));
    assert_eq!(Profile::default().least_waste, None);
    for (given, expected) in [
        (
            "{scoringStrategy: {type: MostWaste}}",
            "scoringStrategy.type: Invalid value: \"MostWaste\": must be \"LeastWaste\"",
        ),
        (
            "{scoringStrategy: {type: LeastWaste, linkAttributes: [link]}}",
            "scoringStrategy.linkAttributes[0]: Invalid value: \"link\": must be the name of an attribute with its \
             domain, as example.com/link",
        ),
    ] {
        assert_eq!(arg_errors("DynamicResources", given), expected, "{given}");
    }
}

#[test]
fn without_extensions_their_arguments_are_errors() {
    for (plugin, argument, value) in [
        ("InterPodAffinity", "ignorePreferredAntiAffinityOfExistingPods", serde_json::json!(true)),
        ("DynamicResources", "preemptForDevices", serde_json::json!(true)),
        ("DefaultPreemption", "preemptAcrossNodes", serde_json::json!(true)),
        ("DynamicResources", "scoringStrategy", serde_json::json!({"type": "LeastWaste"})),
    ] {
        let config = serde_json::json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": plugin, "args": {argument: value}}]}]
        });
        let (read, _) = SchedulerConfig::read_with(&config, true, FeatureGates::default()).unwrap();
        assert_ne!(read, SchedulerConfig::default(), "{argument}");
        assert_eq!(SchedulerConfig::from_value(&read.to_value()).unwrap(), read, "{argument}");
        let errors =
            SchedulerConfig::read_with(&config, false, FeatureGates::default()).unwrap_err().to_string();
        let path = format!("profiles[0].pluginConfig[0].args.{argument}");
        assert_eq!(errors, format!("{path}: Forbidden: an extension of Berth, and extensions are disabled"));
    }
}

#[test]
fn node_resources_fit_args() {
    let fit = args(
        "NodeResourcesFit",
        "{ignoredResources: [example.com/a], ignoredResourceGroups: [example.org], scoringStrategy: \
          {type: RequestedToCapacityRatio, resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 5}], \
          requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}",
    )
    .node_resources_fit;
    let point = |utilization, score| UtilizationShapePoint { utilization, score };
    let resource = |name: &str, weight| ResourceSpec { name: name.to_owned(), weight };
    assert_eq!(
        fit,
        NodeResourcesFitArgs {
            ignored_resources: vec!["example.com/a".to_owned()],
            ignored_resource_groups: vec!["example.org".to_owned()],
            scoring_strategy: ScoringStrategy {
                kind: ScoringStrategyKind::RequestedToCapacityRatio {
                    shape: vec![point(0, 0), point(100, 10)]
                },
                resources: vec![resource("cpu", 1), resource("nvidia.com/gpu", 5)],
            },
        }
    );
    let most = args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated}}").node_resources_fit;
    assert_eq!(most.scoring_strategy.kind, ScoringStrategyKind::MostAllocated);
    assert_eq!(most.scoring_strategy.resources, cpu_and_memory());
    for (given, expected) in [
        (
            "{scoringStrategy: {resources: [{name: cpu, weight: 0}, {name: memory, weight: 101}]}}",
            "scoringStrategy.type: Unsupported value: \"\": supported values: \"LeastAllocated\", \
             \"MostAllocated\", \"RequestedToCapacityRatio\"\n\
             scoringStrategy.resources[1].weight: Invalid value: 101: not in valid range (0, 100]",
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is \
             RequestedToCapacityRatio",
        ),
        (
            "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}",
            "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not \
             RequestedToCapacityRatio",
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}",
            "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: \
              [{utilization: 50, score: 11}, {utilization: 50, score: 1}, {utilization: 50, score: 1}]}}}",
            "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]\n\
             scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 50: values must be \
             sorted in increasing order",
        ),
        (
            "{ignoredResourceGroups: [example.com/x]}",
            "ignoredResourceGroups[0]: Invalid value: \"example.com/x\": resource group name can't contain '/'",
        ),
    ] {
        assert_eq!(arg_errors("NodeResourcesFit", given), expected, "{given}");
    }
}

#[test]
fn balanced_allocation_args() {
    let set = args(
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 0}, {name: example.com/x}]}",
    );
    let names: Vec<_> =
        set.balanced_allocation.resources.iter().map(|r| (r.name.as_str(), r.weight)).collect();
    assert_eq!(names, [("cpu", 1), ("example.com/x", 1)]);
    assert_eq!(args("NodeResourcesBalancedAllocation", "{resources: []}"), Profile::default());
    assert_eq!(
        arg_errors("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}, {name: cpu}]}"),
        "resources[0].weight: Invalid value: 2: must be 1\nresources[1].name: Duplicate value: \"cpu\""
    );
}

#[test]
fn pod_topology_spread_args() {
    let of = |given: &str| args("PodTopologySpread", given).pod_topology_spread.defaulting;
    assert_eq!(of("{}"), SpreadDefaulting::System);
    assert_eq!(of("{defaultingType: ''}"), SpreadDefaulting::System);
    assert_eq!(of("{defaultingType: List}"), SpreadDefaulting::List(vec![]));
    let SpreadDefaulting::List(constraints) = of("{defaultingType: List, defaultConstraints: \
        [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, nodeTaintsPolicy: Honor}]}")
    else {
        panic!("a list");
    };
    assert_eq!(constraints[0].topology_key, "zone");
    assert_eq!(constraints[0].node_taints_policy.as_deref(), Some("Honor"));
    for (given, expected) in [
        (
            "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
            "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty; set \
             defaultingType to \"List\"",
        ),
        (
            "{defaultingType: None}",
            "defaultingType: Unsupported value: \"None\": supported values: \"System\", \"List\"",
        ),
        (
            "{defaultingType: List, defaultConstraints: [{maxSkew: 0, whenUnsatisfiable: Never, labelSelector: {}}]}",
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)\n\
             defaultConstraints[0].topologyKey: Required value\n\
             defaultConstraints[0].whenUnsatisfiable: Unsupported value: \"Never\": supported values: \
             \"DoNotSchedule\", \"ScheduleAnyway\"\n\
             defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they \
             deduced for each pod",
        ),
        (
            "{defaultingType: List, defaultConstraints: \
              [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, \
               {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
            "defaultConstraints[1]: Duplicate value: \"{zone, DoNotSchedule}\"",
        ),
    ] {
        assert_eq!(arg_errors("PodTopologySpread", given), expected, "{given}");
    }
}

/// The texts of errors are those of `ValidateDynamicResourcesArgs`.
#[test]
fn dynamic_resources_arguments() {
    for (given, seconds) in [("{}", 600), ("{bindingTimeout: 1m30s}", 90), ("{bindingTimeout: 1s}", 1)] {
        let read = args("DynamicResources", given).dynamic_resources;
        assert_eq!(read.binding_timeout.as_secs(), seconds, "{given}");
    }
    for (given, expected) in [
        ("{bindingTimeout: 999ms}", "bindingTimeout: Invalid value: \"999ms\": must be at least 1 second"),
        ("{bindingTimeout: -1m}", "bindingTimeout: Invalid value: \"-1m\": must be at least 1 second"),
        ("{filterTimeout: -1s}", "filterTimeout: Invalid value: \"-1s\": must be zero or positive"),
        (
            "{filterTimeout: soon}",
            "filterTimeout: Invalid value: \"soon\": must be a duration, for example 15s or 1m30s",
        ),
        ("{bindingTimeout: 600}", "bindingTimeout: must be a string, not a number"),
    ] {
        assert_eq!(arg_errors("DynamicResources", given), expected, "{given}");
    }
}

#[test]
fn arguments_without_bearing_are_read() {
    for (plugin, given) in [
        ("DefaultPreemption", "{minCandidateNodesPercentage: 10, minCandidateNodesAbsolute: 100}"),
        ("VolumeBinding", "{bindTimeoutSeconds: 600, shape: null}"),
        ("DynamicResources", "{filterTimeout: 10s}"),
    ] {
        assert_eq!(args(plugin, given), Profile::default(), "{plugin}");
    }
    let (_, warnings) =
        read("profiles: [{pluginConfig: [{name: ImageLocality, args: {a: 1}}]}]").expect("valid");
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["profiles[0].pluginConfig[0].args: ImageLocality takes no arguments; they are ignored"]
    );
}

/// Without the gate, kube-scheduler rejects the shape, so that it does not get into force unseen.
#[test]
fn the_shape_of_volume_binding_needs_its_gate() {
    let body = |args: &str| {
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        value(&format!("{head}profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {args}}}]}}]"))
    };
    let shape = "{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}";
    let off = SchedulerConfig::read_with(&body(shape), true, V1_36.into()).unwrap_err().to_string();
    assert!(off.contains("shape: Invalid value: ") && off.contains("StorageCapacityScoring"), "{off}");

    let gates = FeatureGates { storage_capacity_scoring: true, ..FeatureGates::default() };
    let read = |args: &str| SchedulerConfig::read_with(&body(args), true, gates).map(|(config, _)| config);
    let points = |config: &SchedulerConfig| {
        let shape = config.profiles[0].volume_binding.shape.iter();
        shape.map(|p| (p.utilization, p.score)).collect::<Vec<_>>()
    };
    let config = read(shape).unwrap();
    assert_eq!(points(&config), [(0, 0), (100, 10)]);
    assert_eq!(SchedulerConfig::read_with(&config.to_value(), true, gates).unwrap().0, config);
    assert_eq!(points(&read("{shape: []}").unwrap()), [(0, 10), (100, 0)]);
    assert!(read("{shape: [{utilization: 0, score: 11}]}").is_err());
}
