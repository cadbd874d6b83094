//! The pod to be placed: its class, identity and spread constraints, ready to be asked about.

use berth_api::object::Pod;
use berth_api::rules::SpreadConstraint;
use smallvec::smallvec;

use super::class::ClassId;
use super::cluster::Cluster;
use super::identity::IdentityId;
use super::intern::{Labels, Symbol};
use super::matcher::{MatcherId, NamespaceMatcher, PodQuery};
use super::pod::Standing;
use super::selector::LabelMatcher;
use super::topology::TopologyId;
use super::uid::Uid;
use crate::nomination::Nominated;

/// A pod, parsed and compiled for one cluster.
#[derive(Clone, Debug)]
pub struct PreparedPod {
    pub(crate) namespace: Symbol,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    pub(crate) labels: Labels,
    pub(crate) terminating: bool,
    pub(crate) standing: Standing,
    /// Whether lower-priority pods may be removed for it (`spec.preemptionPolicy`).
    pub(crate) preempts: bool,
    pub(crate) class: ClassId,
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
        self.standing.priority
    }
}

/// What is asked of the cluster for a pod that is to be placed.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) class: ClassId,
    pub(crate) identity: IdentityId,
    pub(crate) spread: Vec<Spread>,
    /// Whether the spread constraints are kube-scheduler's defaults.
    pub(crate) system_spread: bool,
    /// The node it names itself, if any.
    pub(crate) node_name: Option<Symbol>,
    /// Pods nominated to nodes that it must leave room for.
    pub(crate) nominated: Nominated,
}

/// A compiled spread constraint.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    pub(crate) constraint: SpreadConstraint,
    pub(crate) topology: TopologyId,
    /// The pods counted; none for a selector that matches nothing or everything: kube-scheduler counts
    /// no pods for either.
    pub(crate) matcher: Option<MatcherId>,
    /// 1 if the pod itself would count.
    pub(crate) self_match: i64,
}

impl Cluster {
    /// Prepares a pod: its rules are parsed and compiled, and those seen for the first time are registered.
    ///
    /// What comes back can be decided and placed any number of times, whatever happens to the cluster
    /// meanwhile.
    pub fn prepare(&mut self, pod: &Pod) -> PreparedPod {
        let class = self.class_of(pod);
        let namespace = self.symbols.intern(&pod.metadata.namespace);
        let labels = Labels::intern(&mut self.symbols, &pod.metadata.labels);
        let profile = self.classes.get(class).key.profile.map(|i| &self.profiles[i].profile);
        let gates = pod.spec.scheduling_gates.iter().map(|g| g.name.clone());
        PreparedPod {
            namespace,
            name: pod.metadata.name.as_str().into(),
            uid: Uid::new(&pod.metadata.uid),
            labels,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            standing: Standing::of(pod),
            preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
            class,
            node_name: (!pod.spec.node_name.is_empty()).then(|| self.symbols.intern(&pod.spec.node_name)),
            gates: gates.filter(|_| profile.is_none_or(|p| p.scheduling_gates)).collect(),
            unknown_scheduler: profile.is_none().then(|| pod.spec.scheduler_name.as_str().into()),
        }
    }

    /// Compiles what is asked of the cluster for a pod now.
    pub(crate) fn incoming(&mut self, pod: &PreparedPod) -> Incoming {
        let (class, namespace, labels) = (pod.class, pod.namespace, &pod.labels);
        let (constraints, system_spread) = self.spread_constraints(class, namespace, labels);
        let spread = constraints.into_iter().map(|c| self.compile_spread(namespace, labels, c)).collect();
        let identity = self.identity_of(namespace, pod.terminating, labels);
        let nominated = self.nominated_against(pod);
        Incoming { class, identity, spread, system_spread, node_name: pod.node_name, nominated }
    }

    /// The pod's own spread constraints, or the profile's defaults for it.
    fn spread_constraints(
        &self,
        class: ClassId,
        namespace: Symbol,
        labels: &Labels,
    ) -> (Vec<SpreadConstraint>, bool) {
        let key = &self.classes.get(class).key;
        let own = &key.rules.spread_constraints;
        let profile = key.profile.map(|i| &self.profiles[i]);
        let Some(profile) = profile.filter(|p| own.is_empty() && !p.default_constraints.is_empty()) else {
            return (own.clone(), false);
        };
        let selector = self.workloads.default_selector(&self.symbols, namespace, labels, key.owner.as_ref());
        if selector.is_everything() {
            return (Vec::new(), false);
        }
        let defaults = profile.default_constraints.iter().enumerate();
        let parse = |(i, c)| {
            SpreadConstraint::parse(
                c,
                selector.clone(),
                format!("PodTopologySpreadArgs.defaultConstraints[{i}]"),
            )
        };
        (defaults.map(parse).collect(), profile.system_defaulted)
    }

    fn compile_spread(
        &mut self,
        namespace: Symbol,
        pod_labels: &Labels,
        constraint: SpreadConstraint,
    ) -> Spread {
        let key = self.symbols.intern(&constraint.topology_key);
        let topology = self.topology(vec![key]);
        let labels = LabelMatcher::compile(&mut self.symbols, &constraint.selector);
        let counts = !labels.is_nothing() && !labels.is_everything();
        let self_match = i64::from(labels.matches(&self.symbols, pod_labels));
        let matcher = counts.then(|| {
            let namespaces =
                NamespaceMatcher { names: [namespace].into(), selector: LabelMatcher::nothing() };
            let query = PodQuery { namespaces, labels, live_only: true, without_exempt: false };
            self.matcher(smallvec![query], [TopologyId::NODE], [])
        });
        Spread { constraint, topology, matcher, self_match }
    }
}
