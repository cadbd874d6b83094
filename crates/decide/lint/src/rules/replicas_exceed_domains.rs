//! More replicas than anti-affinity or a spread constraint leaves domains for.

use berth_api::rules::{TopologyScope, WhenUnsatisfiable};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::listed_values;
use crate::subject::Subject;
use crate::terms::set;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        // A DaemonSet has a pod on each node.
        let eligible = input.nodes.eligible(&subject.rules);
        let replicas = subject.replicas.unwrap_or(eligible.nodes.len() as i64);
        let replicas_field = if subject.replicas.is_some() { "replicas" } else { "pods" };
        for (path, key, per_domain) in input.limits_per_domain(subject) {
            let Some((n_domains, where_from)) = n_domains(input, subject, &key) else { continue };
            let most = n_domains as i64 * per_domain;
            if replicas > most && n_domains > 0 {
                let each = if per_domain == 1 { "one pod".to_owned() } else { format!("{per_domain} pods") };
                let message = format!(
                    "{replicas} {replicas_field}, and {n_domains} {} of {key} {where_from} with at most {each} each: {} \
                     cannot be placed",
                    if n_domains == 1 { "domain" } else { "domains" },
                    replicas - most
                );
                findings.add(&subject.object, subject.path(path), message).fix(format!(
                    "lower replicas to {most}, add domains of {key}, or make the rule preferred"
                ));
            }
        }
    }
}

/// The number of domains that a pod may go to, if it is known, and from where.
pub(crate) fn n_domains(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    key: &str,
) -> Option<(usize, &'static str)> {
    if input.nodes.is_empty() {
        return Some((
            listed_values(&subject.rules, key, &input.work)?.len(),
            "that the node affinity lists",
        ));
    }
    let eligible = input.nodes.eligible(&subject.rules);
    Some((input.nodes.domains_of(key, &eligible).len(), "that the pod may go to"))
}

impl LintInput<'_> {
    /// The rules by which a domain takes only a limited number of pods of a subject: path, topology key and number.
    pub(crate) fn limits_per_domain(&self, subject: &Subject<'_>) -> Vec<(String, String, i64)> {
        let mut limits = Vec::new();
        for term in &subject.rules.required_anti_affinity {
            if let TopologyScope::Key(key) = &term.topology
                && subject.is_in(&set(term), &self.namespaces)
            {
                limits.push((term.path.clone(), key.clone(), 1 + i64::from(term.limit)));
            }
        }
        for constraint in &subject.rules.spread_constraints {
            // With fewer domains than minDomains, the minimum over the domains counts as 0.
            let key = &constraint.topology_key;
            let is_short =
                n_domains(self, subject, key).is_some_and(|(n, _)| (n as i64) < constraint.min_domains);
            if constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule
                && is_short
                && subject.is_in(&subject.spread_set(constraint), &self.namespaces)
            {
                limits.push((constraint.path.clone(), key.clone(), constraint.max_skew));
            }
        }
        limits
    }
}
