//! Pods parsed and compiled for one cluster.

use std::sync::Arc;

use berth_api::object::Pod;
use berth_api::object::device::DeviceDecision;
use berth_input::journal::AssumedDevices;
use berth_rules::PodRules;

use crate::state::State;
use crate::state::device::PodDevices;
use crate::state::group::Membership;
use crate::state::interned::intern::{Labels, Symbol};
use crate::state::interned::lease::{Held, Lease};
use crate::state::pod::signature::{LabelSetId, PodLabels, SignatureId};
use crate::state::pod::uid::Uid;
use crate::state::pod::{PodId, PodRecord, Precedence};
use crate::state::rule_set::default_spread::DefaultSpreadId;
use crate::state::rule_set::spread::Spread;
use crate::state::rule_set::{RuleSetId, RuleSetKey};
use crate::state::volume::PodVolumes;

/// A pod, parsed and compiled for one cluster.
#[derive(Clone, Debug)]
pub struct PreparedPod {
    pub(crate) namespace: Symbol,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) terminating: bool,
    pub(crate) precedence: Precedence,
    /// Its group, if it has one.
    pub(in crate::state) membership: Option<Membership>,
    /// Whether lower-priority pods may be removed for it (`spec.preemptionPolicy`).
    pub(crate) preempts: bool,
    pub(crate) rule_set: RuleSetId,
    pub(crate) label_set: LabelSetId,
    /// The label set that it is decided with, if terms of anti-affinity were relaxed: existing ones do not match it.
    pub(in crate::state) relaxed_label_set: Option<LabelSetId>,
    pub(crate) default_spread: Option<DefaultSpreadId>,
    /// The volumes that placement depends on.
    pub(crate) volumes: Option<Arc<PodVolumes>>,
    /// Its claims of devices, and the extended resources that devices may provide.
    pub(crate) devices: Option<Arc<PodDevices>>,
    /// The node it names itself, if any.
    pub(crate) node_name: Option<Arc<str>>,
    /// Scheduling gates that hold it back.
    pub(crate) gates: Vec<String>,
    /// Its scheduler name, if no profile has it.
    pub(crate) unknown_scheduler: Option<Box<str>>,
    /// Keeps the ids above valid, and with them the namespace.
    _lease: Arc<Lease>,
}

impl PreparedPod {
    /// The same pod under another name: of many pods that differ in nothing else, one needs to be prepared.
    pub fn named(&self, name: &str) -> PreparedPod {
        let volumes = self.volumes.as_ref().map(|volumes| Arc::new(volumes.named(name)));
        let devices = self.devices.as_ref().map(|devices| Arc::new(devices.named(name)));
        PreparedPod { name: name.into(), uid: Uid::default(), volumes, devices, ..self.clone() }
    }

    /// What a controller makes in its place: the same pod, not started.
    pub(crate) fn replacement(&self) -> PreparedPod {
        let precedence = Precedence { started: Precedence::NOT_STARTED, ..self.precedence };
        PreparedPod { uid: Uid::default(), precedence, ..self.clone() }
    }

    /// What a decision about the pod says of its claims of devices, to be assumed.
    pub fn assumed_devices(&self, devices: &DeviceDecision, in_flight: bool) -> AssumedDevices {
        let of_pod = self.devices.as_ref();
        AssumedDevices {
            pod: of_pod.map(|of_pod| of_pod.pod.clone()).unwrap_or_default(),
            uid: of_pod.map(|of_pod| of_pod.pod_uid.to_string()).unwrap_or_default(),
            devices: devices.clone(),
            in_flight,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The priority of its group, or `spec.priority`; 0 when it has none.
    pub fn priority(&self) -> i32 {
        self.precedence.priority
    }
}

impl State {
    /// Prepares a pod: its rules are parsed and compiled, and those seen for the first time are registered.
    pub(crate) fn prepare(&mut self, pod: &Pod) -> PreparedPod {
        let (rule_set, label_set) = self.sets_of(pod);
        let relaxed_label_set = self.relaxed_label_set(rule_set, label_set);
        let default_spread = self.default_spread(rule_set, label_set);
        let profile = self.rule_sets.get(rule_set).key.profile.map(|i| &self.profiles[i].profile);
        let gates = pod.spec.scheduling_gates.iter().map(|g| g.name.clone());
        let PodLabels { namespace, terminating, .. } = self.label_sets.get(label_set).of;
        let membership = self.membership(pod);
        let priority = self.priority_of(pod, membership.as_ref());
        PreparedPod {
            namespace,
            name: pod.metadata.name.as_str().into(),
            uid: Uid::new(&pod.metadata.uid),
            terminating,
            precedence: Precedence { priority, ..Precedence::of(pod) },
            membership,
            preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
            rule_set,
            label_set,
            relaxed_label_set,
            default_spread,
            volumes: PodVolumes::parse(pod, namespace).map(Arc::new),
            devices: PodDevices::parse(pod).map(Arc::new),
            node_name: (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.as_str().into()),
            gates: gates.filter(|_| profile.is_none_or(|p| p.scheduling_gates)).collect(),
            unknown_scheduler: profile.is_none().then(|| pod.spec.scheduler_name.as_str().into()),
            _lease: self.pod_lease(rule_set, label_set, relaxed_label_set, default_spread),
        }
    }

    pub(crate) fn rules_of_prepared(&self, pod: &PreparedPod) -> &PodRules {
        &self.rule_sets.get(pod.rule_set).key.rules
    }

    /// The same pod with other rules.
    pub(crate) fn with_rules(
        &mut self,
        pod: &PreparedPod,
        change: impl FnOnce(&mut PodRules),
    ) -> PreparedPod {
        self.with_key(pod, |key| change(&mut key.rules))
    }

    /// The same pod, with the first profile if its scheduler name has none.
    pub(crate) fn with_any_profile(&mut self, pod: &PreparedPod) -> PreparedPod {
        match self.rule_sets.get(pod.rule_set).key.profile {
            Some(_) => pod.clone(),
            None => self.with_key(pod, |key| key.profile = Some(Default::default())),
        }
    }

    fn with_key(&mut self, pod: &PreparedPod, change: impl FnOnce(&mut RuleSetKey)) -> PreparedPod {
        let mut key = self.rule_sets.get(pod.rule_set).key.clone();
        change(&mut key);
        self.symbols.retain(key.namespace);
        let rule_set = self.rule_set(key);
        self.label_sets.retain(pod.label_set);
        let relaxed_label_set = self.relaxed_label_set(rule_set, pod.label_set);
        let default_spread = self.default_spread(rule_set, pod.label_set);
        let _lease = self.pod_lease(rule_set, pod.label_set, relaxed_label_set, default_spread);
        PreparedPod { rule_set, relaxed_label_set, default_spread, _lease, ..pod.clone() }
    }

    /// What a controller makes in place of a pod: the same pod, not started, without the labels of some keys.
    pub(crate) fn replacement(&mut self, pod: &PreparedPod, without: &[&str]) -> PreparedPod {
        let replacement = pod.replacement();
        let without: Vec<Symbol> = without.iter().filter_map(|key| self.symbols.get(key)).collect();
        let of = &self.label_sets.get(pod.label_set).of;
        let labels = of.labels.restricted(|key| !without.contains(&key));
        if labels == of.labels {
            return replacement;
        }
        let of = PodLabels { labels, ..*of };
        of.symbols().for_each(|symbol| self.symbols.retain(symbol));
        let label_set = self.label_set(of);
        self.rule_sets.retain(pod.rule_set);
        let relaxed_label_set = self.relaxed_label_set(pod.rule_set, label_set);
        let default_spread = self.default_spread(pod.rule_set, label_set);
        let _lease = self.pod_lease(pod.rule_set, label_set, relaxed_label_set, default_spread);
        PreparedPod { label_set, relaxed_label_set, default_spread, _lease, ..replacement }
    }

    /// An assigned pod as if it were pending.
    pub(crate) fn as_pending(&mut self, pod: PodId) -> PreparedPod {
        let PodRecord { namespace, terminating, precedence, rule_set, label_set, .. } = *self.pods.get(pod);
        self.rule_sets.retain(rule_set);
        self.label_sets.retain(label_set);
        let relaxed_label_set = self.relaxed_label_set(rule_set, label_set);
        let default_spread = self.default_spread(rule_set, label_set);
        let (record, membership) = (self.pods.get(pod), self.membership_of(pod));
        PreparedPod {
            namespace,
            name: record.name.clone(),
            uid: record.uid.clone(),
            terminating,
            precedence,
            membership,
            preempts: false,
            rule_set,
            label_set,
            relaxed_label_set,
            default_spread,
            volumes: record.volumes.clone(),
            devices: record.devices.clone(),
            node_name: None,
            gates: Vec::new(),
            unknown_scheduler: None,
            _lease: self.pod_lease(rule_set, label_set, relaxed_label_set, default_spread),
        }
    }

    fn pod_lease(
        &self,
        rule_set: RuleSetId,
        label_set: LabelSetId,
        relaxed_label_set: Option<LabelSetId>,
        default_spread: Option<DefaultSpreadId>,
    ) -> Arc<Lease> {
        let held = [Held::RuleSet(rule_set), Held::LabelSet(label_set)].into_iter();
        let relaxed = relaxed_label_set.map(Held::LabelSet);
        self.lease(held.chain(relaxed).chain(default_spread.map(Held::DefaultSpread)))
    }

    pub(crate) fn decided_signature(&self, pod: &PreparedPod) -> SignatureId {
        self.label_sets.get(pod.relaxed_label_set.unwrap_or(pod.label_set)).signature
    }

    pub(in crate::state) fn label_set_of(&mut self, pod: &Pod) -> LabelSetId {
        let marks = self.toleration_marks(pod);
        let marks = marks.iter().map(|(key, value)| (key, value));
        let of = PodLabels {
            namespace: self.symbols.intern(&pod.metadata.namespace),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            labels: Labels::intern(&mut self.symbols, pod.metadata.labels.iter().chain(marks)),
        };
        self.label_set(of)
    }

    /// The spread constraints of a pod, with whether it matches itself.
    pub(crate) fn spread_with_self(&self, pod: &PreparedPod) -> Vec<Spread> {
        let labels = &self.label_sets.get(pod.label_set).of.labels;
        let with_self = |spread: &Spread| {
            let self_match = i64::from(self.counts_itself(spread, labels));
            Spread { self_match, ..spread.clone() }
        };
        self.spread_of(pod).iter().map(with_self).collect()
    }

    pub(crate) fn spread_of(&self, pod: &PreparedPod) -> &[Spread] {
        match pod.default_spread {
            Some(id) => &self.default_spreads.get(id).constraints,
            None => &self.rule_sets.get(pod.rule_set).spread,
        }
    }

    /// Whether the spread constraints of a pod are kube-scheduler's own defaults.
    pub(crate) fn has_system_spread(&self, pod: &PreparedPod) -> bool {
        let profile = self.rule_sets.get(pod.rule_set).key.profile.filter(|_| pod.default_spread.is_some());
        profile.is_some_and(|i| self.profiles[i].system_defaulted) && !self.spread_of(pod).is_empty()
    }
}
