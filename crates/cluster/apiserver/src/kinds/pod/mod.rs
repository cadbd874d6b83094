//! Pods.

mod columns;
mod containers;
mod defaults;
mod ephemeral;
mod resize;
pub mod status;
mod update;
pub mod validate;
mod volumes;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{self as typed, PriorityClass, RuntimeClass, Toleration};
use berth_api::read::from_value;
use berth_api::syntax::annotations::ANNOTATION_PREFIX;
use berth_rules::RuleOptions;
use berth_rules::admission::node_restriction::{MIRROR, Referent, references, token_audiences};
use berth_rules::admission::{
    AdmissionOptions, FieldError, admit, extension_warnings, validate_changed_annotations, validate_pod,
};
use berth_schema::resource::{BINDINGS, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES, Resource};

use defaults::{default_pod, qos_class};
use validate::{sort_causes, spec_warnings, validate_responders, validate_spec, validate_usage};

use crate::kinds::kind::{NoRules, kinds};
use crate::kinds::prelude::*;
use crate::strategy::proposal_fields::ENFORCED;
use crate::strategy::{add_topology_labels, metadata};

const DEFAULT_GRACE_SECONDS: i64 = 30;
const IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub struct Pod;

kinds! {
    PODS: Pod, columns::COLUMNS, conditions: columns::conditions, has_generation: true;
    BINDINGS: NoRules, DEFAULT;
}

impl Strategy for Pod {
    fn default(&self, value: &mut Value) {
        default_pod(value);
    }

    fn prepare_create(&self, context: &Context<'_>, pod: &mut Value) {
        let node = text(pod, "/spec/nodeName").to_owned();
        add_topology_labels(context.lookup, &node, pod);
        let is_mirror = pod["metadata"]["annotations"].get(MIRROR).is_some();
        if let Some(spec) = pod["spec"].as_object_mut().filter(|_| !is_mirror) {
            default_text(spec, "serviceAccountName", "default");
            let account = spec["serviceAccountName"].clone();
            spec.insert("serviceAccount".to_owned(), account);
        }
        pod["status"] = json!({"phase": "Pending", "qosClass": qos_class(pod)});
        if !items(&pod["spec"], "schedulingGates").is_empty() {
            pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates", "lastProbeTime": null,
                "lastTransitionTime": now()}]);
        }
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        update::prepare_update(context, new, old);
    }

    fn validate_status(&self, new: &Value, old: &Value, causes: &mut Causes) {
        status::validate(new, old, causes);
    }

    /// Of a changed pod; new ones are validated as they are admitted.
    fn validate(&self, context: &Context<'_>, pod: &Value, causes: &mut Causes) {
        let Ok(typed) = typed_pod(pod) else { return };
        let Context { extensions, feature_gates, .. } = *context;
        let errors = validate_pod(&typed, RuleOptions { extensions, feature_gates });
        // That a pod with gates has no node is a rule of new pods; of others, no change may set it.
        let is_own = |error: &&FieldError| {
            let is_fixed = error.field == "spec.nodeName" && error.error.contains("Forbidden");
            error.field.starts_with("spec.") && !error.field.starts_with("spec.tolerations") && !is_fixed
        };
        causes.0.extend(errors.iter().filter(is_own).map(|error| cause(error, "")));
        validate_spec(&pod["spec"], "spec", causes);
        validate_responders(&pod["spec"], causes);
        sort_causes(0, "spec", causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        validate_tolerations(context.feature_gates, new, old, causes);
        causes.0.extend(update::validate_update(new, old));
    }

    /// As the webhook does for another API server.
    fn update_warnings(&self, context: &Context<'_>, new: &Value, old: &Value) -> Vec<String> {
        fn annotations(pod: &Value) -> Vec<(&String, &Value)> {
            let all = pod["metadata"]["annotations"].as_object().into_iter().flatten();
            all.filter(|(key, _)| key.starts_with(ANNOTATION_PREFIX)).collect()
        }
        let is_unchanged =
            new["spec"]["affinity"] == old["spec"]["affinity"] && annotations(new) == annotations(old);
        if is_unchanged || !context.extensions {
            return Vec::new();
        }
        read(new).map(|pod| extension_warnings(&pod)).unwrap_or_default()
    }

    /// By any subresource: those that do not write annotations have kept them.
    fn authorize_update(&self, context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
        if context.subresource == "resize" {
            resize::authorize(context, new, old)?;
        }
        if new["metadata"]["annotations"] == old["metadata"]["annotations"] {
            return Ok(());
        }
        let mut causes = Causes::default();
        validate_usage(new, &mut causes);
        if context.extensions {
            let errors = validate_changed_annotations(&read(new)?, &read(old)?);
            causes.0.extend(errors.iter().map(|error| cause(error, "")));
        }
        causes.refuse(&PODS, new)
    }

    fn validate_subresource(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        match context.subresource {
            "resize" => resize::validate(context, new, old, causes),
            "ephemeralcontainers" => ephemeral::validate(new, old, causes),
            _ => {}
        }
    }

    /// Resolves the priority, adds tolerations, merges the runtime class and label keys, and validates, by `berth_api`.
    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        pod: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let name = text(pod, "/metadata/name").to_owned();
        if let Some(why) = misuse_of_mirror(pod) {
            return Err(Status::forbidden(resource, &name, why));
        }
        let mut causes = Causes::default();
        metadata::validate_owners(pod, &mut causes);
        causes.refuse(resource, pod)?;
        let extensions = context.extensions;
        let mut typed: typed::Pod = read(pod)?;
        let classes = priority_classes(context)?;
        let runtime_class = runtime_class(context, &typed.spec.runtime_class_name)?;
        let options = AdmissionOptions {
            rules: RuleOptions { extensions, feature_gates: context.feature_gates },
            priority_classes: Some(&classes),
            runtime_classes: Some(runtime_class.as_slice()),
            default_tolerations: true,
        };
        let admission = admit(&mut typed, &options);
        if let Some(denied) = admission.denied {
            let why = denied.split_once(" is forbidden: ").map_or(denied.as_str(), |(_, why)| why);
            return Err(Status::forbidden(resource, &name, why));
        }
        let mut causes = Causes::default();
        causes.0.extend(admission.errors.iter().map(|error| cause(error, "")));
        if !is_empty(&pod["spec"]["ephemeralContainers"]) {
            causes.forbidden("spec.ephemeralContainers", "cannot be set on create");
        }
        validate_spec(&pod["spec"], "spec", &mut causes);
        validate_responders(&pod["spec"], &mut causes);
        validate_usage(pod, &mut causes);
        sort_causes(0, "spec", &mut causes);
        causes.refuse(resource, pod)?;
        warnings.extend(admission.warnings.into_iter().chain(spec_warnings(&pod["spec"])));
        if !extensions {
            drop_extensions(pod);
        }
        write_back(pod, &typed);
        // A second conversion of the object gives the same typed pod.
        if let Some(admitted) = context.admitted {
            admitted.get_or_init(|| typed);
        }
        Ok(())
    }

    /// A pod that never ran or has ended is deleted at once.
    fn grace_seconds(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        if !scheduled || ended {
            return Some(0);
        }
        let seconds = requested.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64());
        let seconds = seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
        // As upstream: a negative grace period means the shortest one. A grace period is limited to one year.
        Some(if seconds < 0 { 1 } else { seconds.min(366 * 24 * 3600) })
    }
}

/// Validates the tolerations of a changed pod. Comparisons that it had stay valid without their gate.
fn validate_tolerations(gates: FeatureGates, new: &Value, old: &Value, causes: &mut Causes) {
    let compares = |t: &Value| matches!(text(t, "/operator"), "Gt" | "Lt");
    let had_comparisons = items(&old["spec"], "tolerations").iter().any(compares);
    let gates = FeatureGates {
        taint_toleration_comparison_operators: gates.taint_toleration_comparison_operators || had_comparisons,
        ..gates
    };
    let Ok(tolerations) = from_value::<Vec<Toleration>>(&new["spec"]["tolerations"]) else { return };
    let errors = berth_rules::admission::validate_tolerations(&tolerations, gates);
    causes.0.extend(errors.iter().map(|error| cause(error, "")));
}

/// Why a mirror pod is refused. The API server gives a mirror pod no credentials, whatever user creates it: the rule of the
/// admission plugin ServiceAccount.
fn misuse_of_mirror(pod: &Value) -> Option<&'static str> {
    pod["metadata"]["annotations"].get(MIRROR)?;
    let refers = |wanted| references(pod).iter().any(|(referent, _)| *referent == wanted);
    if refers(Referent::ServiceAccount) {
        Some("a mirror pod may not reference service accounts")
    } else if refers(Referent::Secret) {
        Some("a mirror pod may not reference secrets")
    } else {
        token_audiences(pod).next().map(|_| "a mirror pod may not use ServiceAccountToken volume projections")
    }
}

fn read(pod: &Value) -> ApiResult<typed::Pod> {
    typed_pod(pod).map_err(|error| {
        Status::bad_request(format!("Pod in version \"v1\" cannot be handled as a Pod: {error}"))
    })
}

pub fn priority_classes(context: &Context<'_>) -> ApiResult<Vec<PriorityClass>> {
    let objects = context.lookup.list(&PRIORITY_CLASSES, None);
    objects.iter().map(|object| from_value(&object.parsed()).map_err(Status::internal)).collect()
}

fn runtime_class(context: &Context<'_>, name: &str) -> ApiResult<Option<RuntimeClass>> {
    let class = context.lookup.get(&RUNTIME_CLASSES, "", name).filter(|_| !name.is_empty());
    class.map(|object| from_value(&object.parsed()).map_err(Status::internal)).transpose()
}

fn drop_extensions(pod: &mut Value) {
    for rules in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        let Some(rules) = pod.pointer_mut(&format!("/spec/affinity/{rules}")) else { continue };
        if let Some(rules) = rules.as_object_mut() {
            rules.remove(ENFORCED);
            for term in rules.values_mut().flat_map(node_terms_mut) {
                term.remove("matchAnnotations");
            }
        }
        for (list, term) in [(IGNORED, ""), (PREFERRED, "/podAffinityTerm")] {
            for item in items_mut(rules, list) {
                if let Some(term) = item.pointer_mut(term).and_then(Value::as_object_mut) {
                    term.remove("limit");
                }
            }
        }
    }
}

/// The node terms of a node selector, or of a list of preferences.
fn node_terms_mut(rules: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let terms = match rules {
        Value::Object(selector) => selector.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut),
        terms => terms.as_array_mut(),
    };
    terms.into_iter().flatten().filter_map(|term| match term.get("preference") {
        Some(_) => term.get_mut("preference").and_then(Value::as_object_mut),
        None => term.as_object_mut(),
    })
}

/// Copies admission's changes of the typed pod into the raw pod, which has more fields.
fn write_back(pod: &mut Value, typed: &typed::Pod) {
    let spec = &mut pod["spec"];
    let set = |map: &mut Map<String, Value>, key: &str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    };
    if let Some(fields) = spec.as_object_mut() {
        set(fields, "priority", typed.spec.priority.map(Value::from));
        set(fields, "preemptionPolicy", typed.spec.preemption_policy.clone().map(Value::from));
        let class = Some(typed.spec.priority_class_name.as_str()).filter(|class| !class.is_empty());
        set(fields, "priorityClassName", class.map(Value::from));
        let selector = (!typed.spec.node_selector.is_empty()).then_some(&typed.spec.node_selector);
        set(fields, "nodeSelector", selector.and_then(|selector| serde_json::to_value(selector).ok()));
        let tolerations = (!typed.spec.tolerations.is_empty()).then_some(&typed.spec.tolerations);
        set(fields, "tolerations", tolerations.and_then(|list| serde_json::to_value(list).ok()));
    }
    set_quantities(spec, "overhead", &typed.spec.overhead);
    write_resources(spec, &typed.spec);
    if let Some(resources) = &typed.spec.resources {
        set_quantities(&mut spec["resources"], "requests", &resources.requests);
        set_quantities(&mut spec["resources"], "limits", &resources.limits);
    }
    for (raw, constraint) in
        items_mut(spec, "topologySpreadConstraints").iter_mut().zip(&typed.spec.topology_spread_constraints)
    {
        append_requirements(raw, constraint.label_selector.as_ref());
    }
    let Some(affinity) = &typed.spec.affinity else { return };
    for (name, rules) in
        [("podAffinity", &affinity.pod_affinity), ("podAntiAffinity", &affinity.pod_anti_affinity)]
    {
        let Some(rules) = rules else { continue };
        let raw = &mut spec["affinity"][name];
        let required = [
            (ENFORCED, &rules.required_during_scheduling_required_during_execution),
            (IGNORED, &rules.required_during_scheduling_ignored_during_execution),
        ];
        for (list, terms) in required {
            for (raw, term) in items_mut(raw, list).iter_mut().zip(terms) {
                append_requirements(raw, term.label_selector.as_ref());
            }
        }
        let preferred = &rules.preferred_during_scheduling_ignored_during_execution;
        for (raw, term) in items_mut(raw, PREFERRED).iter_mut().zip(preferred) {
            if let Some(raw) = raw.get_mut("podAffinityTerm") {
                append_requirements(raw, term.pod_affinity_term.label_selector.as_ref());
            }
        }
    }
}

/// Copies the requests and limits of containers that admission set.
pub fn write_resources(spec: &mut Value, typed: &typed::PodSpec) {
    for (list, containers) in [("initContainers", &typed.init_containers), ("containers", &typed.containers)]
    {
        for (raw, container) in items_mut(spec, list).iter_mut().zip(containers.iter()) {
            set_quantities(&mut raw["resources"], "requests", &container.resources.requests);
            set_quantities(&mut raw["resources"], "limits", &container.resources.limits);
        }
    }
}

/// Admission only appends.
fn append<T: serde::Serialize>(map: &mut Map<String, Value>, key: &str, all: &[T]) {
    let there = map.get(key).and_then(Value::as_array).map_or(0, Vec::len);
    let added: Vec<Value> =
        all.iter().skip(there).filter_map(|item| serde_json::to_value(item).ok()).collect();
    if added.is_empty() {
        return;
    }
    match map.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.extend(added),
        None => {
            map.insert(key.to_owned(), Value::Array(added));
        }
    }
}

fn append_requirements(raw: &mut Value, selector: Option<&berth_api::object::LabelSelector>) {
    if let (Some(selector), Some(raw)) =
        (selector, raw.get_mut("labelSelector").and_then(Value::as_object_mut))
    {
        append(raw, "matchExpressions", &selector.match_expressions);
    }
}
