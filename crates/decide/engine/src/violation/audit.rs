//! One pass over everything that runs: every required rule that does not hold now.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_input::config::Plugin;
use rustc_hash::FxHashMap;

use super::types::Violation;
use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::Nominations;
use crate::cycle::what_if::RelevantMatchers;
use crate::plugins::{self, Filter, Reads};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::pod::signature::SignatureId;
use crate::state::pod::{PodId, PodRecord};
use crate::state::rule_set::RuleAt;
use crate::state::rule_set::{RuleSet, RuleSetId};
use crate::state::volume::PodVolumes;
use crate::verdict::witness::WitnessCache;
use crate::verdict::{Status, Verdict, ViolatedRule};
use crate::volume::CycleVolumes;

/// Pods that rules distinguish only by their nodes.
type Alike = FxHashMap<(RuleSetId, SignatureId), Vec<(PodId, NodeId)>>;

/// Every required rule of a running pod that does not hold: [`Cluster::audit`](crate::Cluster::audit).
pub(crate) fn audit(
    state: &mut State,
    nominations: &Nominations,
    mut progress: impl FnMut(usize, usize),
) -> Vec<Violation> {
    let alike = group_alike(state);
    let n_pods = alike.values().map(Vec::len).sum();
    let cache = WitnessCache::default();
    let (mut found, mut n_evaluated) = (Vec::new(), 0);
    for ((rule_set, signature), pods) in alike {
        let Some((first, _)) = pods.first() else { continue };
        let prepared = state.as_pending(*first);
        let cycle = CycleState::new(state, nominations, &prepared);
        let group = Group { state, rule_set, signature, cycle: &cycle, cache: &cache };
        group.evaluate(&pods, &mut found);
        n_evaluated += pods.len();
        progress(n_evaluated, n_pods);
    }
    sort(&mut found);
    found
}

/// The pods to be evaluated.
fn group_alike(state: &State) -> Alike {
    let mut alike = Alike::default();
    for (id, pod) in state.pods.iter().filter(|(_, pod)| !pod.terminating) {
        if let Some(node) = pod.node {
            alike.entry((pod.rule_set, pod.signature)).or_default().push((id, node));
        }
    }
    alike
}

/// Every rule required during execution that is broken now, sorted.
pub(crate) fn violations(state: &State) -> Vec<Violation> {
    let cache = WitnessCache::default();
    let mut found = Vec::new();
    for (id, pod) in state.pods.iter() {
        found.extend(state.broken_rules(pod).map(|(node, rule)| state.violation_of(id, node, rule, &cache)));
    }
    sort(&mut found);
    found
}

impl State {
    /// The rules of a pod required during execution that are broken, and the node where.
    pub(super) fn broken_rules<'a>(
        &'a self,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = (NodeId, RuleAt)> + 'a {
        let evaluated = pod.node.filter(|_| !pod.terminating);
        evaluated.into_iter().flat_map(move |node| {
            let rules = self.rule_sets.get(pod.rule_set).executing.iter();
            rules
                .filter(move |rule| self.is_broken(pod.likeness(), node, **rule))
                .map(move |rule| (node, *rule))
        })
    }

    /// The full violation of a broken rule between pods, or of node affinity.
    pub(super) fn violation_of(
        &self,
        id: PodId,
        node: NodeId,
        rule: RuleAt,
        cache: &WitnessCache,
    ) -> Violation {
        let rule_set = self.rule_sets.get(self.pods.get(id).rule_set);
        let kind = match rule {
            RuleAt::Node(_) => ViolatedRule::NodeAffinity,
            RuleAt::Affinity(_) => ViolatedRule::PodAffinity,
            RuleAt::AntiAffinity(_) => ViolatedRule::PodAntiAffinity,
        };
        let verdict = self.verdict_of(id, node, rule, cache);
        self.violation(id, kind, rule_set.executing.contains(&rule), rule.path(rule_set), verdict)
    }

    fn violation(
        &self,
        id: PodId,
        rule: ViolatedRule,
        required_during_execution: bool,
        term: &str,
        verdict: Verdict,
    ) -> Violation {
        let pod = self.pods.get(id);
        Violation {
            namespace: self.symbols.text(pod.namespace).to_owned(),
            name: pod.name.to_string(),
            node: self.symbols.text(pod.node_name).to_owned(),
            rule,
            term: term.to_owned(),
            required_during_execution,
            verdict,
        }
    }
}

/// By pod first, then by rule.
pub(super) fn sort(violations: &mut [Violation]) {
    let key = |v: &Violation| (v.namespace.clone(), v.name.clone(), v.rule, v.term.clone());
    violations.sort_by_cached_key(key);
}

/// Pods that rules do not distinguish, and the rules for them.
struct Group<'a> {
    state: &'a State,
    rule_set: RuleSetId,
    signature: SignatureId,
    cycle: &'a CycleState,
    cache: &'a WitnessCache,
}

impl Group<'_> {
    fn evaluate(&self, pods: &[(PodId, NodeId)], found: &mut Vec<Violation>) {
        let state = self.state;
        let rule_set = state.rule_sets.get(self.rule_set);
        let Some(context) = Context::with_any_profile(state, self.cycle) else { return };
        let enabled = |plugin| context.profile.profile.filter.contains(&plugin);
        let filters = audited_filters(context, |reads| !reads.any_of(Reads::VOLUMES));
        let relevant = RelevantMatchers::new(context);
        let between_pods = between_pods(rule_set, enabled(Plugin::InterPodAffinity));
        for (id, node) in pods {
            let mut without = relevant.on(*node);
            without.change(self.rule_set, self.signature, None, None, -1);
            for (rule, filter) in &filters {
                if !filter.admits(without.node()) {
                    self.report(
                        *id,
                        *node,
                        rule_set,
                        *rule,
                        filter.verdicts_for_running(without.node()),
                        found,
                    );
                }
            }
            let pod = state.pods.get(*id);
            if let Some(volumes) = &pod.volumes {
                self.evaluate_volumes(*id, *node, volumes, found);
            }
            for rule in between_pods.iter().filter(|rule| state.is_broken(pod.likeness(), *node, **rule)) {
                found.push(state.violation_of(*id, *node, *rule, self.cache));
            }
            if let Some(error) = &rule_set.rules().pod_term_error {
                let status = Status::UnschedulableAndUnresolvable;
                let reason = "parsing pod";
                let verdict = Verdict::new(Plugin::InterPodAffinity, status, reason, error.clone());
                let rule = ViolatedRule::PodAffinity;
                found.push(state.violation(*id, rule, false, "spec.affinity", verdict.term("spec.affinity")));
            }
        }
    }

    /// Claims belong to single pods. Those that are not bound are no rule of a running pod.
    fn evaluate_volumes(
        &self,
        id: PodId,
        node: NodeId,
        volumes: &Arc<PodVolumes>,
        found: &mut Vec<Violation>,
    ) {
        let volumes = Some(Arc::new(CycleVolumes::resolve(self.state, volumes).bound_alone()));
        let cycle = CycleState { volumes, ..self.cycle.clone() };
        let Some(context) = Context::with_any_profile(self.state, &cycle) else { return };
        let there = NodeRef::new(node, self.state.nodes.get(node));
        for (rule, filter) in audited_filters(context, |reads| reads.any_of(Reads::VOLUMES)) {
            if !filter.admits(there) {
                self.report(id, node, context.rule_set, rule, filter.verdicts_for_running(there), found);
            }
        }
    }

    /// Reports one violation for each term, with the details of all its verdicts.
    fn report(
        &self,
        id: PodId,
        node: NodeId,
        rule_set: &RuleSet,
        rule: ViolatedRule,
        verdicts: Vec<Verdict>,
        found: &mut Vec<Violation>,
    ) {
        let mut by_term: BTreeMap<String, Verdict> = BTreeMap::new();
        for verdict in verdicts {
            let term = verdict.term.clone().unwrap_or_else(|| verdict.plugin.name().to_owned());
            // Those are evaluated whatever the profile says.
            let is_evaluated_already = RuleAt::find(rule_set, &term).is_some();
            if is_evaluated_already || (rule_set.key.profile.is_none() && self.is_added(&term)) {
                continue;
            }
            match by_term.get_mut(&term) {
                Some(first) => first.detail = format!("{}; {}", first.detail, verdict.detail),
                None => _ = by_term.insert(term, verdict),
            }
        }
        for (term, mut verdict) in by_term {
            match rule {
                ViolatedRule::NodePorts => self.name_users_of_ports(id, node, rule_set, &mut verdict),
                ViolatedRule::PodTopologySpread => self.leave_out(id, &term, &mut verdict),
                _ => {}
            }
            found.push(self.state.violation(id, rule, false, &term, verdict));
        }
    }

    /// Whether a term is of the affinity that a profile adds to its pods.
    fn is_added(&self, term: &str) -> bool {
        let mut profiles = self.state.profiles.iter();
        profiles.any(|p| p.added_required.as_ref().is_some_and(|(rule, _)| rule.path == term))
    }

    fn name_users_of_ports(&self, id: PodId, node: NodeId, rule_set: &RuleSet, verdict: &mut Verdict) {
        let state = self.state;
        let ports = &rule_set.rules().host_ports;
        let shares = |other: &&PodId| {
            let theirs = &state.rule_sets.get(state.pods.get(**other).rule_set).rules().host_ports;
            **other != id && theirs.iter().any(|port| port.conflicts_with_any(ports))
        };
        let users = state.nodes.get(node).pods.iter().filter(shares);
        verdict.witnesses = users.map(|other| state.witness(*other)).collect();
        verdict.witnesses.sort_unstable();
    }

    /// Removes the pod from its own witnesses.
    fn leave_out(&self, id: PodId, term: &str, verdict: &mut Verdict) {
        let spread = self.cycle.spread.iter().find(|s| s.constraint.path == term);
        let matcher = spread.and_then(|s| s.matcher);
        let is_counted =
            matcher.is_some_and(|m| self.state.is_matched(self.state.pods.get(id).likeness(), m));
        let witnesses = (std::mem::take(&mut verdict.witnesses), verdict.more_witnesses);
        (verdict.witnesses, verdict.more_witnesses) = self.state.without(id, is_counted, witnesses);
    }
}

/// The filters of a profile that are evaluated for running pods, of rules that read certain things.
fn audited_filters(
    context: Context<'_>,
    reads: impl Fn(Reads) -> bool,
) -> Vec<(ViolatedRule, Box<dyn Filter + '_>)> {
    let rules = plugins::filtering(context.profile).filter(|rule| reads(rule.reads));
    rules.filter_map(|rule| Some((rule.violation?, (rule.filter)(context)?))).collect()
}

/// The rules of a rule set that [`State::is_broken`] evaluates: those required during execution, and the v1 rules
/// between pods where the profile has them.
fn between_pods(rule_set: &RuleSet, v1_too: bool) -> Vec<RuleAt> {
    let affinity = (0..rule_set.required_affinity.len() as u32).map(RuleAt::Affinity);
    let anti_affinity = (0..rule_set.required_anti_affinity.len() as u32).map(RuleAt::AntiAffinity);
    let mut rules = rule_set.executing.to_vec();
    let others = affinity.chain(anti_affinity).filter(|rule| v1_too && !rule_set.executing.contains(rule));
    rules.extend(others);
    rules
}
