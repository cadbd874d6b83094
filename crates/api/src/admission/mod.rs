//! What the API server does to a pod on creation, for everything that bears on placement.
//!
//! [`admit`] runs the steps in the API server's order: defaulting, the admission plugins `Priority` and
//! `DefaultTolerationSeconds`, the merge of label keys into selectors, validation, warnings. The rules are those
//! of kube-apiserver 1.36 with its default feature gates; fields that no placement rule looks at are not
//! checked. With extensions on, the fields that only the affinity proposals have are checked under the
//! proposals' meaning; with extensions off they are dropped, each with a warning.
//!
//! The API server visits maps (labels, resources) in random order; here their keys are in order.

mod annotation;
mod defaults;
mod field;
mod merge;
mod priority;
pub mod syntax;
mod validate;
mod warnings;

pub use annotation::{AFFINITY_ANNOTATION, AnnotationError, annotation_affinity, parse_affinity_annotation};
pub use defaults::default_pod;
pub use field::{ErrorType, FieldError};
pub use merge::merge_label_keys;
pub use validate::{ValidationOptions, validate_affinity_annotation, validate_pod};
pub use warnings::{creation_warnings, extension_warnings};

use crate::object::{Pod, PriorityClass};

/// What admission depends on besides the pod.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionOptions<'a> {
    /// Whether the proposals' fields and `Gt`/`Lt` in pod terms mean something.
    pub extensions: bool,
    /// The cluster's priority classes; the two built-in ones need not be among them. `None` when they are
    /// not known: then the priority written in the pod holds, and no class is an error.
    pub priority_classes: Option<&'a [PriorityClass]>,
    /// Whether the plugin `DefaultTolerationSeconds` is on.
    pub default_tolerations: bool,
}

impl Default for AdmissionOptions<'_> {
    fn default() -> Self {
        AdmissionOptions { extensions: true, priority_classes: None, default_tolerations: true }
    }
}

/// The answer to a pod's creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Why an admission plugin forbids the pod; nothing further was looked at then.
    pub denied: Option<String>,
    /// Validation errors.
    pub errors: Vec<FieldError>,
    /// Warnings; they do not depend on whether the pod is valid.
    pub warnings: Vec<String>,
}

impl Admission {
    /// Whether the pod is created.
    pub fn is_accepted(&self) -> bool {
        self.denied.is_none() && self.errors.is_empty()
    }
}

/// Does to a pod what its creation does, and says whether it would be created.
pub fn admit(pod: &mut Pod, options: &AdmissionOptions<'_>) -> Admission {
    default_pod(pod);
    match options.priority_classes {
        Some(classes) => {
            if let Err(reason) = priority::resolve(pod, classes) {
                let denied = Some(format!("pods {:?} is forbidden: {reason}", pod.metadata.name));
                return Admission { denied, ..Admission::default() };
            }
        }
        None => priority::resolve_built_in(pod),
    }
    if options.default_tolerations {
        defaults::add_default_tolerations(pod);
    }
    let dropped = if options.extensions { vec![] } else { warnings::drop_extensions(pod) };
    merge_label_keys(pod);
    let errors = validate_pod(pod, &ValidationOptions { extensions: options.extensions });
    let mut warnings = creation_warnings(pod);
    if options.extensions {
        warnings.extend(warnings::extension_warnings(pod));
    }
    warnings.extend(dropped);
    Admission { denied: None, errors, warnings }
}
