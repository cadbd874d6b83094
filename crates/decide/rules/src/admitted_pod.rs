//! A pod together with its rules, and what decides how they are read.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::Pod;

use crate::PodRules;

/// What decides how the fields of a pod are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleOptions {
    /// Whether the proposals' fields and `Gt`/`Lt` in pod terms are in force.
    pub extensions: bool,
    pub feature_gates: FeatureGates,
}

impl Default for RuleOptions {
    fn default() -> Self {
        RuleOptions { extensions: true, feature_gates: FeatureGates::default() }
    }
}

/// A pod as its creation leaves it, with its rules.
#[derive(Clone, Debug)]
pub struct AdmittedPod {
    /// Defaulted, with matchLabelKeys merged.
    pub object: Pod,
    pub rules: PodRules,
}

impl AdmittedPod {
    pub fn new(object: Pod, options: RuleOptions) -> AdmittedPod {
        AdmittedPod { rules: PodRules::parse(&object, options), object }
    }
}
