//! Claims of more devices than can be allocated to one claim.

use crate::devices::claims;
use crate::finding::Findings;
use crate::input::LintInput;

/// The number of devices of a claim at most.
const MAX_DEVICES: i64 = 32;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for claim in claims(input) {
        let least = claim
            .requests()
            .iter()
            .filter_map(|of| of.iter().map(|w| w.count.unwrap_or(1)).min())
            .sum::<i64>();
        if least > MAX_DEVICES {
            let path = format!("{}.devices.requests", claim.path);
            let message = format!(
                "the claim needs {least} devices, and at most {MAX_DEVICES} can be allocated to one claim: no node \
                 satisfies it"
            );
            findings.add(&claim.object, path, message);
        }
    }
}
