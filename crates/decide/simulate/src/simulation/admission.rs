//! How pods are admitted: with the classes of the input, the settings of the cluster, and the defaults of their namespace.

use std::collections::HashMap;

use berth_api::object::{Pod, PriorityClass, RuntimeClass};
use berth_control::expand::ExpandedPod;
use berth_input::inventory::{Entry, Inventory, Workload};
use berth_input::policy::PolicySet;
use berth_rules::admission::{
    AdmissionOptions, AdmissionResult, ErrorType, FieldError, admit, known_runtime_classes,
};

use super::creation;
use super::state::Simulation;

/// The classes that admission reads.
pub(super) struct Classes {
    pub(super) priority: Vec<PriorityClass>,
    runtime: Vec<RuntimeClass>,
}

impl Classes {
    pub(super) fn of(inventory: &Inventory) -> Classes {
        Classes {
            priority: inventory.priority_classes.iter().map(|entry| entry.object.clone()).collect(),
            runtime: inventory.runtime_classes.iter().map(|entry| entry.object.clone()).collect(),
        }
    }
}

/// Whether the PriorityClass of a pod is built in, or one of these.
pub(super) fn is_known(pod: &Pod, classes: &[PriorityClass]) -> bool {
    let class = &pod.spec.priority_class_name;
    class.is_empty() || class.starts_with("system-") || classes.iter().any(|c| c.metadata.name == *class)
}

pub(super) fn is_missing_image(error: &FieldError) -> bool {
    error.error_type == ErrorType::Required && error.field.ends_with("].image")
}

impl Simulation {
    /// Admits the pods of templates, for those that are created again. One that is refused is of no use.
    pub(super) fn add_templates(
        &mut self,
        templates: Vec<ExpandedPod>,
        workloads: &[Entry<Workload>],
        classes: &Classes,
        policies: &PolicySet,
    ) {
        let mut admitted = HashMap::new();
        for ExpandedPod { mut pod, workload, .. } in templates {
            if self.admits_template(&mut pod, classes, policies) {
                admitted.insert(creation::key_of(&workloads[workload].object), pod);
            }
        }
        self.creation.set_templates(admitted);
    }

    /// Admits a pod of a template, which may have no name so far. Returns whether nothing refuses it.
    pub(super) fn admits_template(&self, pod: &mut Pod, classes: &Classes, policies: &PolicySet) -> bool {
        self.creation.set_defaults(pod);
        let applied = policies.apply(pod).is_ok();
        let options = self.admission_options(pod, classes);
        let AdmissionResult { denied, mut errors, .. } = admit(pod, &options);
        errors.retain(|error| !is_missing_image(error) && !error.field.starts_with("metadata.name"));
        applied && denied.is_none() && errors.is_empty()
    }

    /// The placement policies that are in force.
    pub(super) fn policies_of(&self, inventory: &Inventory) -> PolicySet {
        let policies = self.policies.iter().filter(|_| self.cluster.settings().extensions).cloned();
        let labels = inventory.namespaces.iter().map(|e| &e.object.metadata);
        PolicySet::new(policies, labels.map(|m| (m.name.clone(), m.labels.clone())).collect())
    }

    pub(super) fn admission_options<'c>(&self, pod: &Pod, classes: &'c Classes) -> AdmissionOptions<'c> {
        let Classes { priority, runtime } = classes;
        AdmissionOptions {
            rules: self.cluster.settings().rule_options(),
            priority_classes: (is_known(pod, priority) && !priority.is_empty()).then_some(priority),
            runtime_classes: known_runtime_classes(pod, runtime),
            ..AdmissionOptions::default()
        }
    }
}
