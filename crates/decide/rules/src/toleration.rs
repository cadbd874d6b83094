//! Taints and tolerations.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{Taint, Toleration};
use berth_api::syntax::decimal_integer;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TolerationRule {
    /// Taint key; empty means every key.
    pub key: String,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The effect tolerated; `None` means every effect.
    pub effect: Option<TaintEffect>,
}

/// The tolerations of a pod, sorted by key: only those of a taint's key, and those of every key, are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tolerations(Vec<TolerationRule>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    Equal(String),
    Exists,
    /// The value of the taint is an integer greater than this one.
    Gt(i64),
    /// The value of the taint is an integer less than this one.
    Lt(i64),
    /// An unknown operator, or a comparison with what is no integer: tolerates nothing.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaintEffect {
    /// Pods are not scheduled to the node.
    NoSchedule,
    /// Pods are scheduled to other nodes if possible.
    PreferNoSchedule,
    /// Pods are not scheduled to the node, and running pods are evicted.
    NoExecute,
    /// Another effect, without meaning.
    Other(String),
}

impl TaintEffect {
    pub fn parse(text: &str) -> TaintEffect {
        match text {
            "NoSchedule" => TaintEffect::NoSchedule,
            "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            other => TaintEffect::Other(other.to_owned()),
        }
    }

    /// Whether a taint of this effect prevents scheduling.
    pub fn forbids_scheduling(&self) -> bool {
        matches!(self, TaintEffect::NoSchedule | TaintEffect::NoExecute)
    }
}

impl Tolerations {
    pub fn parse(tolerations: &[Toleration], gates: FeatureGates) -> Tolerations {
        let mut rules: Vec<_> = tolerations.iter().map(|t| TolerationRule::parse(t, gates)).collect();
        rules.sort_by(|a, b| a.key.cmp(&b.key));
        Tolerations(rules)
    }

    pub fn of_effects(&self, is_of: impl Fn(Option<&TaintEffect>) -> bool) -> Tolerations {
        Tolerations(self.0.iter().filter(|rule| is_of(rule.effect.as_ref())).cloned().collect())
    }

    pub fn tolerate(&self, taint: &Taint) -> bool {
        self.tolerate_parts(&taint.key, &taint.value, &TaintEffect::parse(&taint.effect))
    }

    pub fn tolerate_parts(&self, key: &str, value: &str, effect: &TaintEffect) -> bool {
        let of_every_key = self.0.iter().take_while(|rule| rule.key.is_empty());
        let first = self.0.partition_point(|rule| *rule.key < *key);
        let of_key = self.0[first..].iter().take_while(|rule| rule.key == key);
        of_every_key.chain(of_key).any(|rule| rule.tolerates_parts(key, value, effect))
    }
}

impl TolerationRule {
    /// A comparison tolerates nothing without the gate `TaintTolerationComparisonOperators`.
    pub fn parse(toleration: &Toleration, gates: FeatureGates) -> TolerationRule {
        TolerationRule {
            key: toleration.key.clone(),
            operator: match toleration.operator.as_str() {
                "" | "Equal" => TolerationOperator::Equal(toleration.value.clone()),
                "Exists" => TolerationOperator::Exists,
                _ if !gates.taint_toleration_comparison_operators => TolerationOperator::Unknown,
                "Gt" => decimal_integer(&toleration.value)
                    .map_or(TolerationOperator::Unknown, TolerationOperator::Gt),
                "Lt" => decimal_integer(&toleration.value)
                    .map_or(TolerationOperator::Unknown, TolerationOperator::Lt),
                _ => TolerationOperator::Unknown,
            },
            effect: (!toleration.effect.is_empty()).then(|| TaintEffect::parse(&toleration.effect)),
        }
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = TaintEffect::parse(&taint.effect);
        self.tolerates_parts(&taint.key, &taint.value, &effect)
    }

    pub fn tolerates_parts(&self, key: &str, value: &str, effect: &TaintEffect) -> bool {
        self.effect.as_ref().is_none_or(|e| e == effect)
            && (self.key.is_empty() || self.key == key)
            && match &self.operator {
                TolerationOperator::Equal(expected) => expected == value,
                TolerationOperator::Exists => true,
                TolerationOperator::Gt(bound) => decimal_integer(value).is_ok_and(|value| value > *bound),
                TolerationOperator::Lt(bound) => decimal_integer(value).is_ok_and(|value| value < *bound),
                TolerationOperator::Unknown => false,
            }
    }
}
