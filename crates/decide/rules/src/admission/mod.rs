//! Creation of a pod as the API server does it, for all fields that placement reads.
//!
//! [`admit`] runs the steps in the API server's order: defaulting, the admission plugins `Priority`,
//! `DefaultTolerationSeconds` and `RuntimeClass`, the merge of label keys into selectors, validation, warnings. The rules are those
//! of kube-apiserver 1.36 with its default feature gates; fields that no placement rule reads are not checked. With
//! extensions, the fields that only the design proposals have are checked with the proposals' meaning; without, they are
//! removed, each with a warning.
//!
//! The API server visits maps (labels, resources) in random order; here the order is by key.

mod defaults;
mod field;
pub mod node_restriction;
mod operation;
mod priority;
mod runtime_class;
mod validate;
mod warnings;

pub use defaults::{add_default_tolerations_to, complete_pod_resources, default_pod};
pub use field::{ErrorType, FieldError, shortened};
pub use operation::Operation;
pub use priority::Priority;
pub use runtime_class::{known_runtime_classes, unknown_runtime_class};
pub use validate::{
    validate_annotations, validate_changed_annotations, validate_label_selector, validate_node,
    validate_node_selector, validate_pod, validate_runtime_class, validate_tolerations,
};
pub use warnings::{creation_warnings, deprecated_node_label, extension_warnings};

use crate::{RuleOptions, merge_label_keys};
use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::{Pod, PriorityClass, RuntimeClass};

#[derive(Clone, Copy, Debug)]
pub struct AdmissionOptions<'a> {
    pub rules: RuleOptions,
    /// The priority classes of the cluster, without the two built-in ones. With `None` they are unknown: the priority in
    /// the pod is used, and no class name is an error.
    pub priority_classes: Option<&'a [PriorityClass]>,
    /// The runtime classes of the cluster, or at least that of the pod. With `None` they are unknown: the pod is used as it is.
    pub runtime_classes: Option<&'a [RuntimeClass]>,
    /// Whether the plugin `DefaultTolerationSeconds` is enabled.
    pub default_tolerations: bool,
}

impl Default for AdmissionOptions<'_> {
    fn default() -> Self {
        AdmissionOptions {
            rules: RuleOptions::default(),
            priority_classes: None,
            runtime_classes: None,
            default_tolerations: true,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionResult {
    /// The reason why an admission plugin forbids the pod; later steps did not run.
    pub denied: Option<String>,
    pub errors: Vec<FieldError>,
    /// Warnings; they do not depend on whether the pod is valid.
    pub warnings: Vec<String>,
}

impl AdmissionResult {
    /// Whether the API server creates the pod.
    pub fn is_accepted(&self) -> bool {
        self.denied.is_none() && self.errors.is_empty()
    }
}

/// Changes a pod as its creation does, and returns whether the API server would create it.
pub fn admit(pod: &mut Pod, options: &AdmissionOptions<'_>) -> AdmissionResult {
    default_pod(pod);
    let RuleOptions { extensions, feature_gates } = options.rules;
    if feature_gates.version >= KubernetesVersion::V1_37 {
        complete_pod_resources(&mut pod.spec);
    }
    if let Err(reason) = run_plugins(pod, options) {
        let denied = Some(format!("pods {:?} is forbidden: {reason}", pod.metadata.name));
        return AdmissionResult { denied, ..AdmissionResult::default() };
    }
    let dropped = if extensions { vec![] } else { warnings::drop_extensions(pod) };
    merge_label_keys(pod);
    let errors = validate_pod(pod, options.rules);
    let mut warnings = creation_warnings(pod);
    if extensions {
        warnings.extend(warnings::extension_warnings(pod));
    }
    warnings.extend(dropped);
    AdmissionResult { denied: None, errors, warnings }
}

/// The admission plugins that change pods, in the API server's order.
fn run_plugins(pod: &mut Pod, options: &AdmissionOptions<'_>) -> Result<(), String> {
    match options.priority_classes {
        Some(classes) => priority::resolve(pod, classes)?,
        None => priority::resolve_built_in(pod),
    }
    if options.default_tolerations {
        defaults::add_default_tolerations(pod);
    }
    options.runtime_classes.map_or(Ok(()), |classes| runtime_class::merge(pod, classes))
}
