//! What is checked and how strictly: the configuration file `AdmissionPolicy`.

mod read;

use std::time::Duration;

use berth_api::object::PodLimits;
use berth_api::syntax::quantity::Quantity;
use berth_engine::Settings;
use berth_input::policy::RequiredLabels;
use berth_rules::RuleOptions;

pub use berth_input::config::ConfigErrors;

pub const API_VERSION: &str = "admission.berth.dev/v1alpha1";
pub const KIND: &str = "AdmissionPolicy";

/// Everything that can be chosen. The default is what holds without a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How the rules of pods are read; no file says that.
    pub rule_options: RuleOptions,
    /// Namespaces whose pods neither block nor are blocked by anti-affinity, with the engine's default. Terms of
    /// their pods are not checked for blocking.
    pub exempt_namespaces: Vec<String>,
    /// Whether they are also exempt from anti-affinity in v1 fields.
    pub exempt_from_v1: bool,
    /// The node label keys that an empty `topologyKey` of the proposals stands for.
    pub all_topologies: Vec<String>,
    /// Whether the annotation `scheduling.berth.dev/affinity` is validated, and warned about where it does nothing.
    pub validate_annotation: bool,
    /// Whether to warn where the two dialects read the same text differently.
    pub dialect_warnings: bool,
    /// What happens to required anti-affinity over all namespaces with another topology than the node.
    pub all_namespaces_anti_affinity: Action,
    /// Whether required anti-affinity may have no other topology than the node, as kube-apiserver's plugin
    /// `LimitPodHardAntiAffinityTopology` has it.
    pub limit_pod_hard_anti_affinity_topology: bool,
    /// Who may use required anti-affinity; none if everyone may.
    pub trusted_users: Option<TrustedUsers>,
    /// Label keys that all pods must carry; none if there is no such convention.
    pub required_labels: Option<LabelConvention>,
    /// The schedulers that read the annotation `scheduling.berth.dev/affinity`; empty if that is not known.
    pub scheduler_names: Vec<String>,
    /// Whether pod templates of workloads are checked; findings are only warnings.
    pub workload_warnings: bool,
    /// Whether `matchLabelKeys` and `mismatchLabelKeys` are merged into selectors.
    pub merge_match_label_keys: bool,
    /// Namespaces whose pods may tolerate the anti-affinity of others. Those of their DaemonSets do.
    pub daemon_namespaces: Vec<String>,
    /// Whether node identities are restricted to their own node.
    pub node_restriction: bool,
    /// The guard of bindings; none if it is off.
    pub binding_guard: Option<BindingGuard>,
    /// Whether pods are charged to the PlacementQuotas of their namespace.
    pub placement_quotas: bool,
    /// What pods and nodes may carry.
    pub rule_limits: RuleLimits,
    /// Budgets of namespaces. At most one is without namespaces: it is for all that no other names.
    pub budgets: Vec<Budget>,
}

/// What happens to a pod that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Reject,
    /// It is created, with a warning.
    Warn,
    Allow,
}

/// How much pods and nodes may carry of what Kubernetes does not limit and decisions about pods read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleLimits {
    /// What happens to pods and nodes beyond a limit.
    pub action: Action,
    /// Entries of each field of a pod that lists rules.
    pub pod: PodLimits,
    pub max_taints: usize,
}

impl Default for RuleLimits {
    fn default() -> Self {
        RuleLimits { action: Action::Warn, pod: PodLimits::default(), max_taints: 1000 }
    }
}

/// Label keys that all pods must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelConvention {
    /// What happens to pods that lack one.
    pub action: Action,
    pub labels: RequiredLabels,
}

/// Who may use required anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedUsers {
    /// What happens to pods and workloads of other users.
    pub action: Action,
    /// Topology keys that all users may use.
    pub topology_keys: Vec<String>,
    pub users: Vec<String>,
    pub groups: Vec<String>,
    /// Trusted service accounts, as `NAMESPACE/NAME`.
    pub service_accounts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingGuard {
    pub rules: Vec<GuardedRule>,
    /// Namespace of the ledger that replicas share; none if there is only one replica.
    pub ledger_namespace: Option<String>,
    /// How long an allowed binding counts before the cluster state shows it.
    pub hold_for: Duration,
    /// How long a pod or node that has not been seen yet is waited for.
    pub wait_for: Duration,
}

impl Default for BindingGuard {
    fn default() -> Self {
        BindingGuard {
            rules: GuardedRule::ALL.to_vec(),
            ledger_namespace: None,
            hold_for: Duration::from_secs(10),
            wait_for: Duration::from_millis(500),
        }
    }
}

/// A rule that the guard of bindings checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardedRule {
    /// Node selector and required node affinity.
    NodeAffinity,
    /// Required affinity and anti-affinity between pods, that of running pods included.
    InterPodAffinity,
    /// Spread constraints with `DoNotSchedule`.
    PodTopologySpread,
}

impl GuardedRule {
    pub const ALL: [GuardedRule; 3] =
        [GuardedRule::NodeAffinity, GuardedRule::InterPodAffinity, GuardedRule::PodTopologySpread];
}

/// How much of the cluster pods of a namespace may keep from others. It is counted for each namespace by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// The namespaces; empty for all that no other budget names.
    pub namespaces: Vec<String>,
    /// What happens to a pod beyond it.
    pub action: Action,
    /// What one pod may block with required anti-affinity.
    pub blast_radius: Option<BlastRadiusLimit>,
    /// What one pod may make worse for others with preferred anti-affinity.
    pub preferred_blast_radius: Option<BlastRadiusLimit>,
    /// What all pods together may take for themselves.
    pub exclusive_nodes: Option<ExclusiveNodesLimit>,
}

/// How much one anti-affinity term of a pod may affect others by symmetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlastRadiusLimit {
    /// Which domain of the term is taken.
    pub measure: Measure,
    pub nodes: Option<u64>,
    pub pods: Option<u64>,
}

/// How much all pods of a namespace with a node of their own may take.
#[derive(Clone, Debug, PartialEq)]
pub struct ExclusiveNodesLimit {
    /// What a pod is charged that has no node yet.
    pub charge: Measure,
    pub nodes: Option<u64>,
    pub cpu: Option<Quantity>,
    pub memory: Option<Quantity>,
}

berth_api::named! {
    /// The domain or node to measure if it depends on the placement of a pod.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Measure(as_str) {
        /// The largest that there is.
        Largest = "Largest",
        Average = "Average",
        /// The one that the engine would select now; if none is feasible, the largest.
        Actual = "Actual",
    }
}

impl Default for Policy {
    fn default() -> Self {
        let Settings { exempt_namespaces, exempt_from_v1, all_topologies, .. } = Settings::default();
        Policy {
            rule_options: RuleOptions::default(),
            exempt_namespaces,
            exempt_from_v1,
            all_topologies,
            validate_annotation: true,
            dialect_warnings: true,
            all_namespaces_anti_affinity: Action::Reject,
            limit_pod_hard_anti_affinity_topology: false,
            trusted_users: None,
            required_labels: None,
            scheduler_names: vec!["berth".to_owned()],
            workload_warnings: true,
            merge_match_label_keys: true,
            daemon_namespaces: Vec::new(),
            node_restriction: true,
            binding_guard: None,
            placement_quotas: false,
            rule_limits: RuleLimits::default(),
            budgets: Vec::new(),
        }
    }
}

impl Policy {
    pub fn budget(&self, namespace: &str) -> Option<&Budget> {
        let named = self.budgets.iter().find(|b| b.namespaces.iter().any(|n| n == namespace));
        named.or_else(|| self.budgets.iter().find(|b| b.namespaces.is_empty()))
    }

    pub fn changes_pods(&self) -> bool {
        self.merge_match_label_keys || !self.daemon_namespaces.is_empty()
    }

    /// Whether a rule needs the state of the cluster.
    pub fn needs_state(&self) -> bool {
        self.node_restriction
            || self.binding_guard.is_some()
            || self.placement_quotas
            || !self.budgets.is_empty()
    }
}
