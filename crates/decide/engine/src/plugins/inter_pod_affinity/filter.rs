//! Required inter-pod affinity and anti-affinity: the filter.

use berth_input::config::Plugin;
use berth_rules::PodTerm;
use smallvec::SmallVec;

use super::super::rule::{Filter, PreFilter, TermInfo};
use super::existing::{Existing, existing_anti_affinity};
use super::terms::{REASON_AFFINITY, REASON_ANTI_AFFINITY, rejects, requires_together};
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counting::counter::{Counter, Tally};
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::rule_set::RequiredTerm;
use crate::verdict::witness::{DomainOf, WitnessCache};
use crate::verdict::{Counts, Rejection, Status, Verdict};

const REASON_EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// A pod with an invalid term is unschedulable.
pub(super) fn pre_filter(context: Context<'_>) -> PreFilter {
    match &context.rule_set.rules().pod_term_error {
        None => PreFilter::AllNodes,
        Some(error) => PreFilter::Rejected(Rejection {
            plugin: Plugin::InterPodAffinity,
            status: Status::UnschedulableAndUnresolvable,
            reasons: [format!("parsing pod: {error}").into()].into_iter().collect(),
        }),
    }
}

struct RequiredPodAffinity<'a> {
    context: Context<'a>,
    affinity: Vec<Requirement<'a>>,
    anti_affinity: Vec<Term<'a>>,
    /// Terms of existing pods that match the pod.
    existing: Vec<Existing<'a>>,
    witnesses: WitnessCache,
}

/// Terms of required affinity that hold together: all of v1, or one of the proposals.
struct Requirement<'a> {
    /// Whether the pod matches the terms itself.
    matches_itself: bool,
    /// Whether no existing pod matches them. A pod that matches itself is then the first of its group.
    no_pod_matches: bool,
    terms: Vec<Term<'a>>,
}

/// A required term with the counters of its topologies.
struct Term<'a> {
    term: &'a PodTerm,
    matcher: MatcherId,
    counters: Vec<(TopologyId, &'a Counter)>,
    /// Of affinity: the pods whose existence means that the pod is not the first of its group.
    group: Vec<(TopologyId, &'a Counter)>,
}

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    let Context { state, rule_set, cycle, .. } = context;
    let rules = rule_set.rules();
    let matched = &state.signatures.get(cycle.signature).matched;
    let requirement = |compiled| {
        let terms = terms(state, compiled, &rules.required_affinity);
        let matches_itself = terms.first().is_some_and(|t| matched.binary_search(&t.matcher).is_ok());
        let no_pod_matches = terms.iter().all(|t| t.group.iter().all(|(_, c)| c.is_empty()));
        Requirement { matches_itself, no_pod_matches, terms }
    };
    let affinity: Vec<_> = rule_set.affinity_requirements().map(requirement).collect();
    let anti_affinity = terms(state, &rule_set.required_anti_affinity, &rules.required_anti_affinity);
    let (mut existing, of_nominated): (Vec<_>, Vec<_>) =
        existing_anti_affinity(context).partition(|e| !e.owners.is_empty());
    // kube-scheduler skips the plugin then: the terms of nominated pods alone exclude nothing.
    if affinity.is_empty() && anti_affinity.is_empty() && existing.is_empty() {
        return None;
    }
    existing.extend(of_nominated.into_iter().filter(|_| !cycle.nominated.is_empty()));
    let witnesses = WitnessCache::default();
    Some(Box::new(RequiredPodAffinity { context, affinity, anti_affinity, existing, witnesses }))
}

fn terms<'a>(state: &'a State, compiled: &'a [RequiredTerm], terms: &'a [PodTerm]) -> Vec<Term<'a>> {
    let term = |required: &'a RequiredTerm| {
        let matcher = state.matchers.get(required.matcher);
        let counters = |topologies: &[TopologyId]| {
            topologies.iter().filter_map(|t| Some((*t, matcher.matching_in(*t)?))).collect()
        };
        let (counters, group) = (counters(&required.topologies), counters(&required.group_topologies));
        Term { term: &terms[required.index], matcher: required.matcher, counters, group }
    };
    compiled.iter().map(term).collect()
}

impl Term<'_> {
    /// The domains of the node in which more pods match than the limit of the term.
    fn matching_domains(
        &self,
        state: &State,
        node: NodeRef<'_>,
    ) -> impl Iterator<Item = (TopologyId, DomainId, i64)> {
        let domains = self.counters.iter().filter_map(move |(topology, counter)| {
            let domain = state.topologies.domain(*topology, node.id)?;
            let more = node.more_matching_in(state, self.matcher, *topology);
            Some((*topology, domain, counter.get(domain).count + more))
        });
        let limit = i64::from(self.term.limit);
        domains.filter(move |(.., n_pods)| *n_pods > limit)
    }

    /// Whether no pod of the cluster matches; the pods of `node` are those of the [`NodeRef`].
    fn is_matched_by_no_pod(&self, state: &State, node: NodeRef<'_>) -> bool {
        let more = node.more_matching(self.matcher);
        if node.elsewhere().next().is_some() {
            return self.group.iter().all(|(topology, counter)| {
                let nodes = node.elsewhere().map(|(id, delta)| (id, delta.matching(self.matcher)));
                let nodes = nodes.chain([(node.id, more)]);
                let nodes = nodes.filter(|(id, _)| state.topologies.domain(*topology, *id).is_some());
                let more: i64 = nodes.map(|(_, more)| more).sum();
                counter.iter().map(|(_, tally)| tally.count).sum::<i64>() + more == 0
            });
        }
        self.group.iter().all(|(topology, counter)| match state.topologies.domain(*topology, node.id) {
            Some(domain) if more != 0 => {
                let here = counter.get(domain).count;
                here + more == 0 && counter.n_domains() == usize::from(here > 0)
            }
            _ => counter.is_empty(),
        })
    }

    /// Whether the node is in a domain of the term's topology at all.
    fn has_domain(&self, state: &State, node: NodeId) -> bool {
        self.counters.iter().any(|(topology, _)| state.topologies.domain(*topology, node).is_some())
    }
}

impl Requirement<'_> {
    /// Whether the pod is the first of its group: it matches the terms, and no other pod does.
    fn is_first_of_group(&self, state: &State, node: NodeRef<'_>) -> bool {
        let no_pod_matches = || match node.delta {
            None => self.no_pod_matches,
            Some(_) => self.terms.iter().all(|t| t.is_matched_by_no_pod(state, node)),
        };
        self.matches_itself && no_pod_matches()
    }

    fn is_satisfied(&self, state: &State, node: NodeRef<'_>) -> bool {
        self.terms.iter().all(|t| t.has_domain(state, node.id))
            && (self.is_first_of_group(state, node)
                || self.terms.iter().all(|t| t.matching_domains(state, node).next().is_some()))
    }

    fn describe(&self, term: &Term<'_>) -> String {
        requires_together(term.term, self.terms.len())
    }
}

impl<'a> RequiredPodAffinity<'a> {
    fn affinity_terms(&self) -> impl Iterator<Item = &Term<'a>> {
        self.affinity.iter().flat_map(|requirement| &requirement.terms)
    }

    fn satisfies_pod_affinity(&self, node: NodeRef<'_>) -> bool {
        self.affinity.iter().all(|requirement| requirement.is_satisfied(self.context.state, node))
    }

    fn satisfies_pod_anti_affinity(&self, node: NodeRef<'_>) -> bool {
        let state = self.context.state;
        self.anti_affinity.iter().all(|t| t.matching_domains(state, node).next().is_none())
    }

    /// Terms of existing pods that the pod would violate on the node.
    fn violated_existing(
        &self,
        node: NodeRef<'_>,
    ) -> impl Iterator<Item = (&Existing<'_>, DomainId, Tally, i64)> {
        self.existing.iter().filter_map(move |existing| {
            let (domain, owners, n_matching) = existing.violated(self.context.state, node)?;
            Some((existing, domain, owners, n_matching))
        })
    }
}

impl Filter for RequiredPodAffinity<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let (status, reason) = if !self.satisfies_pod_affinity(node) {
            (Status::UnschedulableAndUnresolvable, REASON_AFFINITY)
        } else if !self.satisfies_pod_anti_affinity(node) {
            (Status::Unschedulable, REASON_ANTI_AFFINITY)
        } else if self.violated_existing(node).next().is_some() {
            (Status::Unschedulable, REASON_EXISTING)
        } else {
            return None;
        };
        Some(Rejection::new(Plugin::InterPodAffinity, status, reason))
    }

    /// Without the terms of existing pods, which appear in the verdicts of the nodes that they reject.
    fn shared_topologies(&self) -> SmallVec<[TopologyId; 2]> {
        let own = self.affinity_terms().chain(&self.anti_affinity).flat_map(|t| &t.counters).map(|(t, _)| *t);
        let existing = self.existing.iter().map(|e| e.topology);
        own.chain(existing).filter(|t| self.context.state.topologies.is_shared(*t)).collect()
    }

    fn inputs(&self, node: NodeId, max_pods: i64, inputs: &mut Vec<i64>) {
        let topologies = &self.context.state.topologies;
        let tally = |topology: TopologyId, counter: &Counter| {
            let domain = topologies.is_shared(topology).then(|| topologies.domain(topology, node))?;
            Some(domain.map_or(Tally { count: -1, weight: -1 }, |domain| counter.get(domain)))
        };
        // More pods than may leave the node are as good as any number.
        let count = |topology, counter, limit: u32| {
            Some(tally(topology, counter)?.count.min(max_pods + i64::from(limit)))
        };
        for term in self.affinity_terms() {
            // Whether no pod matches, or those of one domain only: the node may be in it.
            inputs.extend(term.group.iter().map(|(_, counter)| counter.n_domains().min(2) as i64));
            inputs.extend(term.counters.iter().filter_map(|(t, counter)| count(*t, counter, 0)));
        }
        for term in &self.anti_affinity {
            inputs
                .extend(term.counters.iter().filter_map(|(t, counter)| count(*t, counter, term.term.limit)));
        }
        // While the rule is not skipped, the terms of nominated pods count, which the counters do not have.
        inputs.extend((!self.context.cycle.nominated.is_empty()).then_some(-1));
        for Existing { matcher, topology, limit, owners, matching } in &self.existing {
            let Some(owners) = tally(*topology, owners).filter(|owners| owners.count > 0) else { continue };
            inputs.extend([matcher.number() as i64, topology.number() as i64, owners.count.min(max_pods)]);
            if let Some(matching) = matching {
                let not_themselves = (owners.count - owners.weight).min(max_pods);
                inputs.extend([i64::from(*limit), not_themselves]);
                inputs.extend(count(*topology, matching, *limit));
            }
        }
    }

    fn terms(&self) -> Vec<TermInfo> {
        let info = |t: &Term<'_>, detail| TermInfo { term: t.term.path.clone(), detail };
        let of = |requirement: &Requirement<'_>| {
            requirement.terms.iter().map(|t| info(t, requirement.describe(t))).collect::<Vec<_>>()
        };
        let affinity = self.affinity.iter().flat_map(of);
        affinity.chain(self.anti_affinity.iter().map(|t| info(t, rejects(t.term)))).collect()
    }

    fn n_compared(&self, _node: NodeRef<'_>) -> usize {
        self.affinity_terms().count() + self.anti_affinity.len() + self.existing.len()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let mut verdicts = Vec::new();
        let requirements = self.affinity.iter();
        for (of, term) in requirements.flat_map(|of| of.terms.iter().map(move |term| (of, term))) {
            let satisfied = term.has_domain(state, node.id)
                && (of.is_first_of_group(state, node) || term.matching_domains(state, node).next().is_some());
            if satisfied {
                continue;
            }
            let detail = of.describe(term);
            let elsewhere = term.group.iter().map(|(_, c)| c.iter().map(|(_, t)| t.count).sum::<i64>()).max();
            let verdict = Verdict::new(
                Plugin::InterPodAffinity,
                Status::UnschedulableAndUnresolvable,
                REASON_AFFINITY,
                detail,
            );
            let first = term.counters.first();
            let pair = first.and_then(|(t, _)| state.topology_pair(*t, state.topologies.domain(*t, node.id)));
            verdicts.push(
                verdict
                    .term(&term.term.path)
                    .topology(pair)
                    .counts(Counts::Affinity { matching: 0, elsewhere: elsewhere.unwrap_or(0) }),
            );
        }
        for term in &self.anti_affinity {
            for (topology, domain, n_pods) in term.matching_domains(state, node) {
                let detail = rejects(term.term);
                verdicts.push(
                    Verdict::new(
                        Plugin::InterPodAffinity,
                        Status::Unschedulable,
                        REASON_ANTI_AFFINITY,
                        detail,
                    )
                    .term(&term.term.path)
                    .topology(state.topology_pair(topology, Some(domain)))
                    .counts(Counts::AntiAffinity { matching: n_pods, limit: term.term.limit })
                    .witnesses(self.witnesses.pods_matching(
                        state,
                        term.matcher,
                        DomainOf { topology, domain, node: node.id },
                    )),
                );
            }
        }
        for (existing, domain, owners, matching) in self.violated_existing(node) {
            let Existing { matcher, topology, limit, .. } = *existing;
            let of = DomainOf { topology, domain, node: node.id };
            let (witnesses, terms) = self.witnesses.anti_affinity_owners(state, matcher, limit, of);
            let counts = match (limit, owners.count) {
                (0, owners) => Counts::ExistingAntiAffinity { owners },
                (limit, owners) => Counts::ExistingLimit { owners, matching, limit },
            };
            let own = self.anti_affinity.iter().filter(|own| {
                let mut rejecting = own.matching_domains(state, node);
                (own.matcher, own.term.limit) == (matcher, limit)
                    && rejecting.any(|(in_topology, ..)| in_topology == topology)
            });
            let own: Vec<&str> = own.map(|own| &*own.term.path).collect();
            for (path, term) in terms {
                let detail = format!("an existing pod's anti-affinity {}", rejects(&term));
                let repeats_own_term = own.contains(&&*path);
                let verdict =
                    Verdict::new(Plugin::InterPodAffinity, Status::Unschedulable, REASON_EXISTING, detail)
                        .term(path)
                        .topology(state.topology_pair(topology, Some(domain)))
                        .counts(counts.clone())
                        .witnesses(witnesses.clone());
                let repeated = verdicts.iter_mut().filter(|own| {
                    repeats_own_term && (&own.term, &own.topology) == (&verdict.term, &verdict.topology)
                });
                repeated.for_each(|own| own.is_mutual = true);
                verdicts.push(Verdict { repeats_own_term, ..verdict });
            }
        }
        verdicts
    }
}
