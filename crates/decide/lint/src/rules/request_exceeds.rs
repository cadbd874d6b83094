//! Requests that no node can satisfy, even when it is empty.

use berth_api::object::Taint;
use berth_api::syntax::quantity::with_unit;
use berth_rules::{TaintEffect, pod_requests};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{Eligible, allocatable};
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let Eligible { nodes: eligible, matching, sizes, .. } = &*input.nodes.eligible(subject);
        let requests = &subject.pod.rules.requests;
        let names: Vec<String> = pod_requests(&subject.pod.object.spec).into_keys().collect();
        let names: Vec<&String> = names.iter().filter(|name| requests.amount(name) > 0).collect();
        let has = |i: usize, name: &str| allocatable(input.nodes.get(i), name) >= requests.amount(name);
        let fits = |i: &usize| names.iter().all(|name| has(*i, name));
        if sizes.is_empty() || sizes.iter().any(fits) {
            continue;
        }
        if let Some(message) = tainted(input, subject, matching, &fits) {
            findings.add(&subject.object, subject.path("spec.tolerations"), message);
            continue;
        }
        let nodes = match eligible.len() {
            1 => "the only node that the pod may run on".to_owned(),
            n => format!("the largest of {n} nodes that the pod may run on"),
        };
        let lacking: Vec<_> = names.iter().filter(|name| !sizes.iter().any(|i| has(*i, name))).collect();
        for name in &lacking {
            let most = sizes.iter().map(|i| allocatable(input.nodes.get(*i), name)).max().unwrap_or(0);
            let (requested, most) = (with_unit(name, requests.amount(name)), with_unit(name, most));
            let message = format!("the pod requests {requested} {name}, and {nodes} has {most}");
            findings.add(&subject.object, subject.path(request_path(subject, name)), message);
        }
        if lacking.is_empty() {
            let names: Vec<_> = names.iter().map(|name| name.as_str()).collect();
            let message = format!(
                "none of the {} nodes that the pod may run on has enough of {} together",
                eligible.len(),
                names.join(" and ")
            );
            findings.add(&subject.object, subject.path("spec.containers[0].resources.requests"), message);
        }
    }
}

/// Whether nodes that are large enough have a taint that the pod does not tolerate: they are nearer than those that it may run on.
fn tainted(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    matching: &[usize],
    fits: &impl Fn(&usize) -> bool,
) -> Option<String> {
    let mut large = matching.iter().filter(|i| input.work.spend(1) && fits(i));
    let first = *large.next()?;
    let forbids = |taint: &&Taint| {
        TaintEffect::parse(&taint.effect).forbids_scheduling()
            && !subject.pod.rules.tolerations.tolerate(taint)
    };
    let Taint { key, effect, .. } = input.nodes.get(first).spec.taints.iter().find(forbids)?;
    Some(match large.count() {
        0 => format!(
            "the only node that is large enough has the taint {key}:{effect}, which the pod does not tolerate"
        ),
        n => format!(
            "the {} nodes that are large enough have taints that the pod does not tolerate, such as {key}:{effect}",
            n + 1
        ),
    })
}

/// The request of the container that requests most.
fn request_path(subject: &Subject<'_>, name: &str) -> String {
    let spec = &subject.pod.object.spec;
    let amount = |container: &berth_api::object::Container| {
        container.resources.requests.get(name).map(|quantity| quantity.millis())
    };
    let lists = [("initContainers", &spec.init_containers), ("containers", &spec.containers)];
    let all =
        lists.into_iter().flat_map(|(field, list)| list.iter().enumerate().map(move |(i, c)| (field, i, c)));
    let largest = all.max_by_key(|(_, _, container)| amount(container));
    match largest {
        Some((field, i, container)) if amount(container).is_some() => {
            let written = &if field == "containers" {
                &subject.written.spec.containers
            } else {
                &subject.written.spec.init_containers
            }[i];
            let list = if written.resources.requests.contains_key(name) { "requests" } else { "limits" };
            format!("spec.{field}[{i}].resources.{list}[{name}]")
        }
        _ => format!("spec.resources.requests[{name}]"),
    }
}
