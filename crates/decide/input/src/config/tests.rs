//! Tests of reading configurations: a YAML text in, the resolved profiles or the exact findings out.

mod plugin_args;

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::*;
use berth_api::feature_gates::FeatureGates;

fn value(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).expect("test input is YAML")
}

/// Reads a configuration, given without its `apiVersion` and `kind`.
fn read(body: &str) -> Result<(SchedulerConfig, Vec<ConfigMessage>), ConfigErrors> {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    SchedulerConfig::read(&value(&format!("{head}{body}")))
}

/// The profile whose `plugins` are given (as YAML flow mapping).
fn profile(plugins: &str) -> Profile {
    let (mut config, warnings) = read(&format!("profiles: [{{plugins: {plugins}}}]")).expect("valid");
    assert_eq!(warnings, []);
    config.profiles.remove(0)
}

/// The findings about a configuration, one a line.
fn errors(body: &str) -> String {
    match read(body) {
        Ok(_) => "none".to_owned(),
        Err(errors) => errors.to_string(),
    }
}

/// The findings about the arguments of a plugin, with the common start of the paths cut off.
fn arg_errors(plugin: &str, args: &str) -> String {
    errors(&format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"))
        .replace("profiles[0].pluginConfig[0].args.", "")
}

fn args(plugin: &str, args: &str) -> Profile {
    let body = format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]");
    read(&body).expect("valid").0.profiles.remove(0)
}

fn shown(plugins: &[Plugin]) -> String {
    plugins.iter().map(|p| p.name()).collect::<Vec<_>>().join(" ")
}

fn weights(profile: &Profile) -> String {
    profile.score.iter().map(|(p, w)| format!("{}={w}", p.name())).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_empty_configuration_is_the_default() {
    for body in ["", "profiles: []", "profiles: null", "profiles: [{}]", "profiles: [{plugins: null}]"] {
        assert_eq!(read(body), Ok((SchedulerConfig::default(), vec![])), "{body:?}");
    }
    assert_eq!(profile("{}"), Profile::default());
}

#[test]
fn naming_every_default_again_changes_nothing() {
    let score = "[{name: TaintToleration, weight: 3}, {name: NodeAffinity, weight: 2}, {name: NodeResourcesFit}, \
                 {name: VolumeBinding}, {name: PodTopologySpread, weight: 2}, {name: InterPodAffinity, weight: 2}, \
                 {name: DynamicResources, weight: 2}, {name: NodeResourcesBalancedAllocation, weight: 1}, \
                 {name: ImageLocality, weight: 0}]";
    assert_eq!(profile(&format!("{{score: {{enabled: {score}}}}}")), Profile::default());
}

/// `plugins` and the score plugins with weights that come out.
#[test]
fn score_plugins_are_merged_as_kube_scheduler_does() {
    let cases = [
        // A specific set overrides the weight, and what it names comes first.
        (
            "{score: {enabled: [{name: InterPodAffinity, weight: 7}]}}",
            "InterPodAffinity=7 TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        // Without a weight it is 1, not the default configuration's.
        (
            "{score: {enabled: [{name: NodeAffinity}, {name: TaintToleration, weight: 0}]}}",
            "NodeAffinity=1 TaintToleration=1 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        // Disabled and enabled again at the point: it comes last.
        (
            "{score: {disabled: [{name: InterPodAffinity}], enabled: [{name: InterPodAffinity, weight: 20}]}}",
            "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 InterPodAffinity=20",
        ),
        // Everything disabled at the point.
        (
            "{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}, {name: NodeAffinity, weight: 5}]}}",
            "ImageLocality=1 NodeAffinity=5",
        ),
        ("{score: {disabled: [{name: '*'}]}}", ""),
        // multiPoint replaces in place ...
        (
            "{multiPoint: {enabled: [{name: NodeAffinity, weight: 9}]}}",
            "TaintToleration=3 NodeAffinity=9 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1",
        ),
        // ... and appends what it disables itself: enabled wins over disabled.
        (
            "{multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 9}]}}",
            "TaintToleration=3 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=1 NodeAffinity=9",
        ),
        // A specific weight wins over multiPoint's; a specific disabling over multiPoint's enabling.
        (
            "{multiPoint: {enabled: [{name: ImageLocality, weight: 3}]}, \
              score: {enabled: [{name: ImageLocality, weight: 5}], disabled: [{name: PodTopologySpread}]}}",
            "ImageLocality=5 TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 InterPodAffinity=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1",
        ),
        // Specific entries that multiPoint does not have come after those it has.
        (
            "{multiPoint: {disabled: [{name: ImageLocality}]}, \
              score: {enabled: [{name: ImageLocality, weight: 4}, {name: InterPodAffinity, weight: 6}]}}",
            "InterPodAffinity=6 TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 PodTopologySpread=2 \
             DynamicResources=2 NodeResourcesBalancedAllocation=1 ImageLocality=4",
        ),
    ];
    for (plugins, expected) in cases {
        assert_eq!(weights(&profile(plugins)), expected, "{plugins}");
    }
}

#[test]
fn multi_point_alone_builds_a_profile_from_nothing() {
    let profile = profile(
        "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, \
          {name: InterPodAffinity, weight: 4}, {name: NodeAffinity}]}, filter: {disabled: [{name: NodeAffinity}]}}",
    );
    assert!(!profile.scheduling_gates);
    assert_eq!(shown(&profile.pre_filter), "InterPodAffinity NodeAffinity");
    assert_eq!(shown(&profile.filter), "InterPodAffinity");
    assert_eq!(shown(&profile.pre_score), "InterPodAffinity NodeAffinity");
    assert_eq!(weights(&profile), "InterPodAffinity=4 NodeAffinity=1");
}

#[test]
fn multi_point_disabling_takes_a_plugin_out_everywhere() {
    let profile = profile("{multiPoint: {disabled: [{name: TaintToleration}, {name: SchedulingGates}]}}");
    assert!(!profile.scheduling_gates);
    assert!(!profile.filter.contains(&Plugin::TaintToleration));
    assert!(!profile.pre_score.contains(&Plugin::TaintToleration));
    assert!(!weights(&profile).contains("TaintToleration"));
    assert_eq!(profile.pre_filter, Profile::default().pre_filter);
}

#[test]
fn filters_run_in_the_order_given() {
    let profile = profile("{filter: {enabled: [{name: InterPodAffinity}, {name: NodePorts}]}}");
    assert_eq!(
        shown(&profile.filter),
        "InterPodAffinity NodePorts NodeUnschedulable NodeName TaintToleration NodeAffinity NodeResourcesFit \
         VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread DynamicResources \
         NodeDeclaredFeatures"
    );
}

#[test]
fn plugins_without_effect_may_be_named() {
    let plugins = "{multiPoint: {enabled: [{name: VolumeBinding}, {name: GangScheduling}], \
                    disabled: [{name: PodGroupPodsCount}]}, \
                    reserve: {enabled: [{name: VolumeBinding}]}, \
                    postFilter: {enabled: [{name: DefaultPreemption}]}, bind: {enabled: [{name: DefaultBinder}]}, \
                    queueSort: {enabled: [{name: PrioritySort}]}, permit: {}, preBind: {}, postBind: {}}";
    assert_eq!(profile(plugins), Profile::default());
}

#[test]
fn preemption_is_a_plugin_that_can_be_disabled() {
    for (plugins, expected) in [
        ("{}", true),
        ("{postFilter: {disabled: [{name: DefaultPreemption}]}}", false),
        ("{postFilter: {disabled: [{name: '*'}]}}", false),
        ("{multiPoint: {disabled: [{name: DefaultPreemption}]}}", false),
        (
            "{multiPoint: {disabled: [{name: DefaultPreemption}]}, postFilter: {enabled: [{name: DefaultPreemption}]}}",
            true,
        ),
        ("{filter: {disabled: [{name: DefaultPreemption}]}}", true),
    ] {
        assert_eq!(profile(plugins), Profile { preemption: expected, ..Profile::default() }, "{plugins}");
    }
}

#[test]
fn findings_about_plugins() {
    let cases = [
        (
            "{score: {enabled: [{name: InterPodAfinity}]}}",
            "score.enabled[0].name: Invalid value: \"InterPodAfinity\": unknown plugin; did you mean \"InterPodAffinity\"?",
        ),
        (
            "{multiPoint: {disabled: [{name: EBSLimits}]}}",
            "multiPoint.disabled[0].name: Invalid value: \"EBSLimits\": the plugin was removed from Kubernetes; \
             NodeVolumeLimits does its work",
        ),
        (
            "{filter: {enabled: [{name: ImageLocality}]}}",
            "filter.enabled[0].name: Invalid value: \"ImageLocality\": the plugin takes no part in filter",
        ),
        (
            "{score: {enabled: [{name: NodeAffinity, weight: -1}, {name: NodeAffinity}]}}",
            "score.enabled[0].weight: Invalid value: -1: must not be negative; disable the plugin to leave it out\n\
             score.enabled[1].name: Duplicate value: \"NodeAffinity\"",
        ),
        ("{scores: {}}", "scores: unknown field; did you mean \"score\"?"),
        (
            "{queueSort: {disabled: [{name: PrioritySort}]}, multiPoint: {disabled: [{name: DefaultBinder}]}}",
            "queueSort: Invalid value: a profile needs one queue sort plugin; leave PrioritySort enabled\n\
             bind: Invalid value: a profile needs a bind plugin; leave DefaultBinder enabled",
        ),
    ];
    for (plugins, expected) in cases {
        let found =
            errors(&format!("profiles: [{{plugins: {plugins}}}]")).replace("profiles[0].plugins.", "");
        assert_eq!(found, expected, "{plugins}");
    }
    let unknown = errors("profiles: [{plugins: {score: {enabled: [{name: MyPlugin}]}}}]");
    assert!(
        unknown.contains("known here: DefaultBinder, DefaultPreemption, DeferredPodScheduling"),
        "{unknown}"
    );
}

#[test]
fn findings_about_profiles_and_the_process() {
    let cases = [
        (
            "profiles: [{}, {schedulerName: ''}]",
            "profiles[0].schedulerName: Required value: name each of several profiles\n\
             profiles[1].schedulerName: Required value: give the profile a name, or leave the field out",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
            "profiles[2].schedulerName: Duplicate value: \"a\": profiles[0] has this name already",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]",
            "profiles[1].plugins.queueSort: Invalid value: must be the same for all profiles",
        ),
        (
            "extenders: [{urlPrefix: 'http://x'}]",
            "extenders[0]: Forbidden: Berth calls no extenders, so its decisions would not be those of this \
             configuration; remove \"http://x\"",
        ),
        (
            "parallelism: 0\npercentageOfNodesToScore: 101\npodInitialBackoffSeconds: 20\nleaderElection: {leaderElect: yes please}",
            "leaderElection.leaderElect: must be true or false, not a string\n\
             percentageOfNodesToScore: Invalid value: 101: not in valid range [0, 100]\n\
             parallelism: Invalid value: 0: should be an integer value greater than zero\n\
             podMaxBackoffSeconds: Invalid value: must be greater than or equal to podInitialBackoffSeconds",
        ),
        ("profile: []", "profile: unknown field; did you mean \"profiles\"?"),
        ("profiles: {}", "profiles: must be a list, not an object"),
        (
            "profiles: [null, 3]",
            "profiles[0]: must be an object, not null\nprofiles[1]: must be an object, not a number",
        ),
        (
            "profiles: [{pluginConfig: [{name: Nope}, {name: NodeAffinity}, {name: NodeAffinity}, {args: {}}]}]",
            "profiles[0].pluginConfig[2].name: Duplicate value: \"NodeAffinity\"",
        ),
    ];
    for (body, expected) in cases {
        let found = errors(body);
        if body.contains("Nope") {
            let lines: Vec<&str> = found.lines().collect();
            assert!(
                lines[0]
                    .starts_with("profiles[0].pluginConfig[0].name: Invalid value: \"Nope\": unknown plugin")
            );
            assert_eq!(lines[1..], [expected, "profiles[0].pluginConfig[3].name: Required value"]);
        } else {
            assert_eq!(found, expected, "{body}");
        }
    }
}

#[test]
fn versions_and_kinds() {
    let of = |version: &str, kind: &str| {
        SchedulerConfig::read(&serde_json::json!({"apiVersion": version, "kind": kind}))
            .map(|(_, warnings)| warnings.iter().map(ToString::to_string).collect::<Vec<_>>())
            .map_err(|errors| errors.to_string())
    };
    let kind = "KubeSchedulerConfiguration";
    assert_eq!(of("kubescheduler.config.k8s.io/v1", kind), Ok(vec![]));
    assert_eq!(
        of("kubescheduler.config.k8s.io/v1beta3", kind),
        Ok(vec![
            "apiVersion: kubescheduler.config.k8s.io/v1beta3 was removed in Kubernetes 1.29; it is read as \
             kubescheduler.config.k8s.io/v1"
                .to_owned()
        ])
    );
    assert_eq!(
        of("kubescheduler.config.k8s.io/v1beta2", kind),
        Err("apiVersion: Invalid value: \"kubescheduler.config.k8s.io/v1beta2\": the default score weights of \
             v1beta2 differ; write \"kubescheduler.config.k8s.io/v1\" and set the weights you want"
            .to_owned())
    );
    assert_eq!(
        of("v1", "Pod"),
        Err("apiVersion: Invalid value: \"v1\": must be \"kubescheduler.config.k8s.io/v1\"\n\
             kind: Invalid value: \"Pod\": must be \"KubeSchedulerConfiguration\""
            .to_owned())
    );
    let missing = SchedulerConfig::from_value(&serde_json::json!({})).map_err(|e| e.to_string());
    assert_eq!(missing, Err("apiVersion: Required value\nkind: Required value".to_owned()));
    let list = SchedulerConfig::from_value(&serde_json::json!([])).map_err(|e| e.to_string());
    assert_eq!(list, Err("must be an object, not a list".to_owned()));
}

/// Every configuration of the recordings was accepted by kube-scheduler.
#[test]
fn recorded_configurations_are_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/conformance/profiles.jsonl.gz");
    let Ok(file) = std::fs::File::open(&path) else {
        eprintln!("conformance suite not found at {}: nothing was checked", path.display());
        return;
    };
    let mut n_configs = 0;
    for line in BufReader::new(flate2::read::GzDecoder::new(file)).lines() {
        let recording: Value = serde_json::from_str(&line.expect("gzip text")).expect("JSON");
        let scenario = &recording["scenario"];
        let Some(config) = scenario.get("config") else { continue };
        n_configs += 1;
        match SchedulerConfig::read(config) {
            Ok((_, warnings)) => assert_eq!(warnings, [], "{}", scenario["name"]),
            Err(errors) => panic!("{}: {errors}", scenario["name"]),
        }
    }
    assert!(n_configs > 0, "{} holds no configurations", path.display());
}

#[test]
fn a_shown_configuration_reads_back_as_it_is() {
    for text in [
        "",
        "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 30\n\
         leaderElection: {leaseDuration: 1m30s, resourceName: x}\n\
         clientConnection: {qps: 12.5, burst: 40, kubeconfig: /k}",
        "profiles: [{schedulerName: a, plugins: {multiPoint: {disabled: [{name: ImageLocality}]}, \
         postFilter: {disabled: [{name: '*'}]}, preEnqueue: {disabled: [{name: '*'}]}}, pluginConfig: [\
         {name: VolumeBinding, args: {bindTimeoutSeconds: 7}}, \
         {name: DynamicResources, args: {bindingTimeout: 1500ms}}, \
         {name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, \
         requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}}, \
         {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [\
         {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}, {schedulerName: b}]",
    ] {
        let (config, _) = read(text).unwrap();
        let shown = config.to_value();
        assert_eq!(SchedulerConfig::from_value(&shown), Ok(config), "{shown:#}");
    }
}

#[test]
fn empty_values_get_the_defaults_that_kube_scheduler_gives_them() {
    let body = "leaderElection: {resourceLock: '', resourceName: '', resourceNamespace: '', leaderElect: null, \
                leaseDuration: 0s}\n\
                clientConnection: {kubeconfig: '', contentType: '', acceptContentTypes: '', qps: 0, burst: 0}\n\
                profiles: [{schedulerName: null, plugins: {}, pluginConfig: [\
                {name: InterPodAffinity, args: {apiVersion: '', kind: '', hardPodAffinityWeight: null}}, \
                {name: NodeResourcesFit, args: {scoringStrategy: {type: LeastAllocated, resources: []}}}, \
                {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 0}, {name: memory}]}}, \
                {name: PodTopologySpread, args: {defaultingType: ''}}]}]";
    let process = ProcessConfig {
        leader_election: LeaderElectionConfig { leader_elect: true, ..LeaderElectionConfig::default() },
        ..ProcessConfig::default()
    };
    assert_eq!(read(body), Ok((SchedulerConfig { process, ..SchedulerConfig::default() }, Vec::new())));
    // kube-scheduler reads the lock only with leader election.
    assert!(read("leaderElection: {leaderElect: false, resourceLock: endpoints}").is_ok());
    // Those are required.
    for body in ["profiles: [{schedulerName: ''}]", "leaderElection: {leaseDuration: ''}"] {
        assert!(read(body).is_err(), "{body}");
    }
}

#[test]
fn settings_of_the_process_are_read_and_others_cause_warnings() {
    let body = "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 30\nleaderElection: {retryPeriod: 500ms, resourceLock: leases}\n\
                clientConnection: {qps: -1, burst: 0}";
    let process = read(body).unwrap().0.process;
    assert_eq!((process.pod_initial_backoff.as_secs(), process.pod_max_backoff.as_secs()), (3, 30));
    assert!(process.leader_election.leader_elect, "as in kube-scheduler");
    assert_eq!(process.leader_election.retry_period.map(|d| d.as_millis()), Some(500));
    assert_eq!(process.client_connection, ClientConnectionConfig::default());
    let body = "leaderElection: {resourceLock: configmaps, leaseDuration: soon}";
    assert_eq!(
        errors(body),
        "leaderElection.resourceLock: Invalid value: \"configmaps\": must be \"leases\"\n\
         leaderElection.leaseDuration: Invalid value: \"soon\": must be a duration, for example 15s or 1m30s"
    );

    let warned = |body| read(body).unwrap().1.into_iter().map(|w| w.path).collect::<Vec<_>>();
    let body = "parallelism: 8\npercentageOfNodesToScore: 10\nenableProfiling: true\n\
                enableContentionProfiling: false\ndelayCacheUntilActive: true\nextenders: []\n\
                clientConnection: {contentType: application/json}\nprofiles: [{pluginConfig: [\
                {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 3}}]}]";
    let expected = [
        "enableProfiling",
        "delayCacheUntilActive",
        "clientConnection.contentType",
        "percentageOfNodesToScore",
        "parallelism",
        "profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute",
    ];
    assert_eq!(warned(body), expected);
    assert!(warned("percentageOfNodesToScore: 0\nprofiles: [{percentageOfNodesToScore: 100}]").is_empty());
}

/// What `kube-scheduler --write-config-to` of 1.37 adds to that of 1.36.
#[test]
fn the_configuration_that_a_version_writes_loads_under_each_version() {
    use berth_api::feature_gates::KubernetesVersion::{V1_36, V1_37, V1_38};
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n  \
                plugins: {podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}\n  pluginConfig:\n  - name: VolumeBinding\n    \
                args: {bindTimeoutSeconds: 600, shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}\n";
    let warnings = |version| {
        let read = SchedulerConfig::read_with(&value(text), false, FeatureGates::from(version));
        let (config, warnings) = read.expect("readable");
        assert_eq!(config.profiles, [Profile::default()]);
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings(V1_36),
        [
            "profiles[0].plugins.podGroupPostFilter: is ignored: Kubernetes 1.36 does not have this extension point of 1.37, which \
             preempts pods for groups",
            "profiles[0].pluginConfig[0].args.shape: is ignored: nodes are scored by storage capacity with the feature gate \
             StorageCapacityScoring, which is on in Kubernetes 1.37",
        ]
    );
    assert_eq!(warnings(V1_37), [""; 0]);
    assert_eq!(warnings(V1_38), [""; 0]);
}
