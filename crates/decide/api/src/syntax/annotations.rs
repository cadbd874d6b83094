//! The names of the annotations of a pod that say where it may run, and when it is evicted.

/// With what all names begin.
pub const ANNOTATION_PREFIX: &str = "scheduling.berth.dev/";

/// The design proposals' `Affinity` as JSON or YAML, for API servers that drop unknown fields.
pub const AFFINITY_ANNOTATION: &str = "scheduling.berth.dev/affinity";

/// The namespaces whose required anti-affinity the pod tolerates: names separated by commas, or `*` for all. Terms of pods
/// in these namespaces neither reject the pod nor are violated by it.
pub const TOLERATION_ANNOTATION: &str = "scheduling.berth.dev/tolerates-anti-affinity";

/// After how long all relaxable rules of a pod become preferences, such as `5m`.
pub const RELAX_AFTER_ANNOTATION: &str = "scheduling.berth.dev/relax-after";

/// The paths of the rules that were relaxed to bind the pod, separated by commas.
pub const RELAXED_ANNOTATION: &str = "scheduling.berth.dev/relaxed";

/// The grace period of the rules that are required during execution, such as `90s`.
pub const GRACE_ANNOTATION: &str = "scheduling.berth.dev/eviction-grace";

/// What happens to a pod that is to be evicted if no node is feasible: `evict`, `hold`, or how long it is held.
pub const WITHOUT_TARGET_ANNOTATION: &str = "scheduling.berth.dev/without-target";
