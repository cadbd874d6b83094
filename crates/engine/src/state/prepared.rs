//! Pods parsed and compiled for one cluster.

use berth_api::object::Pod;

use super::State;
use super::intern::{Labels, Symbol};
use super::pod::Precedence;
use super::rule_set::RuleSetId;
use super::uid::Uid;

/// A pod, parsed and compiled for one cluster.
#[derive(Clone, Debug)]
pub struct PreparedPod {
    pub(crate) namespace: Symbol,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) labels: Labels,
    pub(crate) terminating: bool,
    pub(crate) precedence: Precedence,
    /// Whether lower-priority pods may be removed for it (`spec.preemptionPolicy`).
    pub(crate) preempts: bool,
    pub(crate) rule_set: RuleSetId,
    /// The node it names itself, if any.
    pub(crate) node_name: Option<Symbol>,
    /// Scheduling gates that hold it back.
    pub(crate) gates: Vec<String>,
    /// Its scheduler name, if no profile has it.
    pub(crate) unknown_scheduler: Option<Box<str>>,
}

impl PreparedPod {
    /// The same pod under another name: of many pods that differ in nothing else, one needs to be prepared.
    pub fn named(&self, name: &str) -> PreparedPod {
        PreparedPod { name: name.into(), uid: Uid::default(), ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `spec.priority`; 0 when it has none.
    pub fn priority(&self) -> i32 {
        self.precedence.priority
    }
}

impl State {
    /// Prepares a pod: its rules are parsed and compiled, and those seen for the first time are registered.
    ///
    /// What comes back can be decided and placed any number of times, whatever happens to the cluster
    /// meanwhile.
    pub(crate) fn prepare(&mut self, pod: &Pod) -> PreparedPod {
        let rule_set = self.rule_set_of(pod);
        let namespace = self.symbols.intern(&pod.metadata.namespace);
        let labels = Labels::intern(&mut self.symbols, &pod.metadata.labels);
        let profile = self.rule_sets.get(rule_set).key.profile.map(|i| &self.profiles[i].profile);
        let gates = pod.spec.scheduling_gates.iter().map(|g| g.name.clone());
        PreparedPod {
            namespace,
            name: pod.metadata.name.as_str().into(),
            uid: Uid::new(&pod.metadata.uid),
            labels,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            precedence: Precedence::of(pod),
            preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
            rule_set,
            node_name: (!pod.spec.node_name.is_empty()).then(|| self.symbols.intern(&pod.spec.node_name)),
            gates: gates.filter(|_| profile.is_none_or(|p| p.scheduling_gates)).collect(),
            unknown_scheduler: profile.is_none().then(|| pod.spec.scheduler_name.as_str().into()),
        }
    }
}
