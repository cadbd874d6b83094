//! LimitRanger: the LimitRanges of a namespace give containers default requests and limits, and bound those of containers,
//! pods and claims. Rules and messages are those of kube-apiserver's admission plugin of this name.

use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{Container, LimitRange, LimitRangeItem, Pod, ResourceList};
use berth_rules::{pod_limits, pod_requests};

/// The annotation of pods that got default amounts.
pub const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The defaults of a limit of containers: the default limit is the maximum, the default request the default limit, or else the
/// minimum.
pub fn complete(limit: &mut LimitRangeItem) {
    if limit.kind != "Container" {
        return;
    }
    let add = |to: &mut ResourceList, from: &ResourceList| {
        for (name, amount) in from {
            to.entry(name.clone()).or_insert(*amount);
        }
    };
    add(&mut limit.default, &limit.max);
    add(&mut limit.default_request, &limit.default);
    add(&mut limit.default_request, &limit.min);
}

fn limits_of<'a>(ranges: &'a [LimitRange], kind: &str) -> impl Iterator<Item = &'a LimitRangeItem> {
    ranges.iter().flat_map(|range| &range.spec.limits).filter(move |limit| limit.kind == kind)
}

/// Sets requests and limits that the containers of a new pod lack, by the LimitRanges of its namespace in the order of their names.
/// Returns what [`ANNOTATION`] says then.
pub fn set_defaults(ranges: &[LimitRange], pod: &mut Pod) -> Option<String> {
    let missing = |container: &Container| {
        let lacks = |given: &ResourceList, amounts: &ResourceList| {
            amounts.keys().any(|name| !given.contains_key(name))
        };
        limits_of(ranges, "Container").any(|limit| {
            lacks(&container.resources.requests, &limit.default_request)
                || lacks(&container.resources.limits, &limit.default)
        })
    };
    if !pod.spec.containers.iter().chain(pod.spec.init_containers.iter()).any(missing) {
        return None;
    }
    let mut report = Vec::new();
    let spec = &mut *pod.spec;
    let containers = spec.containers.iter_mut().map(|container| (container, "container"));
    let init_containers = spec.init_containers.iter_mut().map(|container| (container, "init container"));
    for (container, title) in containers.chain(init_containers) {
        for word in ["request", "limit"] {
            let mut set = Vec::new();
            for limit in limits_of(ranges, "Container") {
                let resources = &mut container.resources;
                let (given, defaults) = match word {
                    "request" => (&mut resources.requests, &limit.default_request),
                    _ => (&mut resources.limits, &limit.default),
                };
                for (name, amount) in defaults {
                    if !given.contains_key(name) {
                        given.insert(name.clone(), *amount);
                        set.push(name.as_str());
                    }
                }
            }
            if !set.is_empty() {
                report.push(format!("{} {word} for {title} {}", set.join(", "), container.name));
            }
        }
    }
    Some(format!("LimitRanger plugin set: {}", report.join("; ")))
}

/// Refuses a pod beyond the limits of its namespace.
///
/// # Errors
/// It is beyond them: the message of the admission plugin.
pub fn check(ranges: &[LimitRange], pod: &Pod) -> Result<(), String> {
    let mut problems = Vec::new();
    let spec = &pod.spec;
    for limit in ranges.iter().flat_map(|range| &range.spec.limits) {
        match limit.kind.as_str() {
            "Container" => {
                for container in spec.containers.iter().chain(spec.init_containers.iter()) {
                    let resources = &container.resources;
                    check_amounts(limit, &resources.requests, &resources.limits, &mut problems);
                }
            }
            "Pod" => check_amounts(limit, &pod_requests(spec), &pod_limits(spec), &mut problems),
            _ => {}
        }
    }
    refuse(problems)
}

/// Refuses a claim beyond the limits of its namespace. Claims have requests only.
///
/// # Errors
/// It is beyond them: the message of the admission plugin.
pub fn check_claim(ranges: &[LimitRange], claim: &PersistentVolumeClaim) -> Result<(), String> {
    let mut problems = Vec::new();
    let requests = &claim.spec.resources.requests;
    for limit in limits_of(ranges, "PersistentVolumeClaim") {
        check_least(limit, requests, &ResourceList::new(), &mut problems);
        for (name, most) in &limit.max {
            let bound = format!("maximum {name} usage per {} is {most}", limit.kind);
            match requests.get(name) {
                None => problems.push(format!("{bound}.  No request is specified")),
                Some(request) if request > most => {
                    problems.push(format!("{bound}, but request is {request}"));
                }
                Some(_) => {}
            }
        }
    }
    refuse(problems)
}

fn refuse(problems: Vec<String>) -> Result<(), String> {
    match problems.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn check_amounts(
    limit: &LimitRangeItem,
    requests: &ResourceList,
    limits: &ResourceList,
    problems: &mut Vec<String>,
) {
    check_least(limit, requests, limits, problems);
    let kind = &limit.kind;
    for (name, most) in &limit.max {
        let bound = format!("maximum {name} usage per {kind} is {most}");
        match (limits.get(name), requests.get(name)) {
            (None, _) => problems.push(format!("{bound}.  No limit is specified")),
            (Some(limit), _) if limit > most => problems.push(format!("{bound}, but limit is {limit}")),
            (_, Some(request)) if request > most => {
                problems.push(format!("{bound}, but request is {request}"));
            }
            _ => {}
        }
    }
    for (name, most) in &limit.max_limit_request_ratio {
        let bound = format!("{name} max limit to request ratio per {kind} is {most}");
        let amount = |list: &ResourceList| list.get(name).map_or(0, |quantity| quantity.millis());
        let (limit, request) = (amount(limits), amount(requests));
        if request == 0 {
            problems.push(format!("{bound}, but no request is specified or request is 0"));
        } else if limit == 0 {
            problems.push(format!("{bound}, but no limit is specified or limit is 0"));
        } else {
            let ratio = limit as f64 / request as f64;
            if ratio > most.millis() as f64 / 1000.0 {
                problems.push(format!("{bound}, but provided ratio is {ratio:.6}"));
            }
        }
    }
}

fn check_least(
    limit: &LimitRangeItem,
    requests: &ResourceList,
    limits: &ResourceList,
    problems: &mut Vec<String>,
) {
    for (name, least) in &limit.min {
        let bound = format!("minimum {name} usage per {} is {least}", limit.kind);
        match (requests.get(name), limits.get(name)) {
            (None, _) => problems.push(format!("{bound}.  No request is specified")),
            (Some(request), _) if request < least => {
                problems.push(format!("{bound}, but request is {request}"));
            }
            (_, Some(limit)) if limit < least => problems.push(format!("{bound}, but limit is {limit}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The requests and limits of the only container once it is created, or why it is not.
    fn created(limits: Value, resources: Value) -> Result<Value, String> {
        let mut range: LimitRange = serde_json::from_value(json!({"spec": {"limits": limits}})).unwrap();
        range.spec.limits.iter_mut().for_each(complete);
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
        let mut pod: Pod = serde_json::from_value(pod).unwrap();
        let ranges = [range];
        set_defaults(&ranges, &mut pod);
        check(&ranges, &pod)?;
        Ok(serde_json::to_value(&pod.spec.containers[0].resources).unwrap())
    }

    #[test]
    fn containers_get_defaults_and_are_bounded() {
        let cpu = |amount: &str| json!({ "cpu": amount });
        let container = |mut fields: Value| {
            fields["type"] = "Container".into();
            json!([fields])
        };
        for (limits, resources, expected) in [
            (json!([]), json!({}), Ok(json!({}))),
            (
                container(json!({"max": cpu("2")})),
                json!({}),
                Ok(json!({"requests": cpu("2"), "limits": cpu("2")})),
            ),
            (
                container(json!({"default": cpu("2"), "defaultRequest": cpu("1")})),
                json!({"requests": cpu("1500m")}),
                Ok(json!({"requests": cpu("1500m"), "limits": cpu("2")})),
            ),
            (container(json!({"min": cpu("1")})), json!({}), Ok(json!({"requests": cpu("1")}))),
            (
                container(json!({"min": cpu("1")})),
                json!({"requests": cpu("500m")}),
                Err("minimum cpu usage per Container is 1, but request is 500m"),
            ),
            (
                container(json!({"maxLimitRequestRatio": cpu("2")})),
                json!({"requests": cpu("1"), "limits": cpu("3")}),
                Err("cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"),
            ),
            (
                json!([{"type": "Pod", "max": cpu("2")}]),
                json!({"requests": cpu("1")}),
                Err("maximum cpu usage per Pod is 2.  No limit is specified"),
            ),
        ] {
            let created = created(limits.clone(), resources);
            assert_eq!(
                created.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e),
                "{limits}"
            );
        }
    }
}
