//! PlacementPolicies: any text is a policy or refused with findings. The rules of a policy make no pod invalid, and are added
//! once.
#![no_main]

use std::collections::HashMap;

use berth_rules::RuleOptions;
use berth_rules::admission::{default_pod, validate_pod};
use berth_api::object::Pod;
use berth_input::policy::{PlacementPolicy, PolicySet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(value) = serde_saphyr::from_str::<serde_json::Value>(text) else { return };
    let mut policy = match PlacementPolicy::read(&value) {
        Ok(policy) => policy,
        Err(errors) => return assert!(!errors.to_string().is_empty(), "refused without saying why"),
    };
    // Of the policy's name and selectors nothing is asked here: it selects the pod.
    policy.metadata = Default::default();
    policy.spec.namespace_selector = None;
    policy.spec.pod_selector = None;
    let policies = PolicySet::new([policy], HashMap::new());
    let mut pod: Pod = serde_json::from_value(serde_json::json!({"metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}))
    .expect("the pod is valid");
    default_pod(&mut pod);
    let _ = policies.apply(&mut pod);
    default_pod(&mut pod);
    assert_eq!(validate_pod(&pod, RuleOptions::default()), [], "the rules of the policy are not valid");
    let once = pod.clone();
    let _ = policies.apply(&mut pod);
    assert_eq!(pod, once, "the rules were added again");
});
