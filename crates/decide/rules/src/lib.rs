//! The internal form of a pod's placement rules, which the engine evaluates.
//!
//! A pod is parsed once into [`PodRules`]. Both dialects end here: later code uses the field that a rule comes from only
//! to name it in messages. Parsing never fails. Rules that the API server would reject are treated as kube-scheduler
//! treats them: an invalid node term matches no node; invalid pod terms or preferences make the pod unschedulable with
//! an error.

pub mod admission;
mod admitted_pod;
mod annotation;
mod attribute;
mod device_selector;
mod dialect;
mod dialect_notes;
mod eviction;
mod features;
mod label_keys;
mod node;
mod parse;
mod pod_rules;
mod pod_set;
pub(crate) mod pod_term;
mod relation;
mod relax;
mod resources;
mod selector;
mod selector_text;
mod spread;
mod toleration;
pub mod volume;

pub use admitted_pod::{AdmittedPod, RuleOptions};
pub use annotation::{AnnotationError, annotation_affinity, parse_affinity_annotation};
pub use attribute::{NODE_FIELDS, annotation_key, node_attribute, node_attributes};
pub use device_selector::{DeviceSelector, MAX_SELECTOR_BYTES, SelectedDevice, derived_attribute_problem};
pub use dialect::Dialect;
pub use dialect_notes::{DialectNote, dialect_notes};
pub use eviction::{
    eviction_annotation_problem, invalid_eviction_annotations, parse_eviction_grace, parse_without_target,
};
pub use features::NodeFeatures;
pub use label_keys::{merge_label_keys, unmerge_label_keys};
pub use node::{NodeRequirement, NodeSelectorRule, NodeTerm, PreferredNodeTerm};
pub use parse::normalized_image_name;
pub use pod_rules::{HostPort, PodRules, RelaxableRule};
pub use pod_set::{KnownNamespaces, PodSet};
pub use pod_term::{
    NAME_LABEL, NamespaceScope, PodTerm, PreferredPodTerm, TopologyScope, all_topologies_problem,
    needs_extensions, tolerated_namespaces,
};
pub use relation::SetRelation;
pub use relax::{parse_relax_after, relaxed_rules};
pub use resources::{
    DEFAULT_MEMORY_REQUEST, DEFAULT_MILLI_CPU_REQUEST, PodRequests, pod_limits, pod_requests,
};
pub(crate) use selector::NOT_A_VERSION;
pub use selector::{Requirement, Selector};
pub use selector_text::{FieldRequirement, FieldSelector, SelectorError};
pub use spread::{SpreadConstraint, WhenUnsatisfiable};
pub use toleration::{TaintEffect, TolerationOperator, TolerationRule, Tolerations};
