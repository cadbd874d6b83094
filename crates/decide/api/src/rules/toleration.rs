//! Taints and tolerations.

use crate::object::{Taint, Toleration};

/// A parsed toleration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TolerationRule {
    /// Taint key; empty means every key.
    pub key: String,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The effect tolerated; `None` means every effect.
    pub effect: Option<TaintEffect>,
}

/// `operator` of a toleration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// The taint has this value.
    Equal(String),
    /// The taint exists.
    Exists,
    /// An unknown operator: tolerates nothing.
    Unknown,
}

/// `effect` of a taint.
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
    /// Parses the text form.
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

impl TolerationRule {
    /// Parses a toleration.
    pub fn parse(toleration: &Toleration) -> TolerationRule {
        TolerationRule {
            key: toleration.key.clone(),
            operator: match toleration.operator.as_str() {
                "" | "Equal" => TolerationOperator::Equal(toleration.value.clone()),
                "Exists" => TolerationOperator::Exists,
                _ => TolerationOperator::Unknown,
            },
            effect: (!toleration.effect.is_empty()).then(|| TaintEffect::parse(&toleration.effect)),
        }
    }

    /// Whether the taint is tolerated.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let effect = TaintEffect::parse(&taint.effect);
        self.tolerates_parts(&taint.key, &taint.value, &effect)
    }

    /// [`Self::tolerates`] on a taint's parts.
    pub fn tolerates_parts(&self, key: &str, value: &str, effect: &TaintEffect) -> bool {
        self.effect.as_ref().is_none_or(|e| e == effect)
            && (self.key.is_empty() || self.key == key)
            && match &self.operator {
                TolerationOperator::Equal(expected) => expected == value,
                TolerationOperator::Exists => true,
                TolerationOperator::Unknown => false,
            }
    }
}
