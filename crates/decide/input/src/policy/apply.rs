//! Applying policies to a new pod, in order.

use std::fmt;

use serde_json::Value;

use super::merge::{Effect, Merge};
use super::{APPLIED_ANNOTATION, PlacementPolicy};
use berth_api::object::pod_limits::affinity_entries;
use berth_api::object::{Affinity, Pod};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::work::{TooMuchWork, WorkBudget};
use berth_rules::{AnnotationError, parse_affinity_annotation};

/// What policies did to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The policies with a rule that was put into the pod, and the paths of these rules, in order.
    pub policies: Vec<(String, Vec<String>)>,
    /// Rules that were not put into the pod, or replaced rules of the pod, and what policies with `dryRun` would do.
    pub warnings: Vec<String>,
    /// The policies with a rule that was not put into the pod because of another policy: their keys, and the rule with
    /// the reason.
    pub conflicts: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PodChange {
    /// `metadata` or `spec`.
    pub section: &'static str,
    pub field: &'static str,
    pub value: Value,
}

pub(super) fn apply(
    pod: &mut Pod,
    policies: &[&PlacementPolicy],
    budget: &WorkBudget,
) -> Result<Applied, TooMuchWork> {
    let mut applied = Applied::default();
    let mut earlier: Vec<&PlacementPolicy> = Vec::new();
    for policy in policies {
        let is_dry_run = policy.spec.dry_run;
        budget.spend(1 + copied_entries(pod))?;
        let mut changed = pod.clone();
        let mut merge = Merge::new(policy, &earlier, budget);
        let result = merge_into(&mut merge, &mut changed);
        let effects = merge.effects;
        if let Err(error) = result {
            applied.warnings.push(format!("{policy}: spec.extendedAffinity: not applied: {error}"));
        }
        let is_taken = |effect: &Effect| matches!(effect, Effect::Added | Effect::Replaced);
        for (path, effect) in &effects {
            let warns = is_dry_run || *effect != Effect::Added;
            if warns {
                let text = format!("{path}: {}", EffectText { effect, is_dry_run });
                applied.warnings.push(format!("{policy}: {text}"));
                if matches!(effect, Effect::OtherWins(_)) {
                    applied.conflicts.push((policy.key(), text));
                }
            }
        }
        let taken = effects.into_iter().filter(|(_, effect)| is_taken(effect));
        let paths: Vec<_> = taken.map(|(path, _)| path).collect();
        if !paths.is_empty() && !is_dry_run {
            *pod = changed;
            note_applied(pod, &policy.key());
            applied.policies.push((policy.to_string(), paths));
        }
        if !is_dry_run {
            earlier.push(policy);
        }
        budget.spend(0)?;
    }
    Ok(applied)
}

/// What copying and reading the rules of a pod costs.
fn copied_entries(pod: &Pod) -> usize {
    let spec = &pod.spec;
    let text = pod.metadata.annotations.get(AFFINITY_ANNOTATION).map_or(0, String::len);
    spec.affinity.as_ref().map_or(0, |affinity| affinity_entries(affinity))
        + spec.tolerations.len()
        + spec.topology_spread_constraints.len()
        + text / BYTES_PER_STEP
}

/// Bytes of an annotation that are read in a step.
const BYTES_PER_STEP: usize = 16;

fn merge_into(merge: &mut Merge<'_>, pod: &mut Pod) -> Result<(), AnnotationError> {
    let spec = &mut pod.spec;
    merge.lists_of_spec(spec);
    let mut affinity = spec.affinity.clone().unwrap_or_default();
    merge.affinity("affinity", &mut affinity, Some(&mut spec.node_selector), |policy| {
        policy.spec.affinity.as_deref()
    });
    if *affinity != Affinity::default() {
        spec.affinity = Some(affinity);
    }

    if merge.policy().spec.extended_affinity.is_none() {
        return Ok(());
    }
    let before = match pod.metadata.annotations.get(AFFINITY_ANNOTATION) {
        Some(text) => parse_affinity_annotation(text)?,
        None => Affinity::default(),
    };
    let mut affinity = before.clone();
    merge
        .affinity("extendedAffinity", &mut affinity, None, |policy| policy.spec.extended_affinity.as_deref());
    if affinity != before {
        let text = serde_json::to_string(&affinity).expect("texts, numbers and lists of them are JSON");
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), text);
    }
    Ok(())
}

/// Adds the name of a policy to the annotation of the pod.
fn note_applied(pod: &mut Pod, name: &str) {
    let names = pod.metadata.annotations.entry(APPLIED_ANNOTATION.to_owned()).or_default();
    if names.split(',').any(|known| known == name) {
        return;
    }
    if !names.is_empty() {
        names.push(',');
    }
    names.push_str(name);
}

/// The text about the effect on a rule.
struct EffectText<'a> {
    effect: &'a Effect,
    is_dry_run: bool,
}

impl fmt::Display for EffectText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dry_run = if self.is_dry_run { "dry run: " } else { "" };
        match self.effect {
            Effect::Added => write!(f, "{dry_run}would be added"),
            Effect::Replaced if self.is_dry_run => write!(f, "{dry_run}would replace the pod's own rule"),
            Effect::Replaced => write!(f, "replaces the pod's own rule"),
            Effect::OwnWins => write!(f, "{dry_run}not applied: the pod has its own rule"),
            Effect::OtherWins(other) => write!(f, "{dry_run}not applied: {other} comes first"),
        }
    }
}

/// The fields in which a pod differs from what it was, as far as policies change them.
pub fn changes(before: &Pod, after: &Pod) -> Vec<PodChange> {
    let mut changes = Vec::new();
    let mut add = |section, field, is_changed: bool, value: Result<Value, serde_json::Error>| {
        if is_changed {
            changes.push(PodChange { section, field, value: value.unwrap_or_default() });
        }
    };
    let (old, new) = (&before.metadata.annotations, &after.metadata.annotations);
    add("metadata", "annotations", old != new, serde_json::to_value(new));
    let (old, new) = (&before.spec, &after.spec);
    let value = serde_json::to_value(&new.node_selector);
    add("spec", "nodeSelector", old.node_selector != new.node_selector, value);
    add("spec", "affinity", old.affinity != new.affinity, serde_json::to_value(&new.affinity));
    let value = serde_json::to_value(&new.topology_spread_constraints);
    let is_changed = old.topology_spread_constraints != new.topology_spread_constraints;
    add("spec", "topologySpreadConstraints", is_changed, value);
    let value = serde_json::to_value(&new.tolerations);
    add("spec", "tolerations", old.tolerations != new.tolerations, value);
    changes
}
