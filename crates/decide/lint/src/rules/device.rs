//! Claims of devices, the objects that they need, and the pods that have them.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_api::object::PodResourceClaim;
use berth_api::object::device::{
    Device, DeviceAttribute, DeviceConstraint, DeviceKind, DeviceObject, DeviceSelector as WrittenSelector,
    MAX_CONSUMERS,
};
use berth_rules::DeviceSelector;

use crate::devices::{Claim, Devices, Wanted, claims, expression, is_of_group, linted};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;
use crate::subject::{Object, Subject};

/// The number of devices of a claim at most.
const MAX_DEVICES: i64 = 32;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    fields_of_gates(input, findings);
    for (object, typed) in linted(input) {
        if let DeviceObject::DeviceClass(class) = typed {
            invalid_selectors(object, "spec", &class.spec.selectors, findings);
        }
    }
    let (mut devices, claims) = (Devices::of(input), claims(input));
    for claim in &claims {
        let requests = claim.requests();
        too_large(claim, &requests, findings);
        for wanted in requests.iter().flatten() {
            invalid_selectors(&claim.object, &wanted.path, wanted.selectors, findings);
            if !devices.shapes.is_empty() {
                unknown_attributes_of_selectors(&devices, claim, wanted, findings);
                selects_nothing(&mut devices, input, claim, wanted, findings);
            }
        }
        for (i, constraint) in claim.spec.devices.constraints.iter().enumerate() {
            let path = format!("{}.devices.constraints[{i}]", claim.path);
            let needed = n_constrained(&requests, constraint);
            if !devices.shapes.is_empty() {
                unknown_attributes_of_constraint(&devices, claim, constraint, &path, findings);
            }
            let message = if needed > 1 && contradicts_another(claim, i) {
                "the same devices must have equal and different values of the attribute".to_owned()
            } else {
                match most_devices(&mut devices, input, &requests, constraint) {
                    Some((what, most)) if most < needed => {
                        format!(
                            "the constraint is about at least {needed} devices, and at most {most} {what}"
                        )
                    }
                    _ => continue,
                }
            };
            findings.add_one("constraint-unsatisfiable", &claim.object, path, message);
        }
    }
    missing_objects(input, &devices, &claims, findings);
    once_per_node(input, &mut devices, &claims, findings);
    shared_by_too_many(input, findings);
}

/// Fields of devices and of pod groups that need a feature gate which is off.
fn fields_of_gates(input: &LintInput<'_>, findings: &mut Findings) {
    let gates = input.settings.config.feature_gates;
    if !gates.dra_workload_resource_claims {
        let groups = input.inventory.pod_groups.iter();
        let with_claims = groups.filter(|entry| !entry.object.spec.resource_claims.is_empty());
        let orders: HashSet<usize> = with_claims.map(|entry| entry.order).collect();
        for object in input.objects.iter().filter(|object| orders.contains(&object.order)) {
            let message =
                "the pods of the group stay pending without the feature gate DRAWorkloadResourceClaims";
            findings.add_one("feature-gate-off", object, "spec.resourceClaims".to_owned(), message);
        }
    }
    if !gates.dra_node_allocatable_resources {
        for (object, typed) in linted(input) {
            let DeviceObject::ResourceSlice(slice) = typed else { continue };
            let mut devices = slice.spec.devices.iter();
            let Some(i) = devices.position(|of| !of.node_allocatable_resource_mappings.is_empty()) else {
                continue;
            };
            let path = format!("spec.devices[{i}].nodeAllocatableResourceMappings");
            let message = "without the feature gate DRANodeAllocatableResources, devices take nothing of the allocatable \
                           resources of their node: it can be overcommitted";
            findings.add_one("feature-gate-off", object, path, message).severity(Severity::Warning);
        }
    }
}

fn invalid_selectors(
    object: &Object<'_>,
    path: &str,
    selectors: &[WrittenSelector],
    findings: &mut Findings,
) {
    for (i, selector) in selectors.iter().enumerate() {
        let error = match DeviceSelector::compile(expression(selector)) {
            Err(error) => error,
            Ok(selector) if selector.exceeds_cost_limit() => {
                "it may cost more than the API server allows".to_owned()
            }
            Ok(_) => continue,
        };
        let path = format!("{path}.selectors[{i}].cel.expression");
        findings.add_one("selector-invalid", object, path, format!("the selector is not valid: {error}"));
    }
}

/// Claims of more devices than can be allocated to one claim.
fn too_large(claim: &Claim<'_>, requests: &[Vec<Wanted<'_>>], findings: &mut Findings) {
    let least_of = |of: &Vec<Wanted<'_>>| of.iter().map(|wanted| wanted.count.unwrap_or(1)).min();
    let least: i64 = requests.iter().filter_map(least_of).sum();
    if least > MAX_DEVICES {
        let path = format!("{}.devices.requests", claim.path);
        let message = format!(
            "the claim needs {least} devices, and at most {MAX_DEVICES} can be allocated to one claim: no node \
             satisfies it"
        );
        findings.add_one("claim-too-large", &claim.object, path, message);
    }
}

/// A request whose class and selectors select no device that a driver publishes.
fn selects_nothing(
    devices: &mut Devices<'_>,
    input: &LintInput<'_>,
    claim: &Claim<'_>,
    wanted: &Wanted<'_>,
    findings: &mut Findings,
) {
    if devices.selected(input, wanted).is_none_or(|selected| !selected.is_empty()) {
        return;
    }
    let n_devices: usize = devices.shapes.iter().flat_map(|shape| shape.by_node.values()).sum();
    let texts: Vec<_> = wanted.selectors.iter().map(expression).collect();
    let (field, selectors) = match texts.as_slice() {
        [] => ("deviceClassName", String::new()),
        texts => ("selectors", format!(" with {}", texts.join(" and "))),
    };
    let message = format!(
        "request {}: none of the {n_devices} devices of the input is of class {}{selectors}",
        wanted.name, wanted.class
    );
    findings.add_one("selector-matches-nothing", &claim.object, format!("{}.{field}", wanted.path), message);
}

/// Attributes that no driver publishes.
fn unknown_attributes_of_constraint(
    devices: &Devices<'_>,
    claim: &Claim<'_>,
    constraint: &DeviceConstraint,
    path: &str,
    findings: &mut Findings,
) {
    let named = [
        ("matchAttribute", &constraint.match_attribute),
        ("distinctAttribute", &constraint.distinct_attribute),
    ];
    for (field, name) in named {
        let Some(name) = name.as_deref().filter(|name| !is_published(devices, name)) else { continue };
        let message = format!("no driver publishes the attribute {name}: no device satisfies the constraint");
        findings.add_one("attribute-unknown", &claim.object, format!("{path}.{field}"), message);
    }
}

fn unknown_attributes_of_selectors(
    devices: &Devices<'_>,
    claim: &Claim<'_>,
    wanted: &Wanted<'_>,
    findings: &mut Findings,
) {
    for (i, selector) in wanted.selectors.iter().enumerate() {
        let names = attributes(expression(selector)).into_iter();
        for name in names.filter(|name| !is_published(devices, name)) {
            let path = format!("{}.selectors[{i}].cel.expression", wanted.path);
            let message = format!("no driver publishes the attribute {name}");
            findings.add_one("attribute-unknown", &claim.object, path, message);
        }
    }
}

fn is_published(devices: &Devices<'_>, name: &str) -> bool {
    devices.shapes.iter().any(|shape| shape.attribute(name).is_some())
}

/// The attributes that an expression reads, written as `device.attributes["DOMAIN"].NAME`.
fn attributes(expression: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rest in expression.split("device.attributes[").skip(1) {
        let Some(quote) = rest.chars().next().filter(|first| matches!(first, '"' | '\'')) else { continue };
        let Some((domain, rest)) = rest[1..].split_once(quote) else { continue };
        let Some(rest) = rest.strip_prefix("].") else { continue };
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = format!("{domain}/{}", &rest[..end]);
        // A method, such as `orValue`, follows an optional field.
        if end > 0 && !rest[end..].starts_with('(') && !names.contains(&name) {
            names.push(name);
        }
    }
    names
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
    let mut seen: Vec<*const Device> = Vec::new();
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

/// Classes, templates and claims that are not in the input.
fn missing_objects(
    input: &LintInput<'_>,
    devices: &Devices<'_>,
    claims: &[Claim<'_>],
    findings: &mut Findings,
) {
    let objects = || input.inventory.device_objects.iter().map(|entry| &entry.object);
    // Without slices, the input is not that of a cluster: it may have more.
    let is_cluster = objects().any(|object| matches!(object, DeviceObject::ResourceSlice(_)));
    let (severity, where_) = match is_cluster {
        true => (Severity::Error, "does not exist"),
        false => (Severity::Info, "is not in the input"),
    };
    for claim in claims {
        for wanted in claim.requests().iter().flatten().filter(|wanted| !devices.has_class(wanted.class)) {
            let message = format!("request {}: DeviceClass {} {where_}", wanted.name, wanted.class);
            let path = format!("{}.deviceClassName", wanted.path);
            findings.add_one("object-missing", &claim.object, path, message).severity(severity);
        }
    }
    let known: HashSet<(DeviceKind, &str, &str)> = objects()
        .map(|object| (object.kind(), &*object.metadata().namespace, &*object.metadata().name))
        .collect();
    for (subject, i, entry) in claims_of_pods(input) {
        let named = [
            (DeviceKind::ResourceClaim, "resourceClaimName", &entry.resource_claim_name),
            (
                DeviceKind::ResourceClaimTemplate,
                "resourceClaimTemplateName",
                &entry.resource_claim_template_name,
            ),
        ];
        for (kind, field, name) in named {
            let Some(name) = name else { continue };
            if !known.contains(&(kind, subject.namespace(), name)) {
                let path = subject.path(format!("spec.resourceClaims[{i}].{field}"));
                let message = format!("{kind:?} {name} {where_}: the pod waits for it");
                findings.add_one("object-missing", &subject.object, path, message).severity(severity);
            }
        }
    }
}

/// The claims of the pods, each with its place in the pod spec.
fn claims_of_pods<'i, 'a>(
    input: &'i LintInput<'a>,
) -> impl Iterator<Item = (&'i Subject<'a>, usize, &'i PodResourceClaim)> {
    input.subjects().flat_map(|subject| {
        let entries = subject.written.spec.resource_claims.iter().enumerate();
        entries.map(move |(i, entry)| (subject, i, entry))
    })
}

/// Templates of claims of which no node satisfies two: replicas run on different nodes.
fn once_per_node(
    input: &LintInput<'_>,
    devices: &mut Devices<'_>,
    templates: &[Claim<'_>],
    findings: &mut Findings,
) {
    for (subject, i, entry) in claims_of_pods(input) {
        let Some(name) = &entry.resource_claim_template_name else { continue };
        if subject.replicas.is_none_or(|n| n <= 1) || is_of_group(input, subject, entry) {
            continue;
        }
        let is_it = |claim: &&Claim<'_>| {
            claim.path == "spec.spec"
                && (claim.object.namespace, claim.object.name) == (subject.namespace(), name)
        };
        let Some(claim) = templates.iter().find(is_it) else { continue };
        // With alternatives, another device may do.
        let requests = claim.requests();
        let single = requests.iter().filter_map(|alternatives| match alternatives.as_slice() {
            [wanted] => Some(wanted),
            _ => None,
        });
        let mut once = None;
        for wanted in single {
            once = most_of_node_for_one(devices, input, wanted).map(|most| (&wanted.name, most)).or(once);
        }
        if let Some((request, most)) = once {
            let path = subject.path(format!("spec.resourceClaims[{i}]"));
            let devices = if most == 1 { "1 device".to_owned() } else { format!("{most} devices") };
            let message = format!(
                "no node has devices for two replicas (request {request}: {devices} at most): each of the {} \
                 replicas needs a node of its own",
                subject.n_pods()
            );
            findings.add_one("claim-once-per-node", &subject.object, path, message);
        }
    }
}

/// The most devices of a node for a request, if they are enough for one claim and for no node enough for two.
fn most_of_node_for_one(
    devices: &mut Devices<'_>,
    input: &LintInput<'_>,
    wanted: &Wanted<'_>,
) -> Option<i64> {
    let selected = devices.selected(input, wanted)?;
    let can_be_shared = selected.iter().any(|shape| {
        shape.device.allow_multiple_allocations
            || !shape.device.consumes_counters.is_empty()
            || shape.by_node.contains_key(&None)
    });
    let mut by_node: HashMap<&str, usize> = HashMap::new();
    for (node, n) in selected.iter().flat_map(|shape| &shape.by_node) {
        *by_node.entry(node.unwrap_or_default()).or_default() += n;
    }
    let most = by_node.values().copied().max().unwrap_or(0) as i64;
    // A request for all devices leaves none.
    let count = wanted.count.unwrap_or(most);
    (!can_be_shared && most >= count && most < 2 * count).then_some(most)
}

/// Claims that more pods share than they may be reserved for.
fn shared_by_too_many(input: &LintInput<'_>, findings: &mut Findings) {
    let mut users: BTreeMap<(&str, &str), Vec<(&Subject<'_>, usize)>> = BTreeMap::new();
    for (subject, i, entry) in claims_of_pods(input) {
        if let Some(name) = &entry.resource_claim_name
            && !is_of_group(input, subject, entry)
        {
            users.entry((subject.namespace(), name)).or_default().push((subject, i));
        }
    }
    for ((_, name), users) in users {
        let n_pods: i64 = users.iter().map(|(subject, _)| n_pods(input, subject)).sum();
        if n_pods <= MAX_CONSUMERS as i64 {
            continue;
        }
        for (subject, i) in users {
            let path = subject.path(format!("spec.resourceClaims[{i}].resourceClaimName"));
            let message = format!(
                "{n_pods} pods share ResourceClaim {name}, which at most {MAX_CONSUMERS} pods may use at one time"
            );
            findings.add_one("claim-shared-by-too-many", &subject.object, path, message);
        }
    }
}

/// Of a DaemonSet, one for each node that it may run on.
fn n_pods(input: &LintInput<'_>, subject: &Subject<'_>) -> i64 {
    match subject.replicas {
        None if !input.nodes.is_empty() => input.nodes.eligible(subject).nodes.len() as i64,
        _ => subject.n_pods(),
    }
}

#[cfg(test)]
mod tests {
    use super::attributes;

    #[test]
    fn attributes_are_found_in_expressions() {
        for (expression, expected) in [
            ("device.attributes[\"a.io\"].model == 'x'", vec!["a.io/model"]),
            ("device.attributes['a.io'].x && !device.attributes['a.io'].x", vec!["a.io/x"]),
            ("device.driver == 'a.io'", vec![]),
            ("device.attributes[device.driver].model == 'x'", vec![]),
            ("device.attributes['a.io'].size() > 1", vec![]),
        ] {
            assert_eq!(attributes(expression), expected, "{expression}");
        }
    }
}
