//! Hard spread constraints that stop the pods of a workload alone on the nodes of the input: a domain that counts and takes no more pods
//! keeps the minimum where it is.

use std::collections::{BTreeMap, HashSet};

use berth_api::object::{Node, Pod, ResourceList, Taint};
use berth_api::syntax::quantity::Quantity;
use berth_engine::{Cluster, PreparedPod};
use berth_rules::{SpreadConstraint, WhenUnsatisfiable};

use crate::domain_limit::{DomainLimit, capacity};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{Closed, is_condition, offered};
use crate::rollout::with_requests;
use crate::severity::Severity;
use crate::subject::Subject;

/// The taint of cordoned nodes.
const CORDON: &str = "node.kubernetes.io/unschedulable";
/// Number of domains named in a message.
const MAX_NAMED: usize = 3;

/// How far the pods of a workload came.
struct Stop<'s> {
    /// The pods that run or fit.
    n_placed: i64,
    /// The nodes of all pods that the constraint counts.
    nodes: Vec<String>,
    /// The constraint without which another pod fits.
    constraint: &'s SpreadConstraint,
}

/// Reports the constraint that stops the pods of a subject, if rules about nodes and between pods leave room for more.
pub(super) fn spread_stops(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    limits: &[DomainLimit],
    findings: &mut Findings,
) {
    let Some(replicas) = subject.replicas.filter(|_| subject.pod.object.spec.node_name.is_empty()) else {
        return;
    };
    let is_hard = |constraint: &&SpreadConstraint| {
        constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
            && subject.others_are_in(&subject.spread_set(constraint), &input.namespaces)
    };
    let hard: Vec<_> = subject.pod.rules.spread_constraints.iter().filter(is_hard).collect();
    let eligible = input.nodes.eligible(subject);
    let is_small = |i: &usize| capacity(input.nodes.get(*i), subject) < replicas;
    let may_stop = hard.iter().any(|constraint| replicas > constraint.max_skew)
        && !eligible.nodes.is_empty()
        && (hard.len() > 1
            || !limits.is_empty()
            || !subject.pod.rules.host_ports.is_empty()
            || eligible.sizes.iter().any(is_small)
            || hard.iter().any(|constraint| input.nodes.has_closed_domain(&eligible, constraint)));
    if !may_stop {
        return;
    }
    let Some(Stop { n_placed, nodes, constraint }) = place(input, subject, &hard, replicas) else { return };
    let (key, max_skew) = (&constraint.topology_key, constraint.max_skew);
    let keys: Vec<_> = hard.iter().map(|constraint| constraint.topology_key.as_str()).collect();
    let domains = input.nodes.counted(&eligible, constraint, &keys);
    let mut n_pods: BTreeMap<&str, usize> = domains.keys().map(|domain| (*domain, 0)).collect();
    let domain_of: BTreeMap<&str, &str> = input
        .nodes
        .all()
        .iter()
        .filter_map(|node| Some((node.metadata.name.as_str(), node.metadata.label(key)?)))
        .collect();
    for node in &nodes {
        domain_of.get(node.as_str()).into_iter().for_each(|domain| *n_pods.entry(domain).or_default() += 1);
    }
    let Some(least) = n_pods.values().copied().min() else { return };
    let lowest: Vec<&str> = n_pods.iter().filter(|(_, n)| **n == least).map(|(domain, _)| *domain).collect();
    let why = lowest.iter().find_map(|domain| domains.get(domain).copied().flatten());
    let at_least = |n: usize| if n == 1 { "1 pod".to_owned() } else { format!("{n} pods") };
    let state = match why {
        None if least == 0 => "and its nodes have no room for a pod".to_owned(),
        None => format!("and its nodes have room for {} only", at_least(least)),
        Some(Closed::Cordoned) => "and its nodes are cordoned".to_owned(),
        Some(Closed::Tainted) => "and its nodes have taints that the pods do not tolerate".to_owned(),
        Some(Closed::Excluded) => "and the node affinity excludes its nodes".to_owned(),
    };
    let more = match lowest.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let message = format!(
        "{replicas} replicas, and {n_placed} fit: {key} {}{more} counts, {state}, so that each other domain takes at most maxSkew ({max_skew}) \
         more than its {}: {} cannot be placed",
        lowest[..lowest.len().min(MAX_NAMED)].join(", "),
        at_least(least),
        replicas - n_placed
    );
    let remedy = match why {
        Some(Closed::Cordoned) => "uncordon the nodes, set nodeTaintsPolicy: Honor in the constraint",
        Some(Closed::Tainted) => "set nodeTaintsPolicy: Honor in the constraint",
        Some(Closed::Excluded) => "remove nodeAffinityPolicy: Ignore from the constraint",
        None => "request less, add nodes to the domain",
    };
    let finding = findings.add(&subject.object, subject.path(&constraint.path), message);
    finding.fix(format!("{remedy}, lower replicas to {n_placed}, or set whenUnsatisfiable: ScheduleAnyway"));
    if why == Some(Closed::Cordoned) {
        finding.severity(Severity::Warning);
    }
}

/// Places the pods that do not run, one after the other.
fn place<'s>(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    hard: &[&'s SpreadConstraint],
    replicas: i64,
) -> Option<Stop<'s>> {
    let n_replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
    if !input.work.spend(input.nodes.all().len() + input.inventory.pods.len())
        || !input.spend_placements(subject, n_replicas, 0)
    {
        return None;
    }
    let scheduler = &input.settings.config.profiles[0].scheduler_name;
    let mut guard = input.given_cluster.borrow_mut();
    let cluster = guard.get_or_insert_with(|| input.nodes_alone(given));
    let (mut placed, mut nodes, mut n_placed) = (Vec::new(), Vec::new(), 0);
    let mut running = running(input, subject, hard);
    // A pod that runs has its room; those of others only count.
    for (i, (pod, is_own)) in running.drain(..).enumerate() {
        let mut counted = match is_own {
            true => with_requests(&subject.pod.object, "", scheduler),
            false => Pod::default(),
        };
        counted.metadata = pod.metadata.clone();
        counted.metadata.name = format!("running-{i}");
        let prepared = cluster.prepare(&counted);
        if cluster.assume(&prepared, &pod.spec.node_name) {
            n_placed += usize::from(is_own);
            nodes.push(pod.spec.node_name.clone());
        }
        placed.push(prepared);
    }
    let mut stopped = false;
    while n_placed < n_replicas && !stopped {
        let pod = cluster.prepare(&with_requests(&subject.pod.object, &format!("new-{n_placed}"), scheduler));
        match cluster.place(&pod).node() {
            Some(node) => nodes.push(node.to_owned()),
            None => stopped = true,
        }
        if !stopped {
            n_placed += 1;
            placed.push(pod);
        }
    }
    let constraint = stopped.then(|| stopping(input, cluster, subject, hard)).flatten();
    placed.iter().for_each(|pod| cluster.forget(pod));
    constraint.map(|constraint| Stop { n_placed: n_placed as i64, nodes, constraint })
}

/// The running pods that a constraint counts, and whether each is of the subject.
fn running<'i>(
    input: &LintInput<'i>,
    subject: &Subject<'_>,
    hard: &[&SpreadConstraint],
) -> Vec<(&'i Pod, bool)> {
    let sets: Vec<_> = hard.iter().map(|constraint| subject.spread_set(constraint)).collect();
    let pods = input.inventory.pods.iter().map(|entry| &entry.object);
    let counts = |pod: &&Pod| {
        pod.metadata.namespace == subject.namespace()
            && !pod.spec.node_name.is_empty()
            && !pod.is_terminal()
            && !pod.metadata.is_deleting()
    };
    let of_subject = |pod: &Pod| input.owners.owner(pod) == Some(subject.shown());
    let found = pods.filter(counts).map(|pod| (pod, of_subject(pod)));
    let is_in = |pod: &Pod| {
        sets.iter().any(|set| set.contains(&pod.metadata.namespace, &pod.metadata.labels, &input.namespaces))
    };
    found.filter(|(pod, is_own)| *is_own || is_in(pod)).collect()
}

/// The constraint without which another pod fits; the first one if only without all of them one does.
fn stopping<'s>(
    input: &LintInput<'_>,
    cluster: &mut Cluster,
    subject: &Subject<'_>,
    hard: &[&'s SpreadConstraint],
) -> Option<&'s SpreadConstraint> {
    let scheduler = &input.settings.config.profiles[0].scheduler_name;
    let mut without = |left_out: &[&SpreadConstraint]| {
        if !input.spend_placements(subject, 1, input.nodes.all().len()) {
            return false;
        }
        let left_out: HashSet<&str> = left_out.iter().map(|constraint| constraint.path.as_str()).collect();
        let mut pod = with_requests(&subject.pod.object, "another", scheduler);
        let mut i = 0..;
        pod.spec.topology_spread_constraints.retain(|_| {
            i.next().is_none_or(|i: usize| {
                !left_out.contains(format!("spec.topologySpreadConstraints[{i}]").as_str())
            })
        });
        let pod: PreparedPod = cluster.prepare(&pod);
        cluster.fits_anywhere(&pod)
    };
    let one = hard.iter().find(|constraint| without(&[**constraint]));
    one.or_else(|| hard.first().filter(|_| without(hard))).copied()
}

/// The node as it is, without the taints that end by themselves, with that of a cordon. What it does not state, it has.
fn given(node: &Node) -> Node {
    let mut node = node.clone();
    node.spec.taints.retain(|taint| !is_condition(&taint.key));
    if node.spec.unschedulable {
        let (key, effect) = (CORDON.to_owned(), "NoSchedule".to_owned());
        node.spec.taints.push(Taint { key, effect, ..Taint::default() });
    }
    let many = |name: &str| (name.to_owned(), Quantity::from_units(1 << 20));
    let names = ["cpu", "memory", "ephemeral-storage", "pods"];
    let mut allocatable = offered(&node).cloned().unwrap_or_else(|| ResourceList::from(names.map(many)));
    allocatable.entry("pods".to_owned()).or_insert(Quantity::from_units(1 << 20));
    node.status.allocatable = Some(allocatable);
    node
}
