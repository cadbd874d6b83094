//! The names of the rules.

berth_api::named! {
    /// A rule that can refuse a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Rule(name) {
        Annotation = "Annotation",
        /// Anti-affinity over all namespaces is by host name.
        AllNamespacesAntiAffinity = "AllNamespacesAntiAffinity",
        /// All required anti-affinity is by host name.
        LimitPodHardAntiAffinityTopology = "LimitPodHardAntiAffinityTopology",
        /// A pod's blast radius stays within a budget.
        BlastRadius = "BlastRadius",
        /// What a pod's preferences make worse for others stays within a budget.
        PreferredBlastRadius = "PreferredBlastRadius",
        /// Pods with their own nodes stay within a budget.
        ExclusiveNodes = "ExclusiveNodes",
        /// What pods exclude for other namespaces stays within a quota.
        PlacementQuota = "PlacementQuota",
        /// Only pods of some namespaces tolerate anti-affinity.
        AntiAffinityToleration = "AntiAffinityToleration",
        /// Nodes keep to themselves.
        NodeRestriction = "NodeRestriction",
        /// Bindings keep required rules.
        BindingGuard = "BindingGuard",
        /// Required anti-affinity is that of trusted users.
        TrustedUsers = "TrustedUsers",
        PlacementPolicy = "PlacementPolicy",
        /// Pods and nodes carry no more than the limits.
        RuleLimits = "RuleLimits",
        /// Pods carry the labels that all pods must carry.
        RequiredLabels = "RequiredLabels",
    }
}
