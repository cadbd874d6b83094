//! AdmissionPolicies, the configuration of the webhook: any text is a policy or refused with findings.
#![no_main]

use berth_admission::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(value) = serde_saphyr::from_str::<serde_json::Value>(text) else { return };
    if let Err(errors) = Policy::from_value(&value) {
        assert!(!errors.to_string().is_empty(), "refused without saying why");
    }
});
