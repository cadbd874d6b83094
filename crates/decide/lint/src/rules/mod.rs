//! The rules: one file each, with `check(input, findings)`.

pub(crate) mod affinity_conflicts;
pub(crate) mod affinity_cycle;
pub(crate) mod annotation_ignored;
pub(crate) mod contradictory_terms;
pub(crate) mod cross_namespace;
pub(crate) mod deprecated_api;
pub(crate) mod deprecated_key;
pub(crate) mod dialects_differ;
pub(crate) mod empty_selector;
pub(crate) mod first_rollout_trap;
pub(crate) mod label_not_an_integer;
pub(crate) mod match_label_key_absent;
pub(crate) mod never_first;
pub(crate) mod null_selector;
pub(crate) mod policy_refuses;
pub(crate) mod preference_without_effect;
pub(crate) mod replicas_exceed_domains;
pub(crate) mod request_exceeds;
pub(crate) mod rollout_deadlock;
pub(crate) mod selector_matches_nothing;
pub(crate) mod spread_selector;
pub(crate) mod toleration_without_taint;
pub(crate) mod unknown_field;
pub(crate) mod unknown_topology_key;
pub(crate) mod volume_outside_affinity;
