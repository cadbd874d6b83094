//! One pass over everything that runs: every required rule that does not hold now.

use std::collections::BTreeMap;

use berth_api::config::Plugin;
use rustc_hash::FxHashMap;

use super::rule::RuleAt;
use super::types::{ViolatedRule, Violation};
use crate::plugins::{self, Context, Filter};
use crate::state::class::{Class, ClassId};
use crate::state::cluster::Cluster;
use crate::state::identity::IdentityId;
use crate::state::incoming::{Incoming, PreparedPod};
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::state::witness::WitnessCache;
use crate::verdict::{Status, Verdict};
use crate::what_if::Concerns;

/// The rules besides those between pods that a running pod is held against.
const AUDITED: [ViolatedRule; 5] = [
    ViolatedRule::NodeAffinity,
    ViolatedRule::TaintToleration,
    ViolatedRule::NodePorts,
    ViolatedRule::NodeResourcesFit,
    ViolatedRule::PodTopologySpread,
];

/// Pods that the rules cannot tell apart, but for the nodes they are on.
type Alike = FxHashMap<(ClassId, IdentityId), Vec<(PodId, NodeId)>>;

impl Cluster {
    /// Every required rule of a running pod that does not hold where it runs now; see the documentation of
    /// [`ViolatedRule`] for which rules these are. Sorted by namespace, name, rule and term.
    ///
    /// v1 rules are asked as if the pod were to be placed on its node now, with itself taken away before. So every
    /// pod of a domain that a spread constraint finds overfull is named, and every pod that asks for what its
    /// node has promised too much of: moving some of them is enough. Rules whose plugins the pod's profile has
    /// disabled are not asked, but for those required during execution; a pod that no profile is meant for is held
    /// against the rules of the first one, its added affinity left out. Cordoning (`spec.unschedulable`) is no
    /// rule of the pod's and is not asked about. Of rules that do not parse it is said that they do not.
    pub fn audit(&mut self) -> Vec<Violation> {
        self.audit_with(|_, _| {})
    }

    /// [`Cluster::audit`], telling how many pods have been judged, and of how many.
    pub fn audit_with(&mut self, mut progress: impl FnMut(usize, usize)) -> Vec<Violation> {
        let mut alike = self.alike();
        // Spread constraints seen for the first time may tell pods apart that were alike.
        loop {
            let distinctions = self.distinctions();
            for pods in alike.values() {
                if let Some((first, _)) = pods.first() {
                    let prepared = self.pods.get(*first).as_incoming();
                    self.incoming(&prepared);
                }
            }
            if self.distinctions() == distinctions {
                break;
            }
            alike = self.alike();
        }
        let n_pods = alike.values().map(Vec::len).sum();
        let cache = WitnessCache::default();
        let (mut found, mut n_judged) = (Vec::new(), 0);
        for ((class, identity), pods) in alike {
            let Some((first, _)) = pods.first() else { continue };
            let prepared = self.pods.get(*first).as_incoming();
            let incoming = self.incoming(&prepared);
            let group = Group { cluster: self, class, identity, incoming: &incoming, cache: &cache };
            group.judge(&pods, &mut found);
            n_judged += pods.len();
            progress(n_judged, n_pods);
        }
        sort(&mut found);
        found
    }

    /// The pods to be judged.
    fn alike(&self) -> Alike {
        let mut alike = Alike::default();
        for (id, pod) in self.pods.iter().filter(|(_, pod)| !pod.terminating) {
            if let Some(node) = pod.node {
                alike.entry((pod.class, pod.identity)).or_default().push((id, node));
            }
        }
        alike
    }

    /// Every rule required during execution that is broken now, sorted: that part of [`Cluster::audit`] alone.
    pub fn violations(&self) -> Vec<Violation> {
        let cache = WitnessCache::default();
        let mut found = Vec::new();
        for (id, pod) in self.pods.iter() {
            found
                .extend(self.broken_rules(pod).map(|(node, rule)| self.violation_of(id, node, rule, &cache)));
        }
        sort(&mut found);
        found
    }

    /// The rules of a pod required during execution that are broken, and the node where.
    pub(super) fn broken_rules<'a>(
        &'a self,
        pod: &'a PodRecord,
    ) -> impl Iterator<Item = (NodeId, RuleAt)> + 'a {
        let judged = pod.node.filter(|_| !pod.terminating);
        judged.into_iter().flat_map(move |node| {
            let rules = self.classes.get(pod.class).executing.iter();
            rules.filter(move |rule| self.is_broken(pod, node, **rule)).map(move |rule| (node, *rule))
        })
    }

    /// A broken rule between pods, or of node affinity, told in full.
    pub(super) fn violation_of(
        &self,
        id: PodId,
        node: NodeId,
        rule: RuleAt,
        cache: &WitnessCache,
    ) -> Violation {
        let class = self.classes.get(self.pods.get(id).class);
        let kind = match rule {
            RuleAt::Node(_) => ViolatedRule::NodeAffinity,
            RuleAt::Affinity(_) => ViolatedRule::PodAffinity,
            RuleAt::AntiAffinity(_) => ViolatedRule::PodAntiAffinity,
        };
        let verdict = self.verdict_of(id, node, rule, cache);
        self.violation(id, kind, class.executing.contains(&rule), rule.path(class), verdict)
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

    /// What a pod is placed by, with its profile, or the first one if none is meant for it.
    pub(super) fn context_of_any<'a>(&'a self, incoming: &'a Incoming) -> Option<Context<'a>> {
        let class = self.classes.get(incoming.class);
        let profile = self.profiles.get(class.key.profile.unwrap_or_default())?;
        Some(Context { cluster: self, incoming, class, profile })
    }
}

impl PodRecord {
    /// The pod as if it were to be placed anew.
    pub(super) fn as_incoming(&self) -> PreparedPod {
        PreparedPod {
            namespace: self.namespace,
            name: self.name.clone(),
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            terminating: self.terminating,
            standing: self.standing,
            preempts: false,
            class: self.class,
            node_name: None,
            gates: Vec::new(),
            unknown_scheduler: None,
        }
    }
}

/// By pod first, so that all that is wrong with one stands together.
pub(super) fn sort(violations: &mut [Violation]) {
    let key = |v: &Violation| (v.namespace.clone(), v.name.clone(), v.rule, v.term.clone());
    violations.sort_by_cached_key(key);
}

/// Pods alike, and what they are held against.
struct Group<'a> {
    cluster: &'a Cluster,
    class: ClassId,
    identity: IdentityId,
    incoming: &'a Incoming,
    cache: &'a WitnessCache,
}

impl Group<'_> {
    fn judge(&self, pods: &[(PodId, NodeId)], found: &mut Vec<Violation>) {
        let cluster = self.cluster;
        let class = cluster.classes.get(self.class);
        let Some(context) = cluster.context_of_any(self.incoming) else { return };
        let enabled = |plugin| context.profile.profile.filter.contains(&plugin);
        let asked = AUDITED.into_iter().filter(|rule| enabled(rule.plugin()));
        let filters: Vec<(ViolatedRule, Box<dyn Filter + '_>)> =
            asked.filter_map(|rule| Some((rule, plugins::filter(rule.plugin(), context)?))).collect();
        let concerns = Concerns::new(context);
        let between_pods = between_pods(class, enabled(Plugin::InterPodAffinity));
        for (id, node) in pods {
            let mut without = concerns.on(*node);
            without.change(self.class, self.identity, -1);
            for (rule, filter) in &filters {
                if !filter.admits(without.node()) {
                    self.tell(*id, *node, class, *rule, filter.verdicts(without.node()), found);
                }
            }
            let pod = cluster.pods.get(*id);
            for rule in between_pods.iter().filter(|rule| cluster.is_broken(pod, *node, **rule)) {
                found.push(cluster.violation_of(*id, *node, *rule, self.cache));
            }
            if let Some(error) = &class.rules().pod_term_error {
                let status = Status::UnschedulableAndUnresolvable;
                let reason = "parsing pod";
                let verdict = Verdict::new(Plugin::InterPodAffinity, status, reason, error.clone());
                let rule = ViolatedRule::PodAffinity;
                found.push(cluster.violation(
                    *id,
                    rule,
                    false,
                    "spec.affinity",
                    verdict.term("spec.affinity"),
                ));
            }
        }
    }

    /// One violation for each term; what more is said about the same term goes into its words.
    fn tell(
        &self,
        id: PodId,
        node: NodeId,
        class: &Class,
        rule: ViolatedRule,
        verdicts: Vec<Verdict>,
        found: &mut Vec<Violation>,
    ) {
        let mut by_term: BTreeMap<String, Verdict> = BTreeMap::new();
        for verdict in verdicts {
            let term = verdict.term.clone().unwrap_or_else(|| rule.plugin().name().to_owned());
            // Those are judged whatever the profile says.
            let is_judged_already = RuleAt::find(class, &term).is_some();
            if is_judged_already || (class.key.profile.is_none() && self.is_added(&term)) {
                continue;
            }
            match by_term.get_mut(&term) {
                Some(first) => first.detail = format!("{}; {}", first.detail, verdict.detail),
                None => _ = by_term.insert(term, verdict),
            }
        }
        for (term, mut verdict) in by_term {
            match rule {
                ViolatedRule::NodePorts => self.name_users_of_ports(id, node, class, &mut verdict),
                ViolatedRule::PodTopologySpread => self.leave_out(id, &term, &mut verdict),
                _ => {}
            }
            found.push(self.cluster.violation(id, rule, false, &term, verdict));
        }
    }

    /// Whether a term is of the affinity that a profile adds to its pods.
    fn is_added(&self, term: &str) -> bool {
        let mut profiles = self.cluster.profiles.iter();
        profiles.any(|p| p.added_required.as_ref().is_some_and(|(rule, _)| rule.path == term))
    }

    fn name_users_of_ports(&self, id: PodId, node: NodeId, class: &Class, verdict: &mut Verdict) {
        let cluster = self.cluster;
        let ports = &class.rules().host_ports;
        let shares = |other: &&PodId| {
            let theirs = &cluster.classes.get(cluster.pods.get(**other).class).rules().host_ports;
            **other != id && theirs.iter().any(|port| ports.iter().any(|own| own.conflicts_with(port)))
        };
        let users = cluster.nodes.get(node).pods.iter().filter(shares);
        verdict.witnesses = users.map(|other| cluster.witness(*other)).collect();
        verdict.witnesses.sort_unstable();
    }

    /// The pod is no witness against itself.
    fn leave_out(&self, id: PodId, term: &str, verdict: &mut Verdict) {
        let spread = self.incoming.spread.iter().find(|s| s.constraint.path == term);
        let matcher = spread.and_then(|s| s.matcher);
        let is_counted = matcher.is_some_and(|m| self.cluster.is_matched(self.cluster.pods.get(id), m));
        let witnesses = (std::mem::take(&mut verdict.witnesses), verdict.more_witnesses);
        (verdict.witnesses, verdict.more_witnesses) = self.cluster.without(id, is_counted, witnesses);
    }
}

/// The rules of a class that [`Cluster::is_broken`] judges: those required during execution, and the v1 rules
/// between pods where the profile has them.
fn between_pods(class: &Class, v1_too: bool) -> Vec<RuleAt> {
    let affinity = (0..class.required_affinity.len() as u32).map(RuleAt::Affinity);
    let anti_affinity = (0..class.required_anti_affinity.len() as u32).map(RuleAt::AntiAffinity);
    let mut rules = class.executing.to_vec();
    let others = affinity.chain(anti_affinity).filter(|rule| v1_too && !class.executing.contains(rule));
    rules.extend(others);
    rules
}
