//! Constraints between devices that cannot hold.

use berth_api::object::device::{DeviceAttribute, DeviceConstraint};

use crate::devices::{Claim, Devices, Wanted, claims};
use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut devices = Devices::of(input);
    for claim in claims(input) {
        let requests = claim.requests();
        for (i, constraint) in claim.spec.devices.constraints.iter().enumerate() {
            let needed = n_constrained(&requests, constraint);
            let path = format!("{}.devices.constraints[{i}]", claim.path);
            if needed > 1 && contradicts_another(&claim, i) {
                let message = "the same devices must have equal and different values of the attribute";
                findings.add(&claim.object, path, message);
                continue;
            }
            let Some((what, most)) = most_devices(&mut devices, input, &requests, constraint) else {
                continue;
            };
            if most < needed {
                let message =
                    format!("the constraint is about at least {needed} devices, and at most {most} {what}");
                findings.add(&claim.object, path, message);
            }
        }
    }
}

/// The number of devices that a constraint is about at least.
fn n_constrained(requests: &[Vec<Wanted<'_>>], constraint: &DeviceConstraint) -> i64 {
    let of_request = |alternatives: &Vec<Wanted<'_>>| {
        let counts = alternatives.iter().map(|wanted| match wanted.is_constrained_by(constraint) {
            true => wanted.count.unwrap_or(1),
            false => 0,
        });
        counts.min().unwrap_or(0)
    };
    requests.iter().map(of_request).sum()
}

/// Whether a constraint before this one has the other meaning for the same attribute and requests.
fn contradicts_another(claim: &Claim<'_>, i: usize) -> bool {
    let constraints = &claim.spec.devices.constraints;
    let this = &constraints[i];
    constraints[..i].iter().any(|other| {
        other.requests == this.requests
            && ((this.match_attribute.is_some() && this.match_attribute == other.distinct_attribute)
                || (this.distinct_attribute.is_some() && this.distinct_attribute == other.match_attribute))
    })
}

/// How many devices of the input satisfy a constraint together at most, and what they have. None if that is not known, or no driver
/// publishes the attribute.
fn most_devices(
    devices: &mut Devices<'_>,
    input: &LintInput<'_>,
    requests: &[Vec<Wanted<'_>>],
    constraint: &DeviceConstraint,
) -> Option<(&'static str, i64)> {
    let name = constraint.match_attribute.as_ref().or(constraint.distinct_attribute.as_ref())?;
    if !devices.shapes.iter().any(|shape| shape.attribute(name).is_some()) {
        return None;
    }
    let mut by_value: Vec<(DeviceAttribute, i64)> = Vec::new();
    let mut seen: Vec<*const berth_api::object::device::Device> = Vec::new();
    for wanted in requests.iter().flatten().filter(|wanted| wanted.is_constrained_by(constraint)) {
        for shape in devices.selected(input, wanted)? {
            let device: *const _ = shape.device;
            let Some(value) = shape.attribute(name).filter(|_| !seen.contains(&device)) else { continue };
            seen.push(device);
            // A device that others share serves several requests.
            let n = match shape.device.allow_multiple_allocations {
                true => i64::MAX / 1024,
                false => shape.by_node.values().map(|n| *n as i64).sum(),
            };
            match by_value.iter_mut().find(|(known, _)| known == value) {
                Some((_, known)) => *known += n,
                None => by_value.push((value.clone(), n)),
            }
        }
    }
    Some(match constraint.match_attribute {
        Some(_) => ("have one value", by_value.iter().map(|(_, n)| *n).max().unwrap_or(0)),
        None => ("have different values", by_value.len() as i64),
    })
}
