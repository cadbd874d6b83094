//! Classes, templates and claims that are not in the input.

use std::collections::HashSet;

use berth_api::object::device::DeviceObject;

use crate::devices::{Devices, claims};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let objects = || input.inventory.device_objects.iter().map(|entry| &entry.object);
    // Without slices, the input is not that of a cluster: it may have more.
    let is_cluster = objects().any(|object| matches!(object, DeviceObject::ResourceSlice(_)));
    let (severity, where_) = match is_cluster {
        true => (Severity::Error, "does not exist"),
        false => (Severity::Info, "is not in the input"),
    };
    let devices = Devices::of(input);
    for claim in claims(input) {
        for wanted in claim.requests().iter().flatten().filter(|wanted| !devices.has_class(wanted.class)) {
            let message = format!("request {}: DeviceClass {} {where_}", wanted.name, wanted.class);
            let path = format!("{}.deviceClassName", wanted.path);
            findings.add(&claim.object, path, message).severity(severity);
        }
    }
    let names = |kind| -> HashSet<(&str, &str)> {
        let of_kind = objects().filter(|object| object.kind() == kind).map(DeviceObject::metadata);
        of_kind.map(|metadata| (&*metadata.namespace, &*metadata.name)).collect()
    };
    let known_claims = names(berth_api::object::device::DeviceKind::ResourceClaim);
    let templates = names(berth_api::object::device::DeviceKind::ResourceClaimTemplate);
    for subject in input.subjects() {
        for (i, entry) in subject.written.spec.resource_claims.iter().enumerate() {
            let named = [
                ("ResourceClaim", "resourceClaimName", &entry.resource_claim_name, &known_claims),
                (
                    "ResourceClaimTemplate",
                    "resourceClaimTemplateName",
                    &entry.resource_claim_template_name,
                    &templates,
                ),
            ];
            for (kind, field, name, known) in named {
                let Some(name) = name else { continue };
                if !known.contains(&(subject.namespace(), name.as_str())) {
                    let path = subject.path(format!("spec.resourceClaims[{i}].{field}"));
                    let message = format!("{kind} {name} {where_}: the pod waits for it");
                    findings.add(&subject.object, path, message).severity(severity);
                }
            }
        }
    }
}
