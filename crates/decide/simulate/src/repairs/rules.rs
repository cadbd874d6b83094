//! Rules of the pod that are relaxed: the fewest required ones that become preferred, taints that it tolerates and host ports
//! that it gives up.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use berth_api::object::{Pod, Taint};
use berth_api::syntax::shell::Command;
use berth_engine::{Counts, Verdict};
use berth_input::config::Plugin;
use berth_input::policy::PlacementPolicy;
use berth_rules::{PodTerm, TopologyScope, WhenUnsatisfiable};
use serde_json::json;

use super::change::{Change, Repair};
use super::commands;
use super::node::{is_owned, untolerated};
use super::patch::{PodPatch, pointer};
use super::policies;
use super::trial::{Problem, Trial};

/// Number of changed pods that are tried.
const MAX_TRIES: usize = 100;
const MAX_RELAXED: usize = 50;
/// Number of rules up to which all small sets of them are tried.
const MAX_FOR_ALL_SETS: usize = 8;

/// A rule of the pod that can be relaxed.
enum Rule {
    Label(String, String),
    NodeTerms(String),
    PodTerm { path: String, has_preferred_form: bool },
    Spread(String),
    Taint(Taint),
    HostPort(i32, String),
}

impl Rule {
    fn change(&self) -> Change {
        match self {
            Rule::Label(key, _) => Change::Relax { term: format!("spec.nodeSelector[{key}]"), policy: None },
            Rule::NodeTerms(path) | Rule::Spread(path) | Rule::PodTerm { path, .. } => {
                Change::Relax { term: path.clone(), policy: None }
            }
            Rule::Taint(taint) => Change::Tolerate { taint: commands::taint_text(taint) },
            Rule::HostPort(port, _) => Change::FreeHostPort { port: *port },
        }
    }

    /// Its path, if a placement policy can have such a rule.
    fn path(&self) -> Option<&str> {
        match self {
            Rule::NodeTerms(path) | Rule::Spread(path) | Rule::PodTerm { path, .. } => Some(path),
            Rule::Label(..) | Rule::Taint(_) | Rule::HostPort(..) => None,
        }
    }

    /// The same rule at another path.
    fn at(&self, path: &str) -> Option<Rule> {
        let path = path.to_owned();
        match self {
            Rule::NodeTerms(_) => Some(Rule::NodeTerms(path)),
            Rule::Spread(_) => Some(Rule::Spread(path)),
            Rule::PodTerm { has_preferred_form, .. } => {
                Some(Rule::PodTerm { path, has_preferred_form: *has_preferred_form })
            }
            Rule::Label(..) | Rule::Taint(_) | Rule::HostPort(..) => None,
        }
    }

    /// Relaxes it in an object that has rules in the fields of a pod.
    fn relax_in(&self, patch: &mut PodPatch) -> Option<()> {
        match self {
            Rule::Label(key, value) => patch.prefer_label(key, value),
            Rule::NodeTerms(path) => patch.prefer_node_terms(path),
            Rule::PodTerm { path, has_preferred_form } => patch.prefer_pod_term(path, *has_preferred_form),
            Rule::Spread(path) => patch.prefer_spread(path),
            Rule::Taint(_) | Rule::HostPort(..) => Some(()),
        }
    }

    /// Whether it decides which nodes a spread constraint counts.
    fn selects_nodes(&self) -> bool {
        matches!(self, Rule::Label(..) | Rule::NodeTerms(_) | Rule::Taint(_))
    }
}

/// The positions of rules by their paths, and of taints by their texts.
struct Positions<'r> {
    by_path: HashMap<Cow<'r, str>, usize>,
    by_taint: HashMap<String, usize>,
}

impl Positions<'_> {
    fn new(rules: &[Rule]) -> Positions<'_> {
        let mut positions = Positions { by_path: HashMap::new(), by_taint: HashMap::new() };
        for (i, rule) in rules.iter().enumerate() {
            match rule {
                Rule::Label(key, _) => {
                    _ = positions.by_path.insert(format!("spec.nodeSelector[{key}]").into(), i);
                }
                Rule::NodeTerms(path) | Rule::Spread(path) | Rule::PodTerm { path, .. } => {
                    _ = positions.by_path.insert(path.into(), i);
                }
                Rule::Taint(taint) => _ = positions.by_taint.insert(commands::taint_text(taint), i),
                Rule::HostPort(..) => {}
            }
        }
        positions
    }
}

/// The rules whose relaxation a node takes.
struct NodeNeeds {
    certain: BTreeSet<usize>,
    /// Spread constraints: what they count may change with the other rules.
    spread: BTreeSet<usize>,
}

impl Trial<'_> {
    /// The fewest rules of the pod without which it fits; of equally many, those that free most nodes. `tolerating` looks for those with
    /// tolerated taints among them, else for those without.
    pub(super) fn relax_rules(&mut self, problem: &Problem, tolerating: bool) -> Option<Repair> {
        let rules = self.rules(problem);
        let positions = Positions::new(&rules);
        let needs: Vec<_> = problem
            .rejecting
            .iter()
            .filter_map(|(node, verdicts)| self.needs(problem, &rules, &positions, node, verdicts))
            .collect();
        let mut sets: BTreeSet<Vec<usize>> = BTreeSet::new();
        for NodeNeeds { certain, spread } in &needs {
            if certain.len() + spread.len() <= MAX_RELAXED {
                sets.insert(certain.union(spread).copied().collect());
            }
        }
        if rules.len() <= MAX_FOR_ALL_SETS && rules.iter().any(|rule| matches!(rule, Rule::Spread(_))) {
            sets.extend(
                (1_usize..1 << rules.len())
                    .map(|bits| (0..rules.len()).filter(|i| bits >> i & 1 == 1).collect::<Vec<_>>()),
            );
        }
        let budget = self.budget;
        let opens = |set: &[usize]| {
            if budget.spend(needs.len() * (set.len() + 1)).is_err() {
                return 0;
            }
            let helps = |needs: &&NodeNeeds| {
                needs.certain.iter().all(|i| set.contains(i))
                    && (needs.spread.iter().all(|i| set.contains(i))
                        || set.iter().any(|i| rules[*i].selects_nodes()))
            };
            needs.iter().filter(helps).count()
        };
        let has_taint = |set: &Vec<usize>| set.iter().any(|i| matches!(rules[*i], Rule::Taint(_)));
        let sets = sets.into_iter().filter(|set| has_taint(set) == tolerating);
        let mut sets: Vec<_> = sets.map(|set| (opens(&set), set)).filter(|(n, _)| *n > 0).collect();
        sets.sort_by(|(n, a), (m, b)| a.len().cmp(&b.len()).then(m.cmp(n)).then_with(|| a.cmp(b)));
        sets.into_iter().take(MAX_TRIES).find_map(|(_, set)| {
            let relaxed: Vec<_> = set.iter().map(|i| &rules[*i]).collect();
            let (pod, repair) = self.relax(&relaxed)?;
            let prepared = self.cluster.prepare(&pod);
            let node = self.place_of(&prepared)?;
            Some(Repair { node, ..repair })
        })
    }

    /// The spread constraints that reject the pod count only nodes whose taints it tolerates: one of them, or all.
    pub(super) fn honor_taints(&mut self, problem: &Problem) -> Option<Repair> {
        let verdicts = problem.rejecting.iter().flat_map(|(_, verdicts)| verdicts);
        let rejecting: BTreeSet<&str> = verdicts.filter_map(|verdict| verdict.term.as_deref()).collect();
        let object = serde_json::to_value(&self.pod.pod).ok()?;
        let is_own = |path: &&str| {
            path.starts_with("spec.")
                && policies::source(self.policies, &self.pod.pod, &object, path).is_none()
        };
        let constraints = problem.rules.spread_constraints.iter().filter(|c| !c.honor_node_taints);
        let paths: Vec<&str> =
            constraints.map(|c| c.path.as_str()).filter(|path| rejecting.contains(path)).collect();
        let paths: Vec<&str> = paths.into_iter().filter(is_own).take(MAX_RELAXED).collect();
        let mut sets: Vec<&[&str]> = paths.chunks(1).collect();
        if paths.len() > 1 {
            sets.push(&paths);
        }
        sets.into_iter().find_map(|paths| {
            let mut patch = PodPatch::new(&self.pod.pod)?;
            for path in paths {
                patch.set(&format!("{}/nodeTaintsPolicy", pointer(path)?), json!("Honor"))?;
            }
            let prepared = self.cluster.prepare(&patch.pod()?);
            let node = self.place_of(&prepared)?;
            let (pod, workload) = (&self.pod.pod, self.pod.workload.as_deref());
            let changes = paths.iter().map(|path| Change::HonorTaints { term: (*path).to_owned() }).collect();
            let mut commands = vec![commands::patch_template(pod, workload, &patch.operations)];
            commands.extend(self.deletion());
            let template_patch = if workload.is_some() { patch.operations.clone() } else { Vec::new() };
            let repair = Repair::new(changes, node, commands);
            let restarts = self.n_of_workload();
            Some(Repair { restarts, patch: patch.operations, template_patch, ..repair })
        })
    }

    /// The pod without its rules about pods that reject it.
    pub(super) fn relax_terms(&self, problem: &Problem) -> Option<Repair> {
        let verdicts = problem.rejecting.iter().flat_map(|(_, verdicts)| verdicts);
        let rejecting = verdicts.filter(|verdict| verdict.plugin == Plugin::InterPodAffinity);
        let rejecting: BTreeSet<&str> = rejecting.filter_map(|verdict| verdict.term.as_deref()).collect();
        let rules = self.rules(problem);
        let is_rejecting =
            |rule: &&Rule| matches!(rule, Rule::PodTerm { path, .. } if rejecting.contains(path.as_str()));
        let relaxed: Vec<&Rule> = rules.iter().filter(is_rejecting).take(MAX_RELAXED).collect();
        if relaxed.is_empty() { None } else { self.relax(&relaxed).map(|(_, repair)| repair) }
    }

    /// The pod without one rule each, for pairs of changes; none if it has more than `most` rules.
    pub(super) fn relax_each(&self, problem: &Problem, most: usize) -> Vec<(Pod, Repair)> {
        let rules = self.rules(problem);
        if rules.len() > most {
            return Vec::new();
        }
        rules.iter().filter_map(|rule| self.relax(&[rule])).collect()
    }

    /// The pod without some rules. Rules that a placement policy added are relaxed there.
    fn relax(&self, relaxed: &[&Rule]) -> Option<(Pod, Repair)> {
        let patch = self.patch(relaxed)?;
        let changed = patch.pod()?;
        let (pod, workload) = (&self.pod.pod, self.pod.workload.as_deref());
        let object = serde_json::to_value(pod).ok()?;
        let source = |rule: &Rule| policies::source(self.policies, pod, &object, rule.path()?);
        let (of_policies, own): (Vec<_>, Vec<_>) =
            relaxed.iter().map(|rule| (*rule, source(rule))).partition(|(_, source)| source.is_some());
        let of_policies = of_policies.into_iter().filter_map(|(rule, source)| Some((rule, source?)));
        let of_policies: Vec<_> = of_policies.collect();
        let own: Vec<&Rule> = own.into_iter().map(|(rule, _)| rule).collect();
        let mut changes: Vec<_> = own.iter().map(|rule| rule.change()).collect();
        let mut commands = Vec::new();
        for (at, policy) in self.policies.iter().enumerate() {
            let of_policy = || of_policies.iter().filter(|(_, source)| source.policy == at);
            changes.extend(of_policy().map(|(_, source)| Change::Relax {
                term: source.path.clone(),
                policy: Some(policy.to_string()),
            }));
            let of_policy =
                of_policy().map(|(rule, source)| rule.at(&source.path)).collect::<Option<Vec<_>>>()?;
            if !of_policy.is_empty() {
                commands.push(patch_policy(policy, &of_policy)?);
            }
        }
        let mut template_patch = Vec::new();
        let n_restarted = if own.is_empty() { 0 } else { self.n_of_workload() };
        match workload {
            // It is created again with the rules that its template and the policies have then.
            Some(_) if own.is_empty() => commands.push(commands::delete_pod(pod)),
            Some(_) => {
                let own = self.patch(&own)?.operations;
                commands.push(commands::patch_template(pod, workload, &own));
                template_patch = own;
                commands.extend(self.deletion());
            }
            None => commands.push(commands::patch_template(pod, None, &patch.operations)),
        }
        let repair = Repair::new(changes, String::new(), commands);
        Some((changed, Repair { restarts: n_restarted, patch: patch.operations, template_patch, ..repair }))
    }

    fn rules(&self, problem: &Problem) -> Vec<Rule> {
        let rules = &problem.rules;
        let is_own = |path: &&String| path.starts_with("spec.");
        // What the runtime class adds to the pod is not in the workload.
        let class = &self.pod.pod.spec.runtime_class_name;
        let class = self.runtime_classes.iter().find(|known| known.metadata.name == *class);
        let of_class = class.and_then(|class| class.scheduling.as_ref());
        let labels = rules.node_selector.iter();
        let labels = labels.filter(|(key, _)| of_class.is_none_or(|of| !of.node_selector.contains_key(key)));
        let mut found: Vec<_> = labels.map(|(key, value)| Rule::Label(key.clone(), value.clone())).collect();
        let paths = rules.required_node_affinity.iter().map(|rule| &rule.path);
        found.extend(paths.filter(is_own).cloned().map(Rule::NodeTerms));
        let terms = rules.required_affinity.iter().chain(&rules.required_anti_affinity);
        // A preferred term in the spec is one of v1, which has neither limits nor "all topologies".
        let has_preferred_form = |term: &PodTerm| term.limit == 0 && term.topology != TopologyScope::All;
        found.extend(terms.filter(|term| is_own(&&term.path)).map(|term| Rule::PodTerm {
            path: term.path.clone(),
            has_preferred_form: has_preferred_form(term),
        }));
        let hard = rules.spread_constraints.iter();
        let hard = hard.filter(|c| c.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        found.extend(hard.map(|c| &c.path).filter(is_own).cloned().map(Rule::Spread));
        found.extend(rules.host_ports.iter().map(|p| Rule::HostPort(p.port, p.protocol.clone())));
        let nodes = problem.rejecting.iter().filter_map(|(node, _)| self.nodes.get(node));
        let taints = nodes.flat_map(|node| untolerated(problem, node));
        let taints = taints.filter(|taint| !is_owned(&taint.key));
        let mut known = BTreeSet::new();
        for taint in taints {
            if known.insert(commands::taint_text(taint)) {
                found.push(Rule::Taint(taint.clone()));
            }
        }
        found
    }

    /// What a node takes; none if it rejects the pod for something that is no rule of the pod.
    fn needs(
        &self,
        problem: &Problem,
        rules: &[Rule],
        positions: &Positions<'_>,
        node: &str,
        verdicts: &[Verdict],
    ) -> Option<NodeNeeds> {
        let mut needs = NodeNeeds { certain: BTreeSet::new(), spread: BTreeSet::new() };
        for verdict in verdicts {
            self.budget.spend(1).ok()?;
            let term = verdict.term.as_deref().unwrap_or_default();
            let existing = matches!(
                verdict.counts,
                Some(Counts::ExistingAntiAffinity { .. } | Counts::ExistingLimit { .. })
            );
            match verdict.plugin {
                Plugin::NodeAffinity => {
                    _ = needs.certain.insert(*positions.by_path.get(term)?);
                }
                Plugin::InterPodAffinity if !existing => {
                    _ = needs.certain.insert(*positions.by_path.get(term)?);
                }
                Plugin::PodTopologySpread => {
                    _ = needs.spread.insert(*positions.by_path.get(term)?);
                }
                Plugin::NodePorts => {
                    self.budget.spend(rules.len()).ok()?;
                    let is_of = |rule: &Rule| match rule {
                        Rule::HostPort(port, protocol) => {
                            verdict.detail.starts_with(&format!("host port {port}/{protocol} "))
                        }
                        _ => false,
                    };
                    _ = needs.certain.insert(rules.iter().position(is_of)?);
                }
                Plugin::TaintToleration => {}
                _ => return None,
            }
        }
        for taint in untolerated(problem, self.nodes.get(node)?) {
            self.budget.spend(1).ok()?;
            needs.certain.insert(*positions.by_taint.get(&commands::taint_text(taint))?);
        }
        Some(needs)
    }

    fn patch(&self, relaxed: &[&Rule]) -> Option<PodPatch> {
        let pod = &self.pod.pod;
        let mut patch = PodPatch::new(pod)?;
        let mut tolerations = pod.spec.tolerations.clone();
        // From the last to the first: removing an element of a list moves those after it.
        for rule in relaxed.iter().rev() {
            rule.relax_in(&mut patch)?;
            match rule {
                Rule::Taint(Taint { key, value, effect }) => {
                    let operator = if value.is_empty() { "Exists" } else { "Equal" }.to_owned();
                    tolerations.push(berth_api::object::Toleration {
                        key: key.clone(),
                        operator,
                        value: value.clone(),
                        effect: effect.clone(),
                        toleration_seconds: None,
                    });
                }
                Rule::HostPort(port, _) => {
                    for (i, container) in pod.spec.containers.iter().enumerate() {
                        for (j, _) in container.ports.iter().enumerate().filter(|(_, p)| p.host_port == *port)
                        {
                            let path = format!("/spec/containers/{i}/ports/{j}/hostPort");
                            patch.set(&path, json!(0))?;
                        }
                    }
                }
                _ => {}
            }
        }
        if tolerations.len() > pod.spec.tolerations.len() {
            // The whole list: a template does not have the tolerations that pods get when they are created.
            tolerations.retain(|t| t.toleration_seconds.is_none());
            patch.set("/spec/tolerations", serde_json::to_value(tolerations).ok()?)?;
        }
        Some(patch)
    }
}

/// Relaxes rules of a policy.
fn patch_policy(policy: &PlacementPolicy, rules: &[Rule]) -> Option<Command> {
    let mut patch = PodPatch::of(json!({"spec": policy.spec}));
    rules.iter().rev().try_for_each(|rule| rule.relax_in(&mut patch))?;
    Some(commands::patch_policy(policy, &patch.operations))
}
