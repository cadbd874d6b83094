//! Fallbacks: required rules that a pod does without once it has been pending for long enough.

use berth_api::object::Pod;
use berth_api::syntax::annotations::{RELAX_AFTER_ANNOTATION, RELAXED_ANNOTATION};

use super::Options;

/// Reads `30s` or `5m`: no other forms are generated.
fn seconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.len() - 1);
    Some(number.parse::<u64>().ok()? * if unit == "m" { 60 } else { 1 })
}

/// The time after which a rule is relaxed, in seconds: its own, or that of the pod.
pub fn relax_after(pod: &Pod, own: Option<&String>) -> Option<u64> {
    seconds(own.or_else(|| pod.metadata.annotations.get(RELAX_AFTER_ANNOTATION))?)
}

pub fn can_be_relaxed(pod: &Pod, own: Option<&String>, options: &Options) -> bool {
    options.extensions && relax_after(pod, own).is_some()
}

/// Whether a pod does without the rule with a path.
pub fn is_relaxed(pod: &Pod, path: &str, own: Option<&String>, options: &Options) -> bool {
    let listed = pod.metadata.annotations.get(RELAXED_ANNOTATION).map_or("", String::as_str);
    can_be_relaxed(pod, own, options) && listed.split(',').any(|relaxed| relaxed == path)
}

pub fn spread_path(i: usize) -> String {
    format!("spec.topologySpreadConstraints[{i}]")
}
