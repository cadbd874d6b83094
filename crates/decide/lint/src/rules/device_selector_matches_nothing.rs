//! Requests whose class and selectors select no device that a driver publishes.

use crate::devices::{Devices, claims, expression};
use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut devices = Devices::of(input);
    if devices.shapes.is_empty() {
        return;
    }
    let n_devices: usize = devices.shapes.iter().flat_map(|shape| shape.by_node.values()).sum();
    for claim in claims(input) {
        for wanted in claim.requests().iter().flatten() {
            if devices.selected(input, wanted).is_none_or(|selected| !selected.is_empty()) {
                continue;
            }
            let path = match wanted.selectors {
                [] => format!("{}.deviceClassName", wanted.path),
                _ => format!("{}.selectors", wanted.path),
            };
            let selectors: Vec<_> = wanted.selectors.iter().map(expression).collect();
            let selectors = match selectors.as_slice() {
                [] => String::new(),
                selectors => format!(" with {}", selectors.join(" and ")),
            };
            let message = format!(
                "request {}: none of the {n_devices} devices of the input is of class {}{selectors}",
                wanted.name, wanted.class
            );
            findings.add(&claim.object, path, message);
        }
    }
}
