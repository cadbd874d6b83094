//! Verdicts: why a node rejects a pod, as data.

pub(crate) mod witness;

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

use berth_api::syntax::quantity::with_unit;
use berth_input::config::Plugin;
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

/// Kinds of required rules of running pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ViolatedRule {
    /// Node selector, required node affinity, or affinity that the scheduler's profile adds.
    NodeAffinity,
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity of the pod itself.
    PodAntiAffinity,
    /// A taint of effect `NoExecute` that the pod does not tolerate. In the audit only.
    TaintToleration,
    /// A host port that another pod on the node uses. In the audit only.
    NodePorts,
    /// The pods of the node request more than it offers. In the audit only.
    NodeResourcesFit,
    /// A `DoNotSchedule` spread constraint that would not let the pod in where it is. In the audit only.
    PodTopologySpread,
    /// A bound volume that does not exist, or whose node affinity the node does not match. In the audit only.
    VolumeBinding,
    /// A bound volume in another zone than the node. In the audit only.
    VolumeZone,
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
    /// The numbers behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Pods that cause the rejection, a few at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// Number of further pods.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_witnesses: usize,
    /// Whether another verdict says the same: a term of existing pods that is also a term of the pod, which rejects the node as
    /// well. Explanations leave it out.
    #[serde(skip)]
    pub repeats_own_term: bool,
    /// Whether there is such a verdict about this term.
    #[serde(skip)]
    pub is_mutual: bool,
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
            counts: None,
            witnesses: Vec::new(),
            more_witnesses: 0,
            repeats_own_term: false,
            is_mutual: false,
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

    pub(crate) fn counts(mut self, counts: Counts) -> Verdict {
        self.counts = Some(counts);
        self
    }

    pub(crate) fn witnesses(mut self, (witnesses, more): (Vec<Witness>, usize)) -> Verdict {
        self.witnesses = witnesses;
        self.more_witnesses = more;
        self
    }
}

/// The numbers behind a verdict.
///
/// ```
/// use berth_engine::{Counts, TopologyPair};
///
/// let counts = Counts::Affinity { matching: 0, elsewhere: 2 };
/// let zone = TopologyPair { key: "zone".to_owned(), value: Some("a".to_owned()) };
/// assert_eq!(counts.text(Some(&zone)), "0 matching pods in a, 2 elsewhere");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum Counts {
    /// Amounts of a resource: milli-CPU for `cpu`, bytes for memory and storage, units for other resources and `pods`.
    Resource {
        /// Name of the resource.
        resource: String,
        /// Request of the pod.
        requested: i64,
        /// Requests of the pods on the node.
        used: i64,
        /// Capacity of the node for pods.
        allocatable: i64,
    },
    /// Volumes that a CSI driver attaches.
    Volumes {
        /// Name of the driver.
        driver: String,
        /// Volumes attached to the node.
        attached: i64,
        /// Volumes of the pod that are not.
        new: i64,
        /// How many the driver can attach.
        limit: i64,
    },
    /// Required affinity.
    Affinity {
        /// Matching pods in the domain.
        matching: i64,
        /// Matching pods in all other domains.
        elsewhere: i64,
    },
    /// Required anti-affinity of the pod.
    AntiAffinity {
        /// Matching pods in the domain.
        matching: i64,
        /// The limit of the term: how many of them may be there.
        #[serde(skip_serializing_if = "is_zero")]
        limit: u32,
    },
    /// Required anti-affinity of existing pods.
    ExistingAntiAffinity {
        /// Existing pods in the domain that have the term.
        owners: i64,
    },
    /// Required anti-affinity of existing pods, with a limit.
    ExistingLimit {
        /// Existing pods in the domain that have the term.
        owners: i64,
        /// Matching pods in the domain.
        matching: i64,
        /// How many pods that match may be there besides each owner.
        limit: u32,
    },
    /// Devices for a request of a claim.
    Devices {
        /// How many devices it needs.
        requested: usize,
        /// How many of the node could be allocated for it, if it were alone.
        available: usize,
        /// Why the others cannot, the most devices first.
        excluded_devices: Vec<ExcludedDevices>,
    },
    /// Topology spread constraint.
    Spread {
        /// Matching pods in the domain.
        matching: i64,
        /// 1 if the pod matches its own constraint, else 0.
        #[serde(rename = "self")]
        self_match: i64,
        /// Matching pods in the domain with the fewest.
        minimum: i64,
        /// Matching pods above the minimum with the pod in the domain.
        skew: i64,
        /// The limit of the constraint.
        max_skew: i64,
    },
}

impl Counts {
    /// The numbers in words; `topology` is the domain that they concern.
    pub fn text(&self, topology: Option<&TopologyPair>) -> String {
        let domain = topology.and_then(|pair| pair.value.as_ref());
        let domain = domain.map(|value| format!(" in {value}")).unwrap_or_default();
        let pods = |n: i64| if n == 1 { "pod" } else { "pods" };
        let matching = |n: i64| format!("{n} matching {}{domain}", pods(n));
        match self {
            Counts::Resource { resource, used, allocatable, .. } => {
                let amount = |n| with_unit(resource, n);
                format!("{} used, {} allocatable", amount(*used), amount(*allocatable))
            }
            Counts::Volumes { driver, attached, new, limit } => {
                format!("{driver}: {attached} attached, {new} new, {limit} allowed")
            }
            Counts::Affinity { matching: n, elsewhere } => format!("{}, {elsewhere} elsewhere", matching(*n)),
            Counts::AntiAffinity { matching: n, limit: 0 } => matching(*n),
            Counts::AntiAffinity { matching: n, limit } => format!("{}, {limit} allowed", matching(*n)),
            Counts::ExistingAntiAffinity { owners } => {
                format!("{owners} {} with this rule{domain}", pods(*owners))
            }
            Counts::ExistingLimit { owners, matching: n, .. } => {
                format!("{}, {owners} {} with this rule", matching(*n), pods(*owners))
            }
            Counts::Devices { requested, available, excluded_devices } => {
                let reason = |excluded: &ExcludedDevices| match excluded.n_devices {
                    0 => excluded.reason.clone(),
                    n => format!("{n} {}", excluded.reason),
                };
                let reasons: Vec<_> = excluded_devices.iter().take(MAX_DEVICE_REASONS).map(reason).collect();
                let numbers = format!("{available} available, {requested} requested");
                let numbers = (*requested > 0).then_some(numbers);
                numbers.into_iter().chain(reasons).collect::<Vec<_>>().join("; ")
            }
            Counts::Spread { matching: n, minimum, skew, max_skew, .. } => {
                format!("{}, minimum {minimum}, skew {skew} with this pod, maxSkew {max_skew}", matching(*n))
            }
        }
    }
}

/// Reasons of devices that a text names.
const MAX_DEVICE_REASONS: usize = 5;

/// Devices that cannot be allocated for a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcludedDevices {
    /// How many; 0 if the reason is not one of single devices.
    pub n_devices: usize,
    /// The first reason that applies.
    pub reason: String,
    /// The taints that the request does not tolerate, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<String>,
}

/// A node label that identifies a topology domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopologyPair {
    /// Label key.
    pub key: String,
    /// Label value; none if the node lacks the label.
    pub value: Option<String>,
}

impl Display for TopologyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// The longest text about one term, in bytes.
const MAX_DETAIL: usize = 2048;

/// A text about a term, cut to [`MAX_DETAIL`] bytes. What is beyond is not written: it costs nothing, however large the term is.
pub(crate) fn bounded(text: impl Display) -> String {
    struct Bounded(String);

    impl fmt::Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MAX_DETAIL - self.0.len();
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut bounded = Bounded(String::new());
    if write!(bounded, "{text}").is_err() {
        bounded.0.push_str("...");
    }
    bounded.0
}

/// Items with a text between them.
pub(crate) fn joined<T: Display>(
    items: impl IntoIterator<Item = T> + Clone,
    separator: &str,
) -> impl Display {
    fmt::from_fn(move |f| {
        for (i, item) in items.clone().into_iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { separator } else { "" })?;
        }
        Ok(())
    })
}

pub(crate) fn plugin_name<S: Serializer>(plugin: &Plugin, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(plugin.name())
}

pub(crate) fn is_zero<T: Default + PartialEq>(n: &T) -> bool {
    *n == T::default()
}
