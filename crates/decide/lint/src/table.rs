//! The table of rules: help, documentation index and output formats are made from it.

use crate::finding::Findings;
use crate::input::LintInput;
use crate::rule::RuleInfo;
use crate::rules::*;
use crate::severity::Severity;

type Check = fn(&LintInput<'_>, &mut Findings);

/// The rules, each as its findings, with their check.
pub(crate) fn checks() -> impl Iterator<Item = (&'static [RuleInfo], Check)> {
    let mut next = 0;
    RULES.chunk_by(|a, b| a.rule() == b.rule()).map(move |rule| {
        let check = CHECKS[next];
        next += rule.len();
        (rule, check)
    })
}

/// A rule, or one of several findings of a rule, by its name.
pub fn rule(name: &str) -> Option<&'static RuleInfo> {
    RULES.iter().find(|info| info.name == name)
}

macro_rules! rules {
    (@former) => { None };
    (@former $former:literal) => { Some($former) };
    ($($name:literal $(($former:literal))? $module:ident $severity:ident: $summary:literal; $fix:literal)*) => {
        /// All rules, by name; the findings of one rule follow each other and have the same check.
        pub const RULES: &[RuleInfo] = &[$(RuleInfo {
            name: $name, former: rules!(@former $($former)?), severity: Severity::$severity, summary: $summary, fix: $fix,
        }),*];
        /// The check of each, in the same order.
        const CHECKS: &[Check] = &[$($module::check),*];
    };
}

rules! {
    "affinity-conflicts-with-anti-affinity" affinity_conflicts Error:
        "Required affinity and required anti-affinity exclude each other";
        "remove one of the two terms, or give the anti-affinity a smaller topology"
    "affinity-cycle" affinity_cycle Error:
        "Workloads require each other's pods by affinity, so that none of them can start first";
        "make one of the terms preferred, or let the workload also match its own pods"
    "annotation-ignored-by-scheduler" annotation_ignored Warning:
        "An annotation with placement rules is not read by the scheduler of the pod";
        "set schedulerName to a scheduler that reads the annotation, or use fields of the pod spec"
    "budget-blocks-evictions" budget_blocks_evictions Warning:
        "A PodDisruptionBudget never allows an eviction";
        "allow one unavailable pod, or run one replica more than must be available"
    "contradictory-terms" contradictory_terms Error:
        "Node selector and required node affinity contradict each other: no node can ever match";
        "remove one of the contradicting requirements"
    "cross-namespace-anti-affinity" cross_namespace Warning:
        "Required anti-affinity selects pods of other namespaces and keeps them out of whole domains";
        "select pods of the own namespace only, or make the term preferred"
    "cross-namespace-preference" cross_namespace_preference Info:
        "Preferred anti-affinity lowers the scores of nodes for pods of other namespaces";
        "select pods of the own namespace only, or use a smaller topology"
    "deprecated-api" deprecated_api Warning:
        "The API version of an object is deprecated or no longer served";
        "use the API version that replaces it"
    "deprecated-topology-key" deprecated_key Warning:
        "A node label key that is out of use";
        "use the label that replaces it"
    "device/attribute-unknown" ("device-attribute-unknown") device Warning:
        "An attribute of devices that no driver publishes";
        "correct the domain or the name of the attribute"
    "device/claim-once-per-node" ("claim-once-per-node") device Info:
        "Every replica claims devices of which no node has enough for two";
        "run at most one replica per node, or claim fewer devices"
    "device/claim-shared-by-too-many" ("claim-shared-by-too-many") device Error:
        "A claim of devices is shared by more pods than it can be reserved for";
        "make claims from a template, or share the claim by fewer pods"
    "device/claim-too-large" ("claim-too-large") device Error:
        "A claim requests more devices than can be allocated to one claim";
        "request at most 32 devices in one claim"
    "device/constraint-unsatisfiable" ("device-constraint-unsatisfiable") device Error:
        "A constraint between devices cannot hold";
        "change the constraint, or request fewer devices"
    "device/feature-gate-off" ("feature-gate-off") device Error:
        "A field of devices or pod groups needs a feature gate that is off";
        "enable the gate with --feature-gates in the cluster and here, or remove the field"
    "device/object-missing" ("device-object-missing") device Error:
        "A device class, a claim or a template of claims does not exist";
        "create the object, or correct its name"
    "device/selector-invalid" ("device-selector-invalid") device Error:
        "A selector of devices is not a valid expression";
        "correct the expression"
    "device/selector-matches-nothing" ("device-selector-matches-nothing") device Warning:
        "A request of devices selects no device of the input";
        "correct the selector or the device class"
    "dialects-differ" dialects_differ Warning:
        "A field value means one thing in the v1 API and another in the design proposals";
        "write the meaning out"
    "eviction-annotation-invalid" eviction_annotation Warning:
        "The enforcer ignores an annotation of the pod because its value is invalid";
        "write evict, hold or a duration such as 90s, 5m or 1h30m"
    "first-rollout-trap" first_rollout_trap Warning:
        "matchLabelKeys is added to a running Deployment whose old pods still exclude the new ones";
        "set maxUnavailable to 1 for this rollout"
    "kubernetes-version/budget-selector-empty" kubernetes_version Warning:
        "A PodDisruptionBudget with an empty selector protects pods from preemption in some versions only";
        "select the labels of the pods that are meant"
    "kubernetes-version/capacity-qualified" kubernetes_version Error:
        "A requested capacity has a domain, which versions before 1.38 do not find";
        "write the name of the capacity without the domain"
    "kubernetes-version/preemption-policy-differs" kubernetes_version Error:
        "The pods of a PodGroup have different preemption policies, so that none of them is placed";
        "give all pods of the group the same preemptionPolicy"
    "kubernetes-version/priority-differs-from-group" kubernetes_version Error:
        "Pods have another priority than their PodGroup, so that none of them is placed";
        "give the pods and their PodGroup the same priorityClassName"
    "kubernetes-version/taint-rule-without-selector" kubernetes_version Warning:
        "A DeviceTaintRule without deviceSelector taints no device";
        "add a deviceSelector; an empty one selects all devices"
    "label-not-an-integer" label_not_an_integer Error:
        "Gt or Lt compares a label or a bound that is not an integer";
        "use integers, or the operator In"
    "named-node-rejects" named_node_rejects Error:
        "A pod names a node that does not run it: no such node, a rejection, or a claim that waits for a scheduler";
        "remove nodeName, so that a scheduler selects a node, or name another node"
    "never-first" never_first Error:
        "Required affinity that no pod can satisfy first";
        "let the terms select the pod's own labels, or make the affinity preferred"
    "policy-refuses" policy_refuses Error:
        "The admission policy refuses the pods, or warns about them";
        "change the pod as the message says, or the policy"
    "preference-without-effect" preference_without_effect Warning:
        "A preference that does not distinguish any nodes";
        "remove the preference, or correct it"
    "proposal-field-dropped" proposal_field_dropped Error:
        "A standard API server does not keep a rule of the design proposals in the pod spec";
        "write the rule in the annotation scheduling.berth.dev/affinity"
    "quota-refuses-pods" quota_refuses Error:
        "A ResourceQuota or a LimitRange refuses pods: their controller tries in vain to create them";
        "raise the quota or the limit, or change the number or the requests of the pods as the message says"
    "redundant-term" redundant_term Info:
        "A required term between pods that another one implies";
        "remove the term"
    "replicas-exceed-domains" replicas_exceed_domains Error:
        "More replicas than the topology has domains for: the last pods stay pending";
        "lower replicas, add domains, or make the rule preferred"
    "request-exceeds-every-node" request_exceeds Error:
        "A pod requests more than any node that it may run on can allocate";
        "request less, add a larger node, or tolerate the taint if the nodes are for this pod"
    "required-label-missing" required_label_missing Error:
        "Pods lack a label key that all pods must carry";
        "add the label to the pod template"
    "rollout-deadlock" rollout_deadlock Warning:
        "A rolling update cannot start: a new pod is unschedulable while all old pods run";
        "set maxUnavailable to 1"
    "selector/counts-others" selector Warning:
        "A topology spread constraint also counts pods of other workloads";
        "select labels that only the pods of this workload have"
    "selector/empty" ("empty-selector-selects-all") selector Warning:
        "An empty label selector selects all pods of its namespaces, or none in a spread constraint";
        "select the labels of the pods that are meant"
    "selector/match-label-key-absent" ("match-label-key-absent") selector Warning:
        "A key of matchLabelKeys or mismatchLabelKeys that the pods do not have as a label is ignored";
        "add the label to the pod template, or remove the key"
    "selector/matches-nothing" ("selector-matches-nothing") selector Warning:
        "A selector matches no pod or no node of the input";
        "correct the selector"
    "selector/misses-own-pods" ("spread-selector-misses-own-pods") selector Warning:
        "A topology spread constraint does not count the pods that have it";
        "select the labels of the pod template"
    "selector/null" ("null-selector-selects-none") selector Warning:
        "A term or a spread constraint without labelSelector selects no pod";
        "add a labelSelector"
    "terms-exclude-nothing" terms_exclude_nothing Warning:
        "Required terms of a node affinity are alternatives, and together exclude no node";
        "write the requirements in one term, where all of them must hold"
    "toleration-without-taint" toleration_without_taint Info:
        "A toleration tolerates no taint of the nodes";
        "remove the toleration, or correct its key, value or effect"
    "unknown-field" unknown_field Warning:
        "A field that the API does not know is dropped";
        "correct the name of the field, or move it to its place"
    "unknown-topology-key" unknown_topology_key Warning:
        "A topology key that no node has as a label";
        "use a label key that the nodes have"
    "volume-outside-affinity" volume_outside_affinity Error:
        "The volumes of a pod are available only on nodes that its node affinity excludes";
        "change the node affinity, or use volumes of these nodes"
}
