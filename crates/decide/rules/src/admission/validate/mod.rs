//! Validation of a new pod, in the API server's order.

mod affinity;
mod claims;
mod containers;
mod group;
mod node;
mod resources;
mod runtime_class;
mod scheduling;
mod selector;

pub use affinity::validate_v1_node_selector as validate_node_selector;
pub use node::validate_node;
pub use runtime_class::validate_runtime_class;

use super::field::{BadValue, Errors, FieldError, Path};
use crate::{AnnotationError, RuleOptions, annotation_affinity, parse_relax_after, tolerated_namespaces};
use berth_api::feature_gates::FeatureGates;
use berth_api::object::{LabelSelector, MIRROR_ANNOTATION, ObjectMeta, Pod, PodSpec, StringMap, Toleration};
use berth_api::syntax;
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, TOLERATION_ANNOTATION};

/// Limit of the total size of annotations, in bytes.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;

/// Validates a label selector that is no term of pod affinity: it has no `Gt` and `Lt`. Paths begin with `.matchLabels` and
/// `.matchExpressions`.
pub fn validate_label_selector(selector: &LabelSelector) -> Vec<FieldError> {
    let mut errors = Errors::default();
    selector::validate_label_selector(Some(selector), false, &Path::Root(""), &mut errors);
    errors.into_list()
}

pub fn validate_tolerations(tolerations: &[Toleration], feature_gates: FeatureGates) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let path = Path::Root("spec");
    scheduling::validate_tolerations(tolerations, feature_gates, &path.child("tolerations"), &mut errors);
    errors.into_list()
}

/// Validates a pod after defaulting and the label key merge.
///
/// Errors about the annotation with the proposals' affinity follow those of kube-apiserver.
pub fn validate_pod(pod: &Pod, options: RuleOptions) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_metadata(&pod.metadata, &mut errors);
    validate_mirror_annotation(pod, &mut errors);

    let (spec, path) = (&pod.spec, &Path::Root("spec"));
    validate_claims(spec, &path.child("volumes"), &mut errors);
    let claims_path = path.child("resourceClaims");
    claims::validate_resource_claims(&pod.metadata, &spec.resource_claims, &claims_path, &mut errors);
    containers::validate_containers(&spec.containers, &path.child("containers"), &mut errors);
    containers::validate_init_containers(spec, &path.child("initContainers"), &mut errors);
    claims::validate_container_claims(spec, path, &mut errors);
    resources::validate_pod_resources(spec, &path.child("resources"), &mut errors);
    containers::validate_host_network(spec, &path.child("containers"), &mut errors);
    validate_labels(&spec.node_selector, &path.child("nodeSelector"), &mut errors);
    if let Some(affinity) = &spec.affinity {
        affinity::validate_affinity(affinity, options.extensions, &path.child("affinity"), &mut errors);
    }
    scheduling::validate_gates(spec, &path.child("schedulingGates"), &mut errors);
    scheduling::validate_spread(spec, &path.child("topologySpreadConstraints"), &mut errors);
    let shares_network = spec.host_network && spec.host_users == Some(false);
    if shares_network && !options.feature_gates.is_on("UserNamespacesHostNetworkSupport") {
        errors.forbidden(&path.child("hostNetwork"), "when `hostUsers` is false");
    }
    if !spec.node_name.is_empty() {
        errors.invalid_each(&path.child("nodeName"), &spec.node_name, syntax::dns_subdomain(&spec.node_name));
    }
    let tolerations = path.child("tolerations");
    scheduling::validate_tolerations(&spec.tolerations, options.feature_gates, &tolerations, &mut errors);
    scheduling::validate_priority(spec, path, &mut errors);
    let class = &spec.runtime_class_name;
    if !class.is_empty() {
        errors.invalid_each(&path.child("runtimeClassName"), class, syntax::dns_subdomain(class));
    }
    resources::validate_overhead(&spec.overhead, &path.child("overhead"), &mut errors);
    containers::validate_image_whitespace(&spec.containers, &path.child("containers"), &mut errors);
    containers::validate_image_whitespace(&spec.init_containers, &path.child("initContainers"), &mut errors);
    if !spec.node_name.is_empty() && !spec.scheduling_gates.is_empty() {
        errors
            .forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }

    if options.extensions {
        validate_extensions(pod, &mut errors);
    }
    errors.into_list()
}

fn validate_claims(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    for (i, volume) in spec.volumes.iter().enumerate() {
        if volume.persistent_volume_claim.as_ref().is_some_and(|claim| claim.claim_name.is_empty()) {
            errors.required(&path.index(i).child("persistentVolumeClaim").child("claimName"), "");
        }
    }
}

fn validate_metadata(metadata: &ObjectMeta, errors: &mut Errors) {
    let path = &Path::Root("metadata");
    let prefix = &metadata.generate_name;
    if !prefix.is_empty() {
        // The prefix itself may end with a character that a name must not end with.
        let stem = prefix.strip_suffix('-').map_or_else(|| prefix.clone(), |stem| format!("{stem}a"));
        errors.invalid_each(&path.child("generateName"), prefix, syntax::dns_subdomain(&stem));
    }
    if !metadata.name.is_empty() {
        errors.invalid_each(&path.child("name"), &metadata.name, syntax::dns_subdomain(&metadata.name));
    } else if prefix.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    }
    if metadata.namespace.is_empty() {
        errors.required(&path.child("namespace"), "");
    } else {
        errors.invalid_each(
            &path.child("namespace"),
            &metadata.namespace,
            syntax::dns_label(&metadata.namespace),
        );
    }
    validate_labels(&metadata.labels, &path.child("labels"), errors);
    let annotations_path = path.child("annotations");
    for key in metadata.annotations.keys() {
        // Annotation keys are label keys, but case does not matter.
        errors.invalid_each(&annotations_path, key, syntax::label_key(&key.to_lowercase()));
    }
    if metadata.annotations.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        > MAX_ANNOTATION_BYTES
    {
        errors.too_long(&annotations_path, MAX_ANNOTATION_BYTES);
    }
}

fn validate_mirror_annotation(pod: &Pod, errors: &mut Errors) {
    if let Some(value) = pod.metadata.annotations.get(MIRROR_ANNOTATION)
        && pod.spec.node_name.is_empty()
    {
        let annotations = Path::Root("metadata.annotations");
        errors.invalid(
            &annotations.key(MIRROR_ANNOTATION),
            value,
            "must set spec.nodeName if mirror pod annotation is set",
        );
    }
}

/// Validates only the annotations `scheduling.berth.dev/*` of a pod. Paths begin with
/// `metadata.annotations[scheduling.berth.dev/affinity]` or that of another annotation.
pub fn validate_annotations(pod: &Pod) -> Vec<FieldError> {
    let mut errors = Errors::default();
    validate_extensions(pod, &mut errors);
    errors.into_list()
}

/// The errors of [`validate_annotations`] that an update of `old` is responsible for: annotations that were invalid before and
/// are unchanged have none.
pub fn validate_changed_annotations(pod: &Pod, old: &Pod) -> Vec<FieldError> {
    let mut errors = validate_annotations(pod);
    if !errors.is_empty() {
        let known = validate_annotations(old);
        let is_unchanged = |error: &FieldError| {
            let key = error.field.strip_prefix("metadata.annotations[").and_then(|rest| rest.split_once(']'));
            key.is_some_and(|(key, _)| pod.metadata.annotation(key) == old.metadata.annotation(key))
        };
        errors.retain(|error| !(is_unchanged(error) && known.contains(error)));
    }
    errors
}

fn validate_extensions(pod: &Pod, errors: &mut Errors) {
    validate_affinity_annotation(pod, errors);
    validate_toleration_annotation(pod, errors);
    group::validate_group_annotations(pod, errors);
}

fn validate_affinity_annotation(pod: &Pod, errors: &mut Errors) {
    let annotations = Path::Root("metadata.annotations");
    if let Some(text) = pod.metadata.annotation(RELAX_AFTER_ANNOTATION)
        && let Err(detail) = parse_relax_after(text)
    {
        errors.invalid(&annotations.key(RELAX_AFTER_ANNOTATION), text, detail);
    }
    let path = annotations.key(AFFINITY_ANNOTATION);
    match annotation_affinity(pod) {
        Ok(None) => {}
        Ok(Some(affinity)) => affinity::validate_proposal(&affinity, &path, errors),
        Err(AnnotationError::Field { path: inner, message }) if !inner.is_empty() => {
            errors.invalid(&path.child(&inner), BadValue::Omitted, message);
        }
        Err(error) => errors.invalid(&path, BadValue::Omitted, error.to_string()),
    }
}

fn validate_toleration_annotation(pod: &Pod, errors: &mut Errors) {
    let annotations = Path::Root("metadata.annotations");
    let path = annotations.key(TOLERATION_ANNOTATION);
    for namespace in tolerated_namespaces(pod).filter(|namespace| *namespace != "*") {
        if !syntax::dns_label(namespace).is_empty() {
            let why = "must be \"*\" or names of namespaces, separated by commas";
            errors.invalid(&path, BadValue::Text(namespace), why);
        }
    }
}

/// Labels of an object, or labels of a selector.
fn validate_labels(labels: &StringMap, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels {
        errors.invalid_each(path, key, syntax::label_key(key));
        errors.invalid_each(path, value, syntax::label_value(value));
    }
}
