//! Policies of the descheduler as requests: what each plugin and each field becomes.

use berth_rebalance::descheduler::{Effect, Translation};
use berth_rebalance::{Goal, Movable, Request, Threshold};
use berth_rules::Selector;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn translate(policy: &Value) -> Result<Translation, String> {
    let priority_of = |class: &str| (class == "batch").then_some(100);
    let now = Timestamp::from_second(1_800_000_000).expect("a time");
    Translation::from_value(policy, &priority_of, now).map_err(|errors| errors.to_string())
}

fn policy(profiles: &Value) -> Value {
    json!({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": profiles})
}

/// One profile with one plugin.
fn of_plugin(point: &str, plugin: &str, args: &Value) -> Value {
    policy(&json!([{
        "name": "p",
        "pluginConfig": [{"name": plugin, "args": args}],
        "plugins": {point: {"enabled": [plugin]}},
    }]))
}

/// One profile with a plugin and these arguments of the evictor.
fn with_evictor(args: &Value) -> Value {
    policy(&json!([{
        "name": "p",
        "pluginConfig": [{"name": "DefaultEvictor", "args": args}, {"name": "RemoveDuplicates"}],
        "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}},
    }]))
}

/// The notes as text, without the plugin's own one where it is as expected.
fn notes(translation: &Translation, effect: Effect) -> Vec<String> {
    let of_effect = translation.notes.iter().filter(|note| note.effect == effect);
    of_effect.map(|note| format!("{}: {}", note.path, note.text)).collect()
}

fn selector(text: &str) -> Option<Selector> {
    Some(text.parse().expect("a selector"))
}

#[test]
fn each_plugin_becomes_its_goals_or_is_named() {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let half = json!({"cpu": 50, "memory": 50});
    let fifth = json!({"cpu": 20, "memory": 20});
    let cases: [(&str, &str, Value, &[Goal]); 13] = [
        ("balance", "RemoveDuplicates", json!({}), &[Goal::Spread]),
        ("deschedule", "RemovePodsViolatingNodeTaints", json!({}), &[Goal::Required]),
        (
            "deschedule",
            "RemovePodsViolatingNodeAffinity",
            json!({"nodeAffinityType": [REQUIRED]}),
            &[Goal::Required],
        ),
        (
            "deschedule",
            "RemovePodsViolatingNodeAffinity",
            json!({"nodeAffinityType": [PREFERRED, REQUIRED]}),
            &[Goal::Preferences, Goal::Required],
        ),
        ("deschedule", "RemovePodsViolatingInterPodAntiAffinity", json!({}), &[Goal::Required]),
        ("balance", "RemovePodsViolatingTopologySpreadConstraint", json!({}), &[Goal::Spread]),
        (
            "balance",
            "LowNodeUtilization",
            json!({"thresholds": fifth, "targetThresholds": half}),
            &[Goal::Balance],
        ),
        ("balance", "HighNodeUtilization", json!({"thresholds": fifth}), &[Goal::Consolidate]),
        ("deschedule", "PodLifeTime", json!({"maxPodLifeTimeSeconds": 86400, "states": ["Pending"]}), &[]),
        ("deschedule", "RemoveFailedPods", json!({"reasons": ["OutOfcpu"], "exitCodes": [1]}), &[]),
        ("deschedule", "RemovePodsHavingTooManyRestarts", json!({"podRestartThreshold": 100}), &[]),
        ("deschedule", "EvictOnMondays", json!({"strict": true}), &[]),
        ("balance", "HighNodeUtilisation", json!({}), &[]),
    ];
    for (point, plugin, args, goals) in cases {
        let translation = translate(&of_plugin(point, plugin, &args)).expect(plugin);
        assert_eq!(translation.request.goals, goals, "{plugin}");
        let own = translation
            .notes
            .iter()
            .find(|note| note.path == format!("profiles[0].plugins.{point}.enabled[0]"));
        let own = own.unwrap_or_else(|| panic!("no note of {plugin}"));
        assert_eq!((own.profile.as_deref(), own.plugin.as_deref()), (Some("p"), Some(plugin)));
        let expected = if goals.is_empty() { Effect::NoEquivalent } else { Effect::Instead };
        assert_eq!(own.effect, expected, "{own}");
        for goal in goals {
            let flag = format!("--goal {goal}");
            assert!(translation.notes.iter().any(|note| note.text.contains(&flag)), "{flag}: {own}");
        }
        let ignored = notes(&translation, Effect::Ignored);
        assert!(ignored.is_empty(), "{plugin}: {ignored:?}");
    }
}

#[test]
fn goals_are_in_the_order_in_which_the_descheduler_runs_plugins() {
    let plugins = json!({
        "balance": {"enabled": ["RemovePodsViolatingTopologySpreadConstraint", "HighNodeUtilization"]},
        "deschedule": {"enabled": ["RemovePodsViolatingNodeTaints"]},
    });
    let high = json!({"name": "HighNodeUtilization", "args": {"thresholds": {"cpu": 20}}});
    let second = json!({
        "name": "b",
        "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}, "deschedule": {"enabled": ["RemovePodsViolatingNodeAffinity"]}},
        "pluginConfig": [{"name": "RemovePodsViolatingNodeAffinity",
            "args": {"nodeAffinityType": ["preferredDuringSchedulingIgnoredDuringExecution"]}}],
    });
    let profiles = json!([{"name": "a", "plugins": plugins, "pluginConfig": [high]}, second]);
    let goals = translate(&policy(&profiles)).expect("a policy").request.goals;
    assert_eq!(goals, [Goal::Required, Goal::Preferences, Goal::Spread, Goal::Consolidate]);
}

#[test]
fn the_arguments_of_the_evictor_say_which_pods_move() {
    let expected = Movable::default;
    let cases = [
        (json!({}), expected()),
        (json!({"evictLocalStoragePods": true}), Movable { with_local_storage: true, ..expected() }),
        (
            json!({"podProtections": {"defaultDisabled": ["PodsWithLocalStorage"]}}),
            Movable { with_local_storage: true, ..expected() },
        ),
        (json!({"ignorePvcPods": true}), Movable { with_claims: false, ..expected() }),
        (
            json!({"podProtections": {"extraEnabled": ["PodsWithPVC", "PodsWithoutPDB"]}}),
            Movable { with_claims: false, without_budget: false, ..expected() },
        ),
        // The lists replace the flags.
        (
            json!({"podProtections": {"extraEnabled": ["PodsWithPVC"]}, "evictLocalStoragePods": true}),
            Movable { with_claims: false, ..expected() },
        ),
        (json!({"ignorePodsWithoutPDB": true}), Movable { without_budget: false, ..expected() }),
        (json!({"priorityThreshold": {"value": 10}}), Movable { below_priority: Some(10), ..expected() }),
        (
            json!({"priorityThreshold": {"name": "batch"}}),
            Movable { below_priority: Some(100), ..expected() },
        ),
        (json!({"priorityThreshold": {"value": 10}, "evictSystemCriticalPods": true}), expected()),
        (json!({"minReplicas": 3}), Movable { min_replicas: 3, ..expected() }),
        (json!({"minReplicas": 1}), expected()),
        (json!({"minPodAge": "1h30m"}), Movable { settle: SignedDuration::from_mins(90), ..expected() }),
        (json!({"minPodAge": "30s"}), Movable { settle: SignedDuration::from_secs(30), ..expected() }),
        (
            json!({"labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions":
                [{"key": "tier", "operator": "NotIn", "values": ["db", "cache"]}]}}),
            Movable { pods: selector("app=web,tier notin (cache,db)"), ..expected() },
        ),
        (json!({"labelSelector": {}}), expected()),
        (
            json!({"namespaceLabelSelector": {"matchLabels": {"team": "shop"}}}),
            Movable { namespaces: selector("team=shop"), ..expected() },
        ),
        (json!({"noEvictionPolicy": "Mandatory"}), Movable { preferring_no_eviction: false, ..expected() }),
        (json!({"noEvictionPolicy": "Preferred"}), expected()),
        (json!({"nodeFit": true, "nodeSelector": "disk=ssd", "evictFailedBarePods": true}), expected()),
        (json!({"evictDaemonSetPods": true, "evictSystemCriticalPods": true}), expected()),
    ];
    for (args, movable) in cases {
        let translation = translate(&with_evictor(&args)).expect("a policy");
        assert_eq!(translation.request.movable, movable, "{args}");
        // Every field that is written is named, and none is unknown.
        for field in args
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys)
            .filter(|_| args["labelSelector"] != json!({}))
        {
            let path = format!("profiles[0].pluginConfig[0].args.{field}");
            assert!(translation.notes.iter().any(|note| note.path.starts_with(&path)), "{path}");
        }
        let ignored = notes(&translation, Effect::Ignored).concat();
        assert!(!ignored.contains("unknown field"), "{ignored}");
    }
}

#[test]
fn the_fields_of_the_policy_limit_the_plan() {
    let mut policy = with_evictor(&json!({}));
    policy["maxNoOfPodsToEvictTotal"] = json!(7);
    policy["nodeSelector"] = json!("pool=a,disk!=hdd");
    policy["maxNoOfPodsToEvictPerNode"] = json!(2);
    policy["maxNoOfPodsToEvictPerNamespace"] = json!(3);
    policy["gracePeriodSeconds"] = json!(30);
    policy["evictionFailureEventNotification"] = json!(true);
    policy["metricsProviders"] = json!([{"source": "KubernetesMetrics"}]);
    policy["metricsCollector"] = json!({"enabled": true});
    let translation = translate(&policy).expect("a policy");
    let Request { max_moves, movable, .. } = &translation.request;
    assert_eq!((*max_moves, &movable.nodes), (Some(7), &selector("pool=a,disk!=hdd")));
    let instead = notes(&translation, Effect::Instead);
    assert_eq!(
        instead[..2],
        [
            "nodeSelector: --node-selector 'pool=a,disk!=hdd': only the pods of these nodes move, to any node",
            "maxNoOfPodsToEvictTotal: --max-moves 7",
        ]
    );
    let none = notes(&translation, Effect::NoEquivalent);
    let paths: Vec<_> = none.iter().filter_map(|note| note.split(": ").next()).collect();
    assert_eq!(
        paths,
        [
            "maxNoOfPodsToEvictPerNode",
            "maxNoOfPodsToEvictPerNamespace",
            "gracePeriodSeconds",
            "evictionFailureEventNotification",
            "metricsCollector",
            "metricsProviders",
        ]
    );
    assert!(none[0].contains("berth enforcer --max-evictions-per-node 2"), "{none:?}");
}

#[test]
fn a_pod_moves_only_if_all_plugins_with_a_goal_may_evict_it() {
    let profile = |name: &str, namespaces: Value, evictor: Value| {
        json!({
            "name": name,
            "pluginConfig": [
                {"name": "RemoveDuplicates", "args": {"namespaces": namespaces}},
                {"name": "DefaultEvictor", "args": evictor},
                {"name": "PodLifeTime", "args": {"namespaces": {"include": ["other"]}}},
            ],
            "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}, "deschedule": {"enabled": ["PodLifeTime"]}},
        })
    };
    let all = |a: Value, b: Value| {
        let a = profile(
            "a",
            a,
            json!({"evictLocalStoragePods": true, "minReplicas": 2, "priorityThreshold": {"value": 10}}),
        );
        let b =
            profile("b", b, json!({"minPodAge": "5m", "minReplicas": 3, "priorityThreshold": {"value": 5}}));
        translate(&policy(&json!([a, b]))).expect("a policy")
    };
    let movable = all(json!({"include": ["x", "y"]}), json!({"exclude": ["y"]})).request.movable;
    let names = selector("kubernetes.io/metadata.name in (x,y),kubernetes.io/metadata.name!=y");
    let expected = Movable {
        namespaces: names,
        min_replicas: 3,
        below_priority: Some(5),
        settle: SignedDuration::from_mins(5),
        ..Movable::default()
    };
    assert_eq!(movable, expected);
    let nothing = all(json!({"include": ["x"]}), json!({"include": ["y"]}));
    let note = nothing.notes.iter().find(|note| note.path == "profiles").expect("a note");
    assert!(note.text.contains("nothing moves"), "{note}");
    // A profile without goals restricts nothing.
    let unrelated = json!({"name": "c", "pluginConfig": [{"name": "DefaultEvictor", "args": {"minReplicas": 9}},
        {"name": "PodLifeTime", "args": {}}], "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}}});
    let a = profile("a", json!({}), json!({}));
    let translation = translate(&policy(&json!([a, unrelated]))).expect("a policy");
    assert_eq!(translation.request.movable, Movable::default());
    let ignored = notes(&translation, Effect::Ignored);
    assert_eq!(ignored, ["profiles[1].pluginConfig[0]: no plugin of the profile has an equivalent"]);
}

#[test]
fn thresholds_are_those_of_cpu_and_memory_and_the_highest_count() {
    let low = |low: Value, target: Value| {
        let args = json!({"thresholds": low, "targetThresholds": target});
        translate(&of_plugin("balance", "LowNodeUtilization", &args)).expect("a policy")
    };
    let both =
        low(json!({"cpu": 20, "memory": 20, "pods": 20}), json!({"cpu": 60.5, "memory": 70, "pods": 50}));
    assert_eq!(both.request.threshold, Threshold { cpu: 61, memory: 70 });
    let texts = notes(&both, Effect::Instead).concat();
    assert!(texts.contains("--goal balance --threshold cpu=61,memory=70"), "{texts}");
    let none = notes(&both, Effect::NoEquivalent).concat();
    assert!(none.contains("args.targetThresholds.pods"), "{none}");
    assert_eq!(
        low(json!({"cpu": 20}), json!({"cpu": 50})).request.threshold,
        Threshold { cpu: 50, memory: 100 }
    );
    // What Berth does not measure has no equivalent.
    for args in [
        json!({"thresholds": {"pods": 20}, "targetThresholds": {"pods": 50}}),
        json!({"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 10}, "useDeviationThresholds": true}),
        json!({"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "metricsUtilization": {"source": "KubernetesMetrics"}}),
    ] {
        let translation = translate(&of_plugin("balance", "LowNodeUtilization", &args)).expect("a policy");
        assert_eq!(translation.request.goals, [], "{args}");
        assert!(!notes(&translation, Effect::NoEquivalent).is_empty(), "{args}");
    }
    let profile = |cpu: u32| {
        let args = json!({"thresholds": {"cpu": 1}, "targetThresholds": {"cpu": cpu}});
        json!({"name": "p", "pluginConfig": [{"name": "LowNodeUtilization", "args": args}],
            "plugins": {"balance": {"enabled": ["LowNodeUtilization"]}}})
    };
    let several = translate(&policy(&json!([profile(40), profile(60), profile(50)]))).expect("a policy");
    assert_eq!(several.request.threshold.cpu, 60);
}

#[test]
fn spread_says_which_constraints_count_too() {
    for (args, text) in [
        (json!({}), "constraints with ScheduleAnyway count too"),
        (json!({"constraints": ["DoNotSchedule"]}), "constraints with ScheduleAnyway count too"),
        (json!({"constraints": ["ScheduleAnyway"]}), "constraints with DoNotSchedule count too"),
        (json!({"constraints": ["DoNotSchedule", "ScheduleAnyway"]}), "for all constraints together"),
    ] {
        let policy = of_plugin("balance", "RemovePodsViolatingTopologySpreadConstraint", &args);
        let translation = translate(&policy).expect("a policy");
        assert!(translation.notes[0].text.ends_with(text), "{}", translation.notes[0]);
    }
}

#[test]
fn fields_and_plugins_without_an_effect_are_named() {
    let translation = translate(&policy(&json!([{
        "name": "p",
        "colour": "blue",
        "pluginConfig": [
            {"name": "RemoveDuplicates", "args": {"excludeOwnerKinds": ["ReplicaSet"], "excludeOwnerKind": "x"}},
            {"name": "RemoveDuplicates", "args": {}},
            {"name": "LowNodeUtilization", "args": {}},
        ],
        "plugins": {
            "balance": {"enabled": ["RemoveDuplicates"], "disabled": ["LowNodeUtilization"]},
            "filter": {"enabled": ["DefaultEvictor", "MyEvictor"]},
            "preEvictionFilter": {"enabled": ["DefaultEvictor"]},
        },
    }])));
    let translation = translation.expect("a policy");
    assert_eq!(
        notes(&translation, Effect::Ignored),
        [
            "profiles[0].pluginConfig[1]: RemoveDuplicates is configured before; the first entry counts",
            "profiles[0].plugins.balance.disabled: the plugins that are not in `enabled` are disabled anyway",
            "profiles[0].pluginConfig[0].args.excludeOwnerKind: unknown field; did you mean \"excludeOwnerKinds\"?",
            "profiles[0].pluginConfig[2]: the profile does not enable it",
            "profiles[0].colour: unknown field; known here: name, pluginConfig, plugins",
        ]
    );
    assert_eq!(
        notes(&translation, Effect::NoEquivalent),
        [
            "profiles[0].pluginConfig[0].args.excludeOwnerKinds: a workload without such a constraint is not spread",
            "profiles[0].plugins.filter.enabled[1]: only the DefaultEvictor is translated",
        ]
    );
    assert_eq!(
        translation.notes[2].to_string(),
        "profiles[0].plugins.balance.enabled[0]: profile p, RemoveDuplicates: instead: --goal spread, and a spread constraint on \
         kubernetes.io/hostname in the pods"
    );
}

#[test]
fn what_the_descheduler_rejects_is_an_error_with_path_and_remedy() {
    let low = |args: Value| of_plugin("balance", "LowNodeUtilization", &args);
    let affinity = |args: Value| of_plugin("deschedule", "RemovePodsViolatingNodeAffinity", &args);
    let taints = |args: Value| of_plugin("deschedule", "RemovePodsViolatingNodeTaints", &args);
    let typed = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
    let args = "profiles[0].pluginConfig[0].args";
    let cases = [
        (json!([]), "must be an object, not a list".to_owned()),
        (json!({"kind": "DeschedulerPolicy"}), "apiVersion: Required value: write \"descheduler/v1alpha2\"".to_owned()),
        (typed("descheduler/v1alpha2", "Pod"), "kind: Invalid value: \"Pod\": must be \"DeschedulerPolicy\": give a file".to_owned()),
        (typed("v1", "ConfigMap"), "give the text of its policy.yaml".to_owned()),
        (
            typed("descheduler/v1alpha1", "DeschedulerPolicy"),
            "apiVersion: Invalid value: \"descheduler/v1alpha1\": the descheduler has not read it since 0.31: write \
             \"descheduler/v1alpha2\", and each of `strategies` as a plugin of a profile"
                .to_owned(),
        ),
        (typed("descheduler/v1", "DeschedulerPolicy"), "must be \"descheduler/v1alpha2\"".to_owned()),
        (policy(&json!({})), "profiles: must be a list, not an object".to_owned()),
        (policy(&json!([{"pluginConfig": [{"args": {}}]}])), "profiles[0].pluginConfig[0].name: Required value".to_owned()),
        (
            policy(&json!([{"plugins": {"deschedule": {"enabled": [{"name": "PodLifeTime"}]}}}])),
            "profiles[0].plugins.deschedule.enabled[0]: must be a string, not an object".to_owned(),
        ),
        (
            of_plugin("deschedule", "RemoveDuplicates", &json!({})),
            "profiles[0].plugins.deschedule.enabled[0]: Invalid value: \"RemoveDuplicates\": the descheduler runs it at `balance`: \
             move it to plugins.balance.enabled"
                .to_owned(),
        ),
        (affinity(json!({})), format!("{args}.nodeAffinityType: Required value: one of required")),
        (affinity(json!({"nodeAffinityType": ["hard"]})), format!("{args}.nodeAffinityType[0]: Invalid value: \"hard\": must be one of")),
        (
            taints(json!({"namespaces": {"include": ["a"], "exclude": ["b"]}})),
            format!("{args}.namespaces: Invalid value: include and exclude exclude each other; remove one of them"),
        ),
        (
            taints(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}})),
            format!("{args}.labelSelector: "),
        ),
        (taints(json!({"labelSelector": {"matchLabels": {"a": 1}}})), format!("{args}.labelSelector: ")),
        (taints(json!({"includePreferNoSchedule": "yes"})), format!("{args}.includePreferNoSchedule: must be true or false")),
        (low(json!({"targetThresholds": {"cpu": 1}})), format!("{args}.thresholds: Required value: percentages by resource")),
        (
            low(json!({"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 20}})),
            format!("{args}.thresholds: Invalid value: thresholds and targetThresholds must name the same resources"),
        ),
        (
            low(json!({"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}})),
            format!("{args}.thresholds.cpu: Invalid value: 60: must not be above targetThresholds.cpu"),
        ),
        (
            low(json!({"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 101}})),
            format!("{args}.targetThresholds.cpu: Invalid value: 101: must be a percentage from 0 to 100"),
        ),
        (
            low(json!({"thresholds": {"cpu": 2}, "targetThresholds": {"cpu": 3}, "evictableNamespaces": {"include": ["a"]}})),
            format!("{args}.evictableNamespaces.include: Forbidden: the descheduler only excludes namespaces here"),
        ),
        (
            of_plugin("balance", "RemovePodsViolatingTopologySpreadConstraint", &json!({"constraints": ["Soft"]})),
            format!("{args}.constraints[0]: Invalid value: \"Soft\": must be one of DoNotSchedule, ScheduleAnyway"),
        ),
        (
            with_evictor(&json!({"priorityThreshold": {"name": "gold"}})),
            format!("{args}.priorityThreshold.name: Invalid value: \"gold\": no such PriorityClass: add it"),
        ),
        (
            with_evictor(&json!({"priorityThreshold": {"name": "batch", "value": 1}})),
            format!("{args}.priorityThreshold: Invalid value: name and value exclude each other"),
        ),
        (with_evictor(&json!({"minPodAge": "soon"})), format!("{args}.minPodAge: Invalid value: \"soon\": must be a duration")),
        (with_evictor(&json!({"minReplicas": -1})), format!("{args}.minReplicas: Invalid value: -1: must not be negative")),
        (with_evictor(&json!({"noEvictionPolicy": "Never"})), format!("{args}.noEvictionPolicy: Invalid value: \"Never\"")),
        (
            with_evictor(&json!({"podProtections": {"defaultDisabled": ["PodsWithPVC"]}})),
            format!("{args}.podProtections.defaultDisabled[0]: Invalid value: \"PodsWithPVC\": must be one of PodsWithLocalStorage"),
        ),
    ];
    for (policy, expected) in cases {
        let error = translate(&policy).expect_err(&expected);
        assert!(error.contains(&expected), "{error}\ndoes not contain\n{expected}");
    }
    let mut negative = with_evictor(&json!({}));
    negative["maxNoOfPodsToEvictTotal"] = json!(-1);
    negative["nodeSelector"] = json!("a in b");
    let errors = translate(&negative).expect_err("two errors");
    assert!(errors.contains("maxNoOfPodsToEvictTotal: Invalid value: -1: must not be negative"), "{errors}");
    assert!(errors.contains("nodeSelector: Invalid value: \"a in b\": must be a label selector"), "{errors}");
}
