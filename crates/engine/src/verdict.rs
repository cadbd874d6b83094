//! Verdicts: why a pod may not go to a node, as data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::config::Plugin;
use serde::{Serialize, Serializer};
use smallvec::SmallVec;

/// What could lift a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Status {
    /// A change elsewhere could help: pods leaving, for instance.
    Unschedulable,
    /// Only a change of this pod or of nodes helps.
    UnschedulableAndUnresolvable,
    /// The rule itself could not be evaluated.
    Error,
}

impl Status {
    /// The name kube-scheduler gives it.
    pub fn name(self) -> &'static str {
        match self {
            Status::Unschedulable => "Unschedulable",
            Status::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Status::Error => "Error",
        }
    }
}

/// A rule's rejection of a node, in kube-scheduler's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// What could lift it.
    pub status: Status,
    /// One or more reasons.
    pub reasons: SmallVec<[Cow<'static, str>; 1]>,
}

impl Rejection {
    pub(crate) fn new(plugin: Plugin, status: Status, reason: &'static str) -> Rejection {
        Rejection { plugin, status, reasons: SmallVec::from_buf([Cow::Borrowed(reason)]) }
    }
}

/// Everything about one reason why a pod may not go to a node (or may not stay).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The rule.
    #[serde(serialize_with = "plugin_name")]
    pub plugin: Plugin,
    /// What could lift it.
    pub status: Status,
    /// kube-scheduler's words for it.
    pub reason: Cow<'static, str>,
    /// Where the rule stands, in this pod or (for rules of running pods) in theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// What the rule asks, in short.
    pub detail: String,
    /// The domain it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyPair>,
    /// The numbers behind it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<&'static str, i64>,
    /// Pods that are the reason, a few at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// How many more there are.
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

/// A node label: the domain a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopologyPair {
    /// Label key.
    pub key: String,
    /// Label value; none when the node lacks the label.
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

/// A pod named as a reason.
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
