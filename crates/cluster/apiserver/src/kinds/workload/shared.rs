//! Rules that workloads share: Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs.

use berth_api::feature_gates::KubernetesVersion::V1_37;
use berth_api::object::{LabelSelector, PodSpec};
use berth_api::read::{from_value, pod_template_pointer};
use berth_api::syntax;
use berth_rules::admission::{creation_warnings, validate_pod};
use berth_rules::{RuleOptions, Selector};

use crate::kinds::pod::validate::{sort_causes, spec_warnings, validate_spec};
use crate::kinds::prelude::*;
use crate::request::Cause;
use crate::strategy::template;
use crate::strategy::volume_claim::validate_claim;

/// The restart policy of pods that run until they are deleted.
pub const ALWAYS: &[&str] = &["Always"];

/// The rules of a kind whose `spec` has a selector and a pod template.
pub struct Workload {
    /// Sets defaults of the spec, after those of the pod template.
    pub default: fn(&mut Map<String, Value>),
    /// The counts of a new object's status, all 0.
    pub counts: &'static [&'static str],
    /// Completes an object that replaces another one, which is null if it is new.
    pub complete: fn(&mut Value, &Value),
    pub restart_policies: &'static [&'static str],
    pub name_problems: fn(&str) -> Vec<String>,
    /// The kind in what is said of a selector of all pods.
    pub of_selector: &'static str,
    /// Validates the rest of a spec that has a template.
    pub check: fn(&Value, &mut Causes),
    /// Validates a change of the spec; the selector is immutable.
    pub check_update: fn(&Value, &Value, &mut Causes),
    /// Validates the status of an object beyond its counts.
    pub check_status: fn(&Value, &Value, &mut Causes),
    /// Fields that updates must not change, and that are not validated then.
    pub validated_if_new: &'static [&'static str],
}

impl Workload {
    /// The rules that all have.
    pub const NEW: Workload = Workload {
        default: |_| {},
        counts: &[],
        complete: |_, _| {},
        restart_policies: ALWAYS,
        name_problems: syntax::dns_subdomain,
        of_selector: "deployment",
        check: |_, _| {},
        check_update: |_, _, _| {},
        check_status: |_, _, _| {},
        validated_if_new: &[],
    };
}

impl Strategy for Workload {
    fn default(&self, value: &mut Value) {
        default_spec(value, self.default);
    }

    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        remove_gated(context, value, &Value::Null);
        value["status"] = self.counts.iter().map(|count| ((*count).to_owned(), Value::from(0))).collect();
        (self.complete)(value, &Value::Null);
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if matches!(context.subresource, "" | "scale") {
            self.default(new);
            remove_gated(context, new, old);
        }
        (self.complete)(new, old);
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        (self.name_problems)(name)
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        validate_numbers(spec, causes);
        if matches!(self.of_selector, "deployment" | "daemonset") {
            causes.not_negative("spec.revisionHistoryLimit", &spec["revisionHistoryLimit"]);
        }
        // Of jobs, the template comes last but one.
        let is_job = self.restart_policies != ALWAYS;
        if is_job {
            validate_generated_selector(value, causes);
            (self.check)(spec, causes);
        } else {
            validate_selector(spec, self.of_selector, causes);
        }
        let has_template = validate_template(context, spec, self.restart_policies, causes);
        if is_job {
            validate_selector(spec, self.of_selector, causes);
        } else if has_template {
            (self.check)(spec, causes);
        }
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
        let is_negative = value["spec"]["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0);
        (self.of_selector == "statefulset" && is_negative).then(|| warning.to_owned()).into_iter().collect()
    }

    fn update_warnings(&self, _context: &Context<'_>, new: &Value, _old: &Value) -> Vec<String> {
        self.warnings(new)
    }

    fn validate_status(&self, new: &Value, old: &Value, causes: &mut Causes) {
        validate_counts(new, old, self.of_selector, causes);
        (self.check_status)(new, old, causes);
    }

    fn validates_change_first(&self) -> bool {
        self.of_selector == "daemonset"
    }

    fn validated_if_new(&self) -> &'static [&'static str] {
        self.validated_if_new
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged_at(&["/spec/selector"], new, old);
        (self.check_update)(&new["spec"], &old["spec"], causes);
    }
}

/// The counts of a status, in the order of kube-apiserver.
const COUNTS: &[&str] = &[
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "terminatingReplicas",
    "collisionCount",
];

/// Validates the counts of a status of replicas, and those of a DaemonSet.
pub fn validate_counts(new: &Value, old: &Value, kind: &str, causes: &mut Causes) {
    let status = &new["status"];
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    for name in COUNTS {
        causes.not_negative(&format!("status.{name}"), &status[name]);
    }
    for name in &COUNTS[1..6] {
        if count(name) > count("replicas") {
            let why = "cannot be greater than status.replicas";
            causes.invalid(&format!("status.{name}"), &count(name).into(), why);
        }
    }
    if count("availableReplicas") > count("readyReplicas") {
        let of = if kind == "statefulset" { "status." } else { "" };
        let why = format!("cannot be greater than {of}readyReplicas");
        causes.invalid("status.availableReplicas", &count("availableReplicas").into(), &why);
    }
    let before = old["status"]["collisionCount"].as_i64();
    if before.is_some_and(|before| count("collisionCount") < before) {
        causes.invalid("status.collisionCount", &count("collisionCount").into(), "cannot be decremented");
    }
}

/// Removes `scheduling` of Jobs without its gate, unless the stored object has it.
fn remove_gated(context: &Context<'_>, value: &mut Value, old: &Value) {
    let gates = context.feature_gates;
    let has_scheduling = gates.workload_with_job && gates.version >= V1_37;
    if !has_scheduling && old["spec"]["scheduling"].is_null() {
        object(value, "spec").and_then(|spec| spec.remove("scheduling"));
    }
}

/// Sets the defaults of the pod template, then those of the rest of the spec.
pub fn default_spec(value: &mut Value, defaults: impl FnOnce(&mut Map<String, Value>)) {
    object(value, "spec");
    object(&mut value["spec"], "template");
    object(&mut value["spec"]["template"], "spec");
    template::default_spec(&mut value["spec"]["template"]["spec"]);
    if let Some(spec) = object(value, "spec") {
        defaults(spec);
    }
}

pub fn default_strategy(spec: &mut Map<String, Value>, key: &str, rolling: Value) {
    default(spec, key, json!({}));
    let Some(strategy) = spec.get_mut(key).and_then(Value::as_object_mut) else { return };
    default_text(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", json!({}));
        if let (Some(to), Value::Object(from)) =
            (strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut), rolling)
        {
            from.into_iter().for_each(|(key, value)| default(to, &key, value));
        }
    }
}

/// Gives a workload without labels those of its pods.
pub fn default_labels_from_template(value: &mut Value) {
    let labels = value["spec"]["template"]["metadata"]["labels"].clone();
    if !is_empty(&labels)
        && let Some(metadata) = object(value, "metadata")
        && metadata.get("labels").is_none_or(is_empty)
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

pub fn validate_numbers(spec: &Value, causes: &mut Causes) {
    for field in [
        "replicas",
        "minReadySeconds",
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ] {
        causes.not_negative(&format!("spec.{field}"), &spec[field]);
    }
}

pub fn mismatched(labels: &Value, causes: &mut Causes) {
    let none = json!({});
    let labels = if labels.is_null() { &none } else { labels };
    causes.invalid("spec.template.metadata.labels", labels, MISMATCH);
}

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The label that the generated selector of a Job requires.
pub const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// The labels of the pods of a Job, unless its user selects them.
pub fn generated_labels(job: &Value) -> [(&'static str, &Value); 4] {
    let (name, uid) = (&job["metadata"]["name"], &job["metadata"]["uid"]);
    [(UID_LABEL, uid), ("batch.kubernetes.io/job-name", name), ("controller-uid", uid), ("job-name", name)]
}

/// A selector that its user does not make selects no pods but those of the Job.
fn validate_generated_selector(job: &Value, causes: &mut Causes) {
    let selector = &job["spec"]["selector"];
    let labels = generated_labels(job);
    let label =
        |key: &str| labels.iter().find(|(known, _)| *known == key).and_then(|(_, label)| label.as_str());
    let parsed = from_value::<LabelSelector>(selector).ok().and_then(|of| Selector::parse(Some(&of)).ok());
    if job["spec"]["manualSelector"] != true && parsed.is_some_and(|selector| !selector.matches(label)) {
        causes.invalid("spec.selector", selector, "`selector` not auto-generated");
    }
}

/// A label selector with the fields of its expressions in their order.
fn shown_selector(selector: &Value) -> Value {
    let mut shown = selector.clone();
    for expression in items_mut(&mut shown, "matchExpressions") {
        let fields = ["key", "operator", "values"].map(|name| (name.to_owned(), expression[name].take()));
        *expression = fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
    }
    shown
}

fn validate_selector(spec: &Value, kind: &str, causes: &mut Causes) {
    let template_labels = &spec["template"]["metadata"]["labels"];
    let raw = &spec["selector"];
    if raw.is_null() {
        match kind {
            "daemonset" => causes.invalid("spec.template.metadata.labels", template_labels, MISMATCH),
            _ => {
                causes.required("spec.selector", "");
                mismatched(template_labels, causes);
            }
        }
        return;
    }
    let n_earlier = causes.0.len();
    validate_label_selector("spec.selector", raw, causes);
    if causes.0.len() > n_earlier {
        let shown = shown_selector(raw);
        match kind {
            "daemonset" | "job" => {}
            "statefulset" => {
                let message = format!("Invalid value: {shown}");
                causes.push(CauseType::FieldValueInvalid, "spec.selector", message);
            }
            _ => causes.invalid("spec.selector", &shown, "invalid label selector"),
        }
        return;
    }
    let typed: Option<LabelSelector> = from_value(raw).ok();
    match typed.as_ref().map(|selector| Selector::parse(Some(selector))) {
        Some(Ok(selector)) if selector.is_everything() => {
            causes.invalid("spec.selector", raw, &format!("empty selector is invalid for {kind}"));
        }
        Some(Ok(selector)) => {
            if !selector.matches(|key| template_labels[key].as_str()) {
                match kind {
                    "daemonset" => causes.invalid("spec.template.metadata.labels", template_labels, MISMATCH),
                    _ => mismatched(template_labels, causes),
                }
            }
        }
        Some(Err(why)) => causes.invalid("spec.selector", raw, &why),
        None => causes.invalid("spec.selector", raw, "must be a label selector"),
    }
}

/// Validates the pod template; `false` if there is none.
pub fn validate_template(
    context: &Context<'_>,
    spec: &Value,
    restart_policies: &[&str],
    causes: &mut Causes,
) -> bool {
    let template = &spec["template"];
    if !template.is_object() {
        causes.required("spec.template", "");
        return false;
    }
    let mut raw = template.clone();
    add_claims(spec, &mut raw["spec"], causes);
    let n_earlier = causes.0.len();
    validate_spec(&raw["spec"], "spec.template.spec", causes);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        let why = "ephemeral containers not allowed in pod template";
        causes.forbidden("spec.template.spec.ephemeralContainers", why);
    }
    // A template has neither name nor namespace; its pods will.
    if let Some(metadata) = object(&mut raw, "metadata") {
        metadata.insert("name".to_owned(), Value::from("template"));
        metadata.insert("namespace".to_owned(), Value::from("default"));
    }
    match typed_pod(&raw) {
        Ok(mut pod) => {
            berth_rules::admission::default_pod(&mut pod);
            // Of templates, images may have spaces around them; their pods are refused.
            let PodSpec { containers, init_containers, .. } = &mut *pod.spec;
            containers.iter_mut().chain(init_containers).for_each(|c| c.image = c.image.trim().to_owned());
            let Context { extensions, feature_gates, .. } = *context;
            let errors = validate_pod(&pod, RuleOptions { extensions, feature_gates });
            // kube-apiserver leaves `metadata` out.
            let causes_of_pod = errors.iter().map(|error| {
                let cause = cause(error, "spec.template.");
                Cause { field: cause.field.replace("spec.template.metadata.", "spec.template."), ..cause }
            });
            causes.0.extend(causes_of_pod);
        }
        Err(error) => causes.invalid("spec.template", &Value::from("..."), &error.to_string()),
    }
    sort_causes(n_earlier, "spec.template.spec", causes);
    let (path, policy) = ("spec.template.spec.restartPolicy", &template["spec"]["restartPolicy"]);
    let is_job = !restart_policies.contains(&"Always");
    match text(policy, "") {
        "" | "Always" if is_job => causes.required(path, "valid values: \"OnFailure\", \"Never\""),
        given if !restart_policies.contains(&given) => causes.not_supported(path, policy, restart_policies),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            causes.invalid(path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => {}
    }
    true
}

/// What a new pod of the template in an object is warned of; nothing if the kind has no template.
pub fn template_warnings(kind: &str, object: &Value) -> Vec<String> {
    let Some(pointer) = pod_template_pointer(kind) else { return Vec::new() };
    let template = object.pointer(pointer).unwrap_or(&Value::Null);
    let Ok(mut pod) = typed_pod(template) else { return Vec::new() };
    berth_rules::admission::default_pod(&mut pod);
    let warnings = creation_warnings(&pod).into_iter().chain(spec_warnings(&template["spec"]));
    let path = pointer[1..].replace('/', ".");
    let is_path = |warning: &str| warning.starts_with("spec.") || warning.starts_with("metadata.");
    warnings.map(|w| if is_path(&w) { format!("{path}.{w}") } else { w }).collect()
}

/// Validates the templates of claims of a StatefulSet, and gives its pods their volumes.
fn add_claims(spec: &Value, pod: &mut Value, causes: &mut Causes) {
    for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        validate_claim(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}].spec"), causes);
        let name = text(claim, "/metadata/name");
        if let Some(volumes) = pod.as_object_mut().and_then(|pod| list(pod, "volumes")) {
            volumes.retain(|volume| volume["name"] != name);
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
}

/// The number of a percentage: digits and a percent sign.
fn percent(value: &Value) -> Option<u32> {
    let digits = value.as_str()?.strip_suffix('%')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// A number or the number of a percentage; 0 of what is neither.
pub fn number_or_percent(value: &Value) -> i64 {
    let number = || value.as_i64().or_else(|| value.as_str()?.parse().ok());
    percent(value).map(i64::from).or_else(number).unwrap_or(0)
}

/// Validates a number or a percentage; neither may be negative.
pub fn validate_int_or_percent(path: &str, value: &Value, at_most_100: bool, causes: &mut Causes) {
    if value.is_string() {
        match percent(value) {
            Some(percent) if at_most_100 && percent > 100 => {
                causes.invalid(path, value, "must not be greater than 100%");
            }
            Some(_) => {}
            None => causes.invalid(
                path,
                value,
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                 regex used for validation is '[0-9]+%')",
            ),
        }
    } else {
        causes.not_negative(path, value);
    }
}

pub fn validate_rolling_update(spec: &Value, key: &str, types: &[&str], causes: &mut Causes) {
    let strategy = &spec[key];
    if !types.contains(&text(strategy, "/type")) {
        // kube-apiserver names the whole strategy, in its own form.
        let rolling = &strategy["rollingUpdate"];
        let shown = json!({"MaxUnavailable": rolling["maxUnavailable"], "MaxSurge": rolling["maxSurge"]});
        let shown = if rolling.is_null() { &Value::Null } else { &shown };
        let shown = json!({"Type": text(strategy, "/type"), "RollingUpdate": shown});
        return causes.not_supported(&format!("spec.{key}"), &shown, types);
    }
    if strategy["type"] != "RollingUpdate" {
        if !strategy["rollingUpdate"].is_null() {
            let detail =
                format!("may not be specified when strategy `type` is '{}'", text(strategy, "/type"));
            causes.forbidden(&format!("spec.{key}.rollingUpdate"), &detail);
        }
        return;
    }
    let rolling = &strategy["rollingUpdate"];
    let mut zero = Vec::new();
    for field in ["maxUnavailable", "maxSurge"] {
        let (path, value) = (format!("spec.{key}.rollingUpdate.{field}"), &rolling[field]);
        validate_int_or_percent(&path, value, field == "maxUnavailable", causes);
        if number_or_percent(value) == 0 {
            zero.push(field);
        }
    }
    let path = format!("spec.{key}.rollingUpdate");
    let is_daemon_set = key == "updateStrategy";
    match zero.len() {
        0 if is_daemon_set => {
            let why = "may not be set when maxUnavailable is non-zero";
            causes.invalid(&format!("{path}.maxSurge"), &rolling["maxSurge"], why);
        }
        2 if is_daemon_set => {
            causes.required(&format!("{path}.maxUnavailable"), "cannot be 0 when maxSurge is 0");
        }
        2 => {
            let why = "may not be 0 when `maxSurge` is 0";
            causes.invalid(&format!("{path}.maxUnavailable"), &rolling["maxUnavailable"], why);
        }
        _ => {}
    }
}

pub const READY: Column = Column::text("Ready", "Ready pods, of the desired.", |row| {
    format!("{}/{}", row.integer("/status/readyReplicas"), row.integer("/spec/replicas")).into()
});

pub const DESIRED: Column = Column::number("Desired", "How many pods there should be.", "/spec/replicas");

pub const CURRENT: Column = Column::number("Current", "How many pods there are.", "/status/replicas");

pub const N_READY: Column = Column::number("Ready", "How many pods are ready.", "/status/readyReplicas");

pub const UP_TO_DATE: Column =
    Column::number("Up-to-date", "How many pods are of the current template.", "/status/updatedReplicas");

pub const AVAILABLE: Column =
    Column::number("Available", "How many pods have been ready long enough.", "/status/availableReplicas");

#[cfg(test)]
mod tests {
    use berth_schema::resource::find;

    use super::*;
    use crate::kinds;

    #[test]
    fn workloads_get_defaults() {
        let defaulted = |group: &str, plural: &str, spec: Value| {
            let mut value = json!({"metadata": {"name": "w", "uid": "u"}, "spec": spec});
            kinds::strategy(find(group, "v1", plural).unwrap()).default(&mut value);
            value
        };
        let deployment =
            defaulted("apps", "deployments", json!({"strategy": {"rollingUpdate": {"maxSurge": 1}}}));
        let mut spec = deployment["spec"].clone();
        assert_eq!(spec["template"].take()["spec"]["schedulerName"], "default-scheduler");
        assert_eq!(
            spec,
            json!({"template": null, "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"}}})
        );
        let recreate = defaulted("apps", "deployments", json!({"strategy": {"type": "Recreate"}}));
        assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
        let job = defaulted("batch", "jobs", json!({"template": {"spec": {"containers": []}}}));
        assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&json!(1), &json!(1)));
        let queue = defaulted("batch", "jobs", json!({"parallelism": 3, "template": {"spec": {}}}));
        assert_eq!(queue["spec"]["completions"], Value::Null);
        let rc = defaulted(
            "",
            "replicationcontrollers",
            json!({"template": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}),
        );
        assert_eq!(
            (&rc["spec"]["selector"]["a"], &rc["metadata"]["labels"]["a"]),
            (&json!("b"), &json!("b"))
        );
    }

    #[test]
    fn rolling_updates_need_surge_or_unavailability() {
        for (rolling, wanted) in [
            (json!({"maxUnavailable": 0, "maxSurge": 1}), 0),
            (json!({"maxUnavailable": 0, "maxSurge": "0%"}), 1),
            (json!({"maxUnavailable": "101%", "maxSurge": 1}), 1),
            (json!({"maxUnavailable": "x", "maxSurge": -1}), 2),
        ] {
            let spec = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
            let mut causes = Causes::default();
            validate_rolling_update(&spec, "strategy", &["RollingUpdate"], &mut causes);
            assert_eq!(causes.0.len(), wanted, "{spec}: {causes:?}");
        }
    }
}
