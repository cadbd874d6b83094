//! Rules between pods: required affinity and anti-affinity.

use std::collections::{BTreeMap, HashMap};

use crate::naive::selects;
use berth_api::object::{Namespace, Node, Pod, PodAffinity, PodAffinityTerm, StringMap};

use super::{Findings, Placed, Rule};

/// The domains of nodes, by topology key.
#[derive(Default)]
pub struct Domains {
    columns: BTreeMap<String, Column>,
}

/// The domains of one topology key.
#[derive(Default)]
pub struct Column {
    numbers: HashMap<String, u32>,
    of_node: Vec<Option<u32>>,
}

impl Column {
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The domain of a node; none without the label.
    pub fn of(&self, node: u32) -> Option<usize> {
        self.of_node.get(node as usize).copied().flatten().map(|domain| domain as usize)
    }
}

impl Domains {
    /// Of the keys in required rules of these pods; no nodes yet.
    pub fn of(templates: &[Pod]) -> Domains {
        let terms = templates.iter().flat_map(|pod| affinity(pod).iter().chain(anti_affinity(pod)));
        let spreads = templates.iter().flat_map(|pod| &pod.spec.topology_spread_constraints);
        let keys = terms.map(|t| &t.topology_key).chain(spreads.map(|c| &c.topology_key));
        Domains { columns: keys.map(|key| (key.clone(), Column::default())).collect() }
    }

    /// Adds the next node.
    pub fn add(&mut self, node: &Node) {
        for (key, column) in &mut self.columns {
            let domain = node.metadata.labels.get(key).map(|value| match column.numbers.get(value) {
                Some(number) => *number,
                None => {
                    let number = column.numbers.len() as u32;
                    column.numbers.insert(value.clone(), number);
                    number
                }
            });
            column.of_node.push(domain);
        }
    }

    pub fn column(&self, key: &str) -> &Column {
        &self.columns[key]
    }
}

/// Checks affinity at the time of each pod's placement, and anti-affinity with all pods placed.
pub fn check(
    domains: &Domains,
    namespaces: &[Namespace],
    templates: &[Pod],
    placed: &[Placed],
    findings: &mut Findings,
) {
    for (index, pod) in templates.iter().enumerate() {
        let meant = |term: &PodAffinityTerm| -> Vec<bool> {
            templates.iter().map(|other| means(term, pod, other, namespaces)).collect()
        };
        for term in anti_affinity(pod) {
            check_anti_affinity(domains, index, term, &meant(term), placed, findings);
        }
        let terms = affinity(pod);
        if !terms.is_empty() {
            // A pod counts for any of the terms if all of them select it.
            let mut all = vec![true; templates.len()];
            for term in terms {
                all.iter_mut().zip(meant(term)).for_each(|(all, meant)| *all &= meant);
            }
            check_affinity(domains, index, terms, &all, placed, findings);
        }
    }
}

/// Whether a term of `pod` selects pods of template `other`.
fn means(term: &PodAffinityTerm, pod: &Pod, other: &Pod, namespaces: &[Namespace]) -> bool {
    let namespace = &other.metadata.namespace;
    let names = term.namespaces.as_deref().unwrap_or_default();
    let is_own =
        names.is_empty() && term.namespace_selector.is_none() && *namespace == pod.metadata.namespace;
    let is_selected = || {
        let labels = namespaces.iter().find(|n| n.metadata.name == *namespace).map(|n| &n.metadata.labels);
        selects(term.namespace_selector.as_ref(), labels.map_or(&StringMap::new(), |labels| labels))
    };
    selects(term.label_selector.as_ref(), &other.metadata.labels)
        && (is_own || names.contains(namespace) || is_selected())
}

fn check_anti_affinity(
    domains: &Domains,
    index: usize,
    term: &PodAffinityTerm,
    meant: &[bool],
    placed: &[Placed],
    findings: &mut Findings,
) {
    let column = domains.column(&term.topology_key);
    let mut there = vec![0_u32; column.len()];
    let concerned = placed.iter().filter(|p| meant[p.template as usize]);
    concerned.filter_map(|p| column.of(p.node)).for_each(|domain| there[domain] += 1);
    for p in placed.iter().filter(|p| p.template as usize == index) {
        let Some(domain) = column.of(p.node) else { continue };
        // A pod does not conflict with itself.
        let others = there[domain] - u32::from(meant[index]);
        if others > 0 {
            findings.add(Rule::PodAntiAffinity, *p, || format!("{others} others by {}", term.topology_key));
        }
    }
}

fn check_affinity(
    domains: &Domains,
    index: usize,
    terms: &[PodAffinityTerm],
    meant: &[bool],
    placed: &[Placed],
    findings: &mut Findings,
) {
    let columns: Vec<_> = terms.iter().map(|t| domains.column(&t.topology_key)).collect();
    let mut there: Vec<_> = columns.iter().map(|column| vec![false; column.len()]).collect();
    let mut anywhere = false;
    for p in placed {
        if p.template as usize == index {
            let lacks_key = columns.iter().any(|column| column.of(p.node).is_none());
            let near = |(column, there): (&&Column, &Vec<bool>)| column.of(p.node).is_some_and(|d| there[d]);
            let is_near = columns.iter().zip(&there).all(near);
            let is_first = !anywhere && meant[index];
            if lacks_key || !(is_near || is_first) {
                let key = terms.first().map_or("", |t| &t.topology_key);
                findings.add(Rule::PodAffinity, *p, || format!("no pod to be near to by {key}"));
            }
        }
        if meant[p.template as usize] {
            for (column, there) in columns.iter().zip(&mut there) {
                if let Some(domain) = column.of(p.node) {
                    there[domain] = true;
                    anywhere = true;
                }
            }
        }
    }
}

fn affinity(pod: &Pod) -> &[PodAffinityTerm] {
    required(pod.spec.affinity.as_ref().and_then(|a| a.pod_affinity.as_ref()))
}

fn anti_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    required(pod.spec.affinity.as_ref().and_then(|a| a.pod_anti_affinity.as_ref()))
}

fn required(affinity: Option<&PodAffinity>) -> &[PodAffinityTerm] {
    affinity.map_or(&[], |a| &a.required_during_scheduling_ignored_during_execution)
}
