//! The rules, one file each.
//!
//! A pod rule receives the pod with its parsed rules ([`PodAttributes`]) and reports its findings. Rules only
//! decide; they have no side effects.

mod all_namespaces;
mod annotation;
mod attributes;
mod binding;
mod blast_radius;
mod dialects;
mod exclusive_nodes;
mod match_label_keys;
mod node_restriction;
mod placement_policy;
mod pod;
mod required_labels;
mod rule_limits;
mod toleration;
mod topology_limit;
mod trusted_users;
mod unread_annotation;
mod workload;

pub(crate) use annotation::has_valid_annotations;
pub(crate) use attributes::PodAttributes;
pub(crate) use binding::keeps_required_rules;
pub(crate) use blast_radius::stays_within_blast_radius;
pub(crate) use exclusive_nodes::stays_within_exclusive_nodes;
pub(crate) use match_label_keys::merge_match_label_keys;
pub(crate) use node_restriction::{keeps_annotations, keeps_to_own_node};
pub(crate) use placement_policy::{apply_placement_policies, is_valid_policy};
pub(crate) use pod::{changes_affinity, check_pod, has_annotation};
pub(crate) use required_labels::carries_required_labels;
pub(crate) use rule_limits::{has_few_entries, has_few_taints};
pub(crate) use toleration::tolerate_as_daemon;
pub(crate) use workload::check_template;
