//! Spread constraints with `DoNotSchedule`, at the time of each pod's placement.

use std::collections::BTreeMap;

use crate::naive::{selects, untolerated};
use berth_api::object::{Node, Pod, TopologySpreadConstraint};

use super::node_rules::accepts_node;
use super::pod_rules::Domains;
use super::{Findings, Placed, Rule};

pub struct Spreads {
    constraints: Vec<Spread>,
}

struct Spread {
    template: usize,
    constraint: TopologySpreadConstraint,
    /// Whether the pods and the domain of a node count. Indexed by node.
    counts: Vec<bool>,
}

fn required(pod: &Pod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    pod.spec.topology_spread_constraints.iter().filter(|c| c.when_unsatisfiable == "DoNotSchedule")
}

impl Spreads {
    /// The constraints of these templates; no nodes yet.
    pub fn of(templates: &[Pod]) -> Spreads {
        let of_one = |(template, pod)| {
            required(pod).map(move |constraint| Spread {
                template,
                constraint: constraint.clone(),
                counts: Vec::new(),
            })
        };
        Spreads { constraints: templates.iter().enumerate().flat_map(of_one).collect() }
    }

    /// Adds the next node.
    pub fn add(&mut self, node: &Node, templates: &[Pod]) {
        for Spread { template, constraint, counts } in &mut self.constraints {
            let pod = &templates[*template];
            let has_keys = required(pod).all(|c| node.metadata.labels.contains_key(&c.topology_key));
            let ignores_affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore");
            let honours_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
            counts.push(
                has_keys
                    && (ignores_affinity || accepts_node(pod, node))
                    && (!honours_taints || untolerated(pod, node, false).is_none()),
            );
        }
    }

    /// Checks every pod that has a constraint.
    pub fn check(&self, domains: &Domains, templates: &[Pod], placed: &[Placed], findings: &mut Findings) {
        for spread in &self.constraints {
            spread.check(domains, templates, placed, findings);
        }
    }
}

impl Spread {
    fn check(&self, domains: &Domains, templates: &[Pod], placed: &[Placed], findings: &mut Findings) {
        let Spread { template, constraint, counts } = self;
        let owner = &templates[*template];
        let is_counted: Vec<bool> = templates
            .iter()
            .map(|pod| {
                pod.metadata.namespace == owner.metadata.namespace
                    && selects(constraint.label_selector.as_ref(), &pod.metadata.labels)
            })
            .collect();
        let column = domains.column(&constraint.topology_key);
        // Number of pods by domain, `None` where no node counts; and number of domains by number of pods.
        let mut there: Vec<Option<u32>> = vec![None; column.len()];
        for (node, _) in counts.iter().enumerate().filter(|(_, counts)| **counts) {
            if let Some(domain) = column.of(node as u32) {
                there[domain] = Some(0);
            }
        }
        let n_domains = there.iter().flatten().count();
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        numbers.insert(0, n_domains);
        let has_too_few = constraint.min_domains.is_some_and(|min| (n_domains as i64) < i64::from(min));
        for p in placed {
            let domain = column.of(p.node);
            if p.template as usize == *template {
                let here = domain.and_then(|d| there[d]).unwrap_or(0) + u32::from(is_counted[*template]);
                let fewest = numbers.keys().next().copied().unwrap_or(0);
                let fewest = if has_too_few { 0 } else { fewest };
                let skew = i64::from(here) - i64::from(fewest);
                if domain.is_none() || skew > i64::from(constraint.max_skew) {
                    let key = &constraint.topology_key;
                    findings.add(Rule::TopologySpread, *p, || format!("skew {skew} by {key}"));
                }
            }
            if is_counted[p.template as usize]
                && counts[p.node as usize]
                && let Some(n) = domain.and_then(|d| there[d].as_mut())
            {
                if let Some(same) = numbers.get_mut(n) {
                    *same -= 1;
                    if *same == 0 {
                        numbers.remove(n);
                    }
                }
                *n += 1;
                *numbers.entry(*n).or_default() += 1;
            }
        }
    }
}
