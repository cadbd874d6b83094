//! Moves: the fewest running pods that make place for the pod when they move to other nodes.
//!
//! For every node, the reasons against the pod give what a set of moved pods has to achieve at least: free so much of a
//! resource, take away this many matching pods, bring one. Sets are tried in the order of their size. A set helps if, with
//! the pod on its node, the moved pods find nodes one after the other, and the pod's rules hold then. Moves that only
//! make room for other moved pods are not looked for, nor moves of more pods than a disruption budget allows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use berth_api::config::Plugin;
use berth_api::object::{Pod, StringMap};
use berth_engine::{Counts, Equivalence, NodeEvaluation, Outcome, PreparedPod, Status, Verdict};

use super::change::{Change, Repair};
use super::commands;
use super::movable::{Movable, Weights};
use super::trial::{Problem, Trial};
use crate::simulation::protects;

/// The largest set of moved pods that is looked for.
const MAX_MOVES: usize = 3;
/// Number of sets of pods that are tried on the state.
const MAX_TRIES: usize = 2_000;
/// Number of nodes that are tried for a moved pod if the first choice of the scheduler does not help.
const MAX_TARGETS: usize = 50;

/// What the moved pods achieve together for one reason: the sum of these weights is at least the amount.
struct Need {
    weights: Weights,
    amount: i64,
}

impl Need {
    /// How many pods it takes at least; none if all pods do not suffice.
    fn least(&self) -> Option<usize> {
        let mut weights: Vec<_> = self.weights.values().copied().collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = self.amount;
        let enough = |weight: &i64| {
            left -= weight;
            left <= 0
        };
        weights.iter().position(enough).map(|i| i + 1)
    }

    fn is_met(&self, moved: &[usize]) -> bool {
        moved.iter().filter_map(|i| self.weights.get(i)).sum::<i64>() >= self.amount
    }
}

/// A node that moves could make feasible.
struct Site {
    node: String,
    needs: Vec<Need>,
    least: usize,
}

/// Whether it matters to a rule which pods run where.
fn moves_could_help(verdict: &Verdict) -> bool {
    match (verdict.plugin, &verdict.counts) {
        (_, Some(Counts::Resource { .. })) => verdict.status != Status::UnschedulableAndUnresolvable,
        (Plugin::NodePorts | Plugin::VolumeRestrictions, None) => true,
        (_, counts) => counts.is_some(),
    }
}

impl Trial<'_> {
    /// The fewest moves after which the pod fits.
    pub(super) fn move_pods(&mut self, problem: &Problem) -> Option<Repair> {
        let could_help = |(_, verdicts): &&(String, Vec<Verdict>)| verdicts.iter().all(moves_could_help);
        let rejecting: Vec<_> = problem.rejecting.iter().filter(could_help).collect();
        if rejecting.is_empty() {
            return None;
        }
        let mut movable = Movable::new(self);
        let sites = rejecting.into_iter();
        let sites: Vec<_> =
            sites.filter_map(|(node, verdicts)| self.site(problem, &mut movable, node, verdicts)).collect();
        let mut search = Search { trial: self, problem, movable, n_tried: 0, classes: HashMap::new() };
        for n_moves in 1..=MAX_MOVES {
            for site in sites.iter().filter(|site| site.least <= n_moves) {
                if let Some(moves) = search.among(site, n_moves, &mut Vec::new()) {
                    return Some(search.repair(site, &moves));
                }
            }
        }
        None
    }

    /// What moves have to achieve on a node; none if no move helps there.
    fn site(
        &mut self,
        problem: &Problem,
        movable: &mut Movable<'_>,
        node: &str,
        verdicts: &[Verdict],
    ) -> Option<Site> {
        let needs: Option<Vec<_>> =
            verdicts.iter().map(|verdict| self.need(problem, movable, node, verdict)).collect();
        let needs = needs?;
        let mut least = 1;
        for need in &needs {
            least = least.max(need.least()?);
        }
        (least <= MAX_MOVES).then(|| Site { node: node.to_owned(), needs, least })
    }

    fn need(
        &mut self,
        problem: &Problem,
        movable: &mut Movable<'_>,
        node: &str,
        verdict: &Verdict,
    ) -> Option<Need> {
        let own = |path: Option<&str>| {
            let rules = &problem.rules;
            let terms = rules.required_affinity.iter().chain(&rules.required_anti_affinity);
            let terms = terms.map(|t| (t.path.as_str(), &t.selector));
            let constraints = rules.spread_constraints.iter().map(|c| (c.path.as_str(), &c.selector));
            terms.chain(constraints).find(|(own, _)| Some(*own) == path)
        };
        let term = verdict.term.as_deref();
        let witnesses = |movable: &Movable<'_>| {
            let pods = verdict.witnesses.iter();
            let pods = pods.filter_map(|w| movable.by_name.get(&(w.namespace.as_str(), w.name.as_str())));
            Rc::new(pods.map(|i| (*i, 1)).collect())
        };
        let missing_label = verdict.topology.as_ref().is_some_and(|pair| pair.value.is_none());
        let (weights, amount) = match (verdict.plugin, &verdict.counts) {
            _ if missing_label => return None,
            (_, Some(Counts::Resource { resource, requested, used, allocatable })) => {
                let mut weights = BTreeMap::new();
                for i in movable.on(node).collect::<Vec<_>>() {
                    let rules = movable.requests.entry(i);
                    let rules = rules.or_insert_with(|| self.cluster.rules_of(&movable.pods[i].pod));
                    let weight = if resource == "pods" { 1 } else { rules.requests.amount(resource) };
                    if weight > 0 {
                        weights.insert(i, weight);
                    }
                }
                (Rc::new(weights), requested + used - allocatable)
            }
            (_, Some(Counts::Affinity { .. })) => {
                let (path, selector) = own(term)?;
                (movable.matching(path, selector), 1)
            }
            (_, Some(Counts::AntiAffinity { matching, limit })) => {
                let (path, selector) = own(term)?;
                let here = movable.matching_in(path, selector, verdict.topology.as_ref(), self.nodes);
                (here, matching - i64::from(*limit))
            }
            (_, Some(Counts::ExistingAntiAffinity { owners })) => (witnesses(movable), *owners),
            (_, Some(Counts::ExistingLimit { .. })) => (witnesses(movable), 1),
            (_, Some(Counts::Spread { .. })) => {
                let (path, selector) = own(term)?;
                (movable.matching(path, selector), 1)
            }
            (_, Some(Counts::Volumes { .. })) => {
                let with_volumes = |i: &usize| !movable.pods[*i].pod.spec.volumes.is_empty();
                (Rc::new(movable.on(node).filter(with_volumes).map(|i| (i, 1)).collect()), 1)
            }
            (_, Some(Counts::Devices { .. })) => {
                let has_devices = |i: &usize| self.may_need_devices(&movable.pods[*i].pod);
                (Rc::new(movable.on(node).filter(has_devices).map(|i| (i, 1)).collect()), 1)
            }
            (Plugin::NodePorts, None) => (witnesses(movable), verdict.witnesses.len() as i64),
            (Plugin::VolumeRestrictions, None) => (witnesses(movable), 1),
            _ => return None,
        };
        Some(Need { weights, amount })
    }
}

/// A moved pod: its position, and where it goes.
type Moved = Vec<(usize, String)>;

struct Search<'s, 'a> {
    trial: &'s mut Trial<'a>,
    problem: &'s Problem,
    movable: Movable<'a>,
    n_tried: usize,
    /// Of each pod, what tells it apart from other pods of its node.
    classes: HashMap<usize, (PreparedPod, Equivalence)>,
}

impl<'a> Search<'_, 'a> {
    /// Chooses `n` more pods; each of them is needed for a reason that the others leave.
    fn among(&mut self, site: &Site, n: usize, chosen: &mut Vec<usize>) -> Option<Moved> {
        let open = site.needs.iter().find(|need| !need.is_met(chosen));
        if n == 0 {
            return if open.is_none() { self.attempt(site, chosen) } else { None };
        }
        let candidates: BTreeSet<usize> = match open {
            Some(need) => need.weights.keys().copied().collect(),
            None => site.needs.iter().flat_map(|need| need.weights.keys().copied()).collect(),
        };
        let mut candidates: Vec<_> = candidates.into_iter().filter(|i| !chosen.contains(i)).collect();
        let pods = self.movable.pods;
        // By name, since the positions of pods depend on which were removed before.
        let rank = |i: &usize| {
            let Pod { metadata, spec, .. } = &pods[*i].pod;
            (spec.priority.unwrap_or(0), &metadata.namespace, &metadata.name)
        };
        candidates.sort_by(|a, b| rank(a).cmp(&rank(b)));
        let mut seen: HashSet<(&'a str, Equivalence, &'a StringMap)> = HashSet::new();
        for i in candidates {
            if self.n_tried >= MAX_TRIES || self.trial.budget.spend(site.needs.len()).is_err() {
                return None;
            }
            chosen.push(i);
            let could_do = site.needs.iter().all(|need| {
                let most = need.weights.values().max().copied().unwrap_or(0);
                let have: i64 = chosen.iter().filter_map(|i| need.weights.get(i)).sum();
                have + most.saturating_mul(n as i64 - 1) >= need.amount
            });
            if could_do && self.is_allowed(chosen) {
                let class = self.class(i).1.clone();
                let class = (self.movable.node_of(i), class, &*pods[i].pod.metadata.labels);
                // Equal pods have different devices.
                if (seen.insert(class) || self.trial.may_need_devices(&pods[i].pod))
                    && let Some(moved) = self.among(site, n - 1, chosen)
                {
                    return Some(moved);
                }
            }
            chosen.pop();
        }
        None
    }

    fn class(&mut self, i: usize) -> &(PreparedPod, Equivalence) {
        let (cluster, pods) = (&mut *self.trial.cluster, self.movable.pods);
        self.classes.entry(i).or_insert_with(|| {
            let mut pod = pods[i].pod.clone();
            pod.spec.node_name.clear();
            let prepared = cluster.prepare(&pod);
            let equivalence = cluster.equivalence(&prepared);
            (prepared, equivalence)
        })
    }

    /// Whether the disruption budgets allow to evict these pods.
    fn is_allowed(&self, chosen: &[usize]) -> bool {
        self.trial.budgets.iter().all(|budget| {
            let of_budget = chosen.iter().filter(|i| protects(budget, &self.movable.pods[**i].pod)).count();
            of_budget == 0 || of_budget <= usize::try_from(budget.disruptions_allowed).unwrap_or(0)
        })
    }

    /// Takes the pods away with their devices, and looks for a node for each.
    fn attempt(&mut self, site: &Site, chosen: &[usize]) -> Option<Moved> {
        self.n_tried += 1;
        let mut rest: Vec<(usize, PreparedPod)> =
            chosen.iter().map(|i| (*i, self.class(*i).0.clone())).collect();
        let claims = self.trial.devices.claims();
        for (i, pod) in &rest {
            self.trial.cluster.forget(pod);
            self.trial.devices.release(self.trial.cluster, &self.movable.pods[*i].pod);
        }
        let pod = &self.problem.prepared;
        // Which devices the pod takes is known of the node where the scheduler puts it.
        let needs_devices = self.trial.may_need_devices(&self.trial.pod.pod);
        let decided = needs_devices.then(|| self.trial.cluster.decide(pod));
        let is_here = decided.as_ref().is_none_or(|decided| decided.node() == Some(&site.node));
        let assigned = is_here.then(|| self.trial.assign(pod, &site.node, decided.as_ref()));
        let all = rest.clone();
        let mut moved = Vec::new();
        let found = assigned.is_some() && self.place(site, &mut rest, &mut moved);
        assigned.into_iter().for_each(|assigned| self.trial.unassign(assigned));
        self.trial.devices.restore(self.trial.cluster, claims);
        for (i, pod) in &all {
            self.trial.cluster.assume(pod, self.movable.node_of(*i));
        }
        found.then_some(moved)
    }

    /// Places the rest of the pods; the state is as before in the end.
    fn place(&mut self, site: &Site, rest: &mut Vec<(usize, PreparedPod)>, moved: &mut Moved) -> bool {
        if rest.is_empty() {
            let pod = &self.problem.prepared;
            self.trial.cluster.forget(pod);
            let fits = self.trial.cluster.fits_on(pod, &site.node)
                && self.trial.breaks_nothing(self.problem, &site.node);
            self.trial.cluster.assume(pod, &site.node);
            return fits;
        }
        for at in 0..rest.len() {
            let (i, pod) = rest.remove(at);
            let from = self.movable.node_of(i);
            let decided = self.trial.cluster.decide(&pod);
            if let Some(first) = decided.node().map(str::to_owned) {
                // Which devices a pod takes is known of the first choice.
                let others = match self.trial.may_need_devices(&self.movable.pods[i].pod) {
                    true => Vec::new(),
                    false => self.others(&pod, &first, from),
                };
                let is_placed = (first != from
                    && self.place_on(site, (i, &pod), (first, Some(&decided)), rest, moved))
                    || others
                        .into_iter()
                        .any(|other| self.place_on(site, (i, &pod), (other, None), rest, moved));
                if is_placed {
                    return true;
                }
            }
            rest.insert(at, (i, pod));
        }
        false
    }

    fn place_on(
        &mut self,
        site: &Site,
        (i, pod): (usize, &PreparedPod),
        (node, decided): (String, Option<&Outcome>),
        rest: &mut Vec<(usize, PreparedPod)>,
        moved: &mut Moved,
    ) -> bool {
        let assigned = self.trial.assign(pod, &node, decided);
        moved.push((i, node));
        let found = self.place(site, rest, moved);
        if !found {
            moved.pop();
        }
        self.trial.unassign(assigned);
        found
    }

    /// The feasible nodes besides the first choice, the best first.
    fn others(&mut self, pod: &PreparedPod, first: &str, from: &str) -> Vec<String> {
        self.n_tried += 1;
        let nodes = self.trial.cluster.evaluate(pod).nodes;
        let mut nodes: Vec<_> = nodes
            .into_iter()
            .filter_map(|(node, found)| match found {
                NodeEvaluation::Feasible(score) if node != first && node != from => Some((node, score.total)),
                _ => None,
            })
            .collect();
        nodes.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        nodes.into_iter().take(MAX_TARGETS).map(|(node, _)| node).collect()
    }

    fn repair(&self, site: &Site, moved: &Moved) -> Repair {
        let pod = |i: usize| &self.movable.pods[i].pod;
        let change = |(i, to): &(usize, String)| {
            let Pod { metadata, spec, .. } = pod(*i);
            Change::Move {
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                from: spec.node_name.clone(),
                to: to.clone(),
            }
        };
        // The scheduler gives devices to a pod.
        let node = |i: usize, to| if self.trial.may_need_devices(pod(i)) { None } else { Some(to) };
        let commands =
            moved.iter().map(|(i, to)| commands::move_pod(pod(*i), node(*i, to.as_str()))).collect();
        Repair::new(moved.iter().map(change).collect(), site.node.clone(), commands)
    }
}
