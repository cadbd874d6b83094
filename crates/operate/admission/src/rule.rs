//! The names of the rules.

/// A rule that can refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    Annotation,
    /// Anti-affinity over all namespaces is by host name.
    AllNamespacesAntiAffinity,
    /// All required anti-affinity is by host name.
    LimitPodHardAntiAffinityTopology,
    /// A pod's blast radius stays within a budget.
    BlastRadius,
    /// What a pod's preferences make worse for others stays within a budget.
    PreferredBlastRadius,
    /// Pods with their own nodes stay within a budget.
    ExclusiveNodes,
    /// What pods exclude for other namespaces stays within a quota.
    PlacementQuota,
    /// Only pods of some namespaces tolerate anti-affinity.
    AntiAffinityToleration,
    /// Nodes keep to themselves.
    NodeRestriction,
    /// Bindings keep required rules.
    BindingGuard,
    /// Required anti-affinity is that of trusted users.
    TrustedUsers,
    PlacementPolicy,
    /// Pods and nodes carry no more than the limits.
    RuleLimits,
    /// Pods carry the labels that all pods must carry.
    RequiredLabels,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Rule::Annotation => "Annotation",
            Rule::AllNamespacesAntiAffinity => "AllNamespacesAntiAffinity",
            Rule::LimitPodHardAntiAffinityTopology => "LimitPodHardAntiAffinityTopology",
            Rule::BlastRadius => "BlastRadius",
            Rule::PreferredBlastRadius => "PreferredBlastRadius",
            Rule::ExclusiveNodes => "ExclusiveNodes",
            Rule::PlacementQuota => "PlacementQuota",
            Rule::AntiAffinityToleration => "AntiAffinityToleration",
            Rule::NodeRestriction => "NodeRestriction",
            Rule::BindingGuard => "BindingGuard",
            Rule::TrustedUsers => "TrustedUsers",
            Rule::PlacementPolicy => "PlacementPolicy",
            Rule::RuleLimits => "RuleLimits",
            Rule::RequiredLabels => "RequiredLabels",
        }
    }
}
