//! Verdicts: why a node rejects a pod, as data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::config::Plugin;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// Which changes could lift a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Status {
    /// A change elsewhere could help, for example the deletion of another pod.
    Unschedulable,
    /// Only a change of this pod or of a node helps.
    UnschedulableAndUnresolvable,
    /// The rule could not be evaluated.
    Error,
}

impl Status {
    /// The name in kube-scheduler.
    pub fn name(self) -> &'static str {
        match self {
            Status::Unschedulable => "Unschedulable",
            Status::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Status::Error => "Error",
        }
    }
}

/// The rejection of a node by a rule, in kube-scheduler's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// Which changes could lift it.
    pub status: Status,
    /// One or more reasons.
    pub reasons: SmallVec<[Cow<'static, str>; 1]>,
}

impl Rejection {
    pub(crate) fn new(plugin: Plugin, status: Status, reason: &'static str) -> Rejection {
        Rejection { plugin, status, reasons: SmallVec::from_buf([Cow::Borrowed(reason)]) }
    }
}

/// One reason why a node rejects a pod, or why a rule of a running pod does not hold, in detail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// Which changes could lift it.
    pub status: Status,
    /// The reason in kube-scheduler's words.
    pub reason: Cow<'static, str>,
    /// Path of the rule in this pod, or in the existing pod that the rule belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// What the rule requires, in short.
    pub detail: String,
    /// The topology domain concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyPair>,
    /// The numbers behind it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, i64>,
    /// Pods that cause the rejection, a few at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// Number of further pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_witnesses: usize,
}

impl Verdict {
    pub(crate) fn new(plugin: Plugin, status: Status, reason: &'static str, detail: String) -> Verdict {
        Verdict {
            plugin,
            status,
            reason: Cow::Borrowed(reason),
            term: None,
            detail,
            topology: None,
            counts: BTreeMap::new(),
            witnesses: Vec::new(),
            more_witnesses: 0,
        }
    }

    pub(crate) fn term(mut self, path: impl Into<String>) -> Verdict {
        self.term = Some(path.into());
        self
    }

    pub(crate) fn topology(mut self, pair: Option<TopologyPair>) -> Verdict {
        self.topology = pair;
        self
    }

    pub(crate) fn count(mut self, name: &'static str, value: i64) -> Verdict {
        self.counts.insert(name, value);
        self
    }

    pub(crate) fn witnesses(mut self, (witnesses, more): (Vec<Witness>, usize)) -> Verdict {
        self.witnesses = witnesses;
        self.more_witnesses = more;
        self
    }
}

/// A node label that identifies a topology domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopologyPair {
    /// Label key.
    pub key: String,
    /// Label value; none if the node lacks the label.
    pub value: Option<String>,
}

impl std::fmt::Display for TopologyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.key),
            None => write!(f, "no label {}", self.key),
        }
    }
}

/// A pod that causes a rejection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Witness {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
}

pub(crate) fn plugin_name<S: Serializer>(plugin: &Plugin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(plugin.name())
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}
