//! Reading a `KubeSchedulerConfiguration` object.

use serde_json::Value;

use super::plugin::Point;
use super::plugins::Plugins;
use super::process::{ProcessConfig, check_percentage};
use super::version::{API_VERSION, V1BETA3};
use super::{DEFAULT_SCHEDULER_NAME, Plugin, Profile, SchedulerConfig};
use berth_api::feature_gates::FeatureGates;
use berth_api::read::fields::{ConfigErrors, ConfigMessage, Fields, Findings, Node};

const KIND: &str = "KubeSchedulerConfiguration";

impl SchedulerConfig {
    /// Reads a `KubeSchedulerConfiguration` (JSON, or YAML turned into a JSON value) and resolves it.
    ///
    /// # Errors
    /// All unknown fields and plugins, values that kube-scheduler rejects, and settings that Berth does not support
    /// (`extenders`), each with its path.
    pub fn from_value(value: &Value) -> Result<SchedulerConfig, ConfigErrors> {
        SchedulerConfig::read(value).map(|(config, _warnings)| config)
    }

    /// Like [`SchedulerConfig::from_value`], with the warnings.
    pub fn read(value: &Value) -> Result<(SchedulerConfig, Vec<ConfigMessage>), ConfigErrors> {
        SchedulerConfig::read_with(value, true, FeatureGates::default())
    }

    /// The same; without `extensions`, arguments that kube-scheduler does not have are errors, and so are arguments of features
    /// that are off.
    pub fn read_with(
        value: &Value,
        extensions: bool,
        feature_gates: FeatureGates,
    ) -> Result<(SchedulerConfig, Vec<ConfigMessage>), ConfigErrors> {
        let findings = Findings::new(extensions, feature_gates);
        let root = Node { value, path: String::new(), findings: &findings }.fields();
        let config = root.and_then(|mut root| read_type(&mut root).then(|| read_root(root)));
        let warnings = findings.finish()?;
        Ok((SchedulerConfig { feature_gates, ..config.unwrap_or_default() }, warnings))
    }
}

/// Checks `apiVersion` and `kind`; false when the object is of another kind.
fn read_type(root: &mut Fields<'_>) -> bool {
    if let Some(version) = root.required_string("apiVersion") {
        match version.string().unwrap_or_default() {
            API_VERSION => {}
            V1BETA3 => version.findings.warn(
                "apiVersion",
                format!("{V1BETA3} was removed in Kubernetes 1.29; it is read as {API_VERSION}"),
            ),
            "kubescheduler.config.k8s.io/v1beta2" => version.invalid(&format!(
                "the default score weights of v1beta2 differ; write {API_VERSION:?} and set the weights you want"
            )),
            _ => version.invalid(&format!("must be {API_VERSION:?}")),
        }
    }
    match root.required_string("kind") {
        Some(kind) if kind.string() != Some(KIND) => {
            kind.invalid(&format!("must be {KIND:?}"));
            false
        }
        _ => true,
    }
}

fn read_root(mut root: Fields<'_>) -> SchedulerConfig {
    let process = ProcessConfig::read(&mut root);
    for extender in root.items("extenders") {
        let url = extender.value.get("urlPrefix").and_then(Value::as_str).unwrap_or_default();
        extender.error(format!(
            "Forbidden: Berth calls no extenders, so its decisions would not be those of this configuration; \
             remove {url:?}"
        ));
    }
    let nodes = root.items("profiles");
    root.finish();

    let mut profiles: Vec<Profile> = Vec::new();
    let mut queue_sort = None;
    for node in &nodes {
        let Some(mut fields) = node.fields() else { continue };
        let scheduler_name = read_scheduler_name(&mut fields, nodes.len() == 1);
        if let Some(earlier) = profiles.iter().position(|p| p.scheduler_name == scheduler_name)
            && !scheduler_name.is_empty()
        {
            let text =
                format!("Duplicate value: {scheduler_name:?}: profiles[{earlier}] has this name already");
            fields.findings.error(fields.path_of("schedulerName"), text);
        }
        check_percentage(&mut fields);
        let plugins = Plugins::read(&mut fields);
        if *queue_sort.get_or_insert_with(|| plugins.queue_sort()) != plugins.queue_sort() {
            let text = "Invalid value: must be the same for all profiles";
            fields.findings.error(fields.path_of("plugins.queueSort"), text);
        }
        let mut profile = Profile { scheduler_name, ..Profile::default() };
        profile.read_plugin_config(&mut fields);
        profiles.push(resolve(profile, &plugins, &fields));
        fields.finish();
    }
    if nodes.is_empty() {
        profiles.push(Profile::default());
    }
    SchedulerConfig { profiles, process, ..SchedulerConfig::default() }
}

/// The name may be absent only in a configuration with one profile.
fn read_scheduler_name(profile: &mut Fields<'_>, only: bool) -> String {
    match profile.get("schedulerName") {
        Some(name) => match name.string() {
            Some("") => name.error("Required value: give the profile a name, or leave the field out"),
            Some(text) => return text.to_owned(),
            None => {}
        },
        None if only => return DEFAULT_SCHEDULER_NAME.to_owned(),
        None => profile
            .findings
            .error(profile.path_of("schedulerName"), "Required value: name each of several profiles"),
    }
    String::new()
}

/// The profile with the plugins of each extension point.
fn resolve(profile: Profile, plugins: &Plugins, fields: &Fields<'_>) -> Profile {
    let names = |point| plugins.resolve(point).into_iter().map(|(plugin, _)| plugin).collect::<Vec<_>>();
    if names(Point::QueueSort).len() != 1 {
        let text = "Invalid value: a profile needs one queue sort plugin; leave PrioritySort enabled";
        fields.findings.error(fields.path_of("plugins.queueSort"), text);
    }
    if !plugins.binds() {
        let text = "Invalid value: a profile needs a bind plugin; leave DefaultBinder enabled";
        fields.findings.error(fields.path_of("plugins.bind"), text);
    }
    Profile {
        scheduling_gates: names(Point::PreEnqueue).contains(&Plugin::SchedulingGates),
        preemption: plugins.preempts(),
        pre_filter: names(Point::PreFilter),
        filter: names(Point::Filter),
        pre_score: names(Point::PreScore),
        score: plugins.resolve(Point::Score),
        ..profile
    }
}
