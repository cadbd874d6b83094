//! The result of a plan: its evictions with the rules that they fix, and why no pod is evicted for the other rules.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::types::{Remedies, Remedy, Stays, Target, Victim, ViolationKey};
use super::choice::Answer;
use super::{Plan, PodName};
use crate::state::State;
use crate::state::group::GroupId;
use crate::state::pod::prepared::PreparedPod;
use crate::verdict::witness::WitnessCache;

/// A victim: its node, its target, and the rules that its eviction fixes.
struct Part {
    pod: PreparedPod,
    node: Arc<str>,
    target: Target,
    cures: Vec<ViolationKey>,
    is_held: bool,
    group: Option<GroupId>,
}

/// The plan's result, without verdicts.
pub(super) struct Found {
    parts: Vec<Part>,
    stays: Vec<Stays>,
}

impl State {
    /// With verdicts and texts, after the state is restored.
    pub(super) fn remedies(&self, found: Found) -> Remedies {
        let cache = WitnessCache::default();
        let remedy = |Part { pod, node, target, cures, is_held, group }: Part| {
            let (id, rule) = self.broken_rule(cures.first()?).ok()?;
            let verdict = self.verdict_of(id, self.pods.get(id).node?, rule, &cache);
            let victim = Victim {
                namespace: self.symbols.text(pod.namespace).to_owned(),
                name: pod.name.to_string(),
                uid: pod.uid.to_string(),
                node: node.to_string(),
                priority: pod.precedence.priority,
            };
            let group = group.map(|group| self.groups.key(group).name.to_string());
            Some(Remedy { victim, cures, verdict, target, is_held, group })
        };
        Remedies { remedies: found.parts.into_iter().filter_map(remedy).collect(), stays: found.stays }
    }
}

impl Plan<'_, '_> {
    /// The result for every rule.
    pub(super) fn found(mut self) -> Found {
        let mut cures: HashMap<PodName, Vec<ViolationKey>> = HashMap::new();
        self.waiting.retain(|name, _| !self.evicted.contains(name) && !self.nowhere.contains_key(name));
        for (i, rule) in self.pending.iter().enumerate() {
            let answer = self.answers.get(&i);
            let by = if self.evicted.contains(&rule.name) {
                vec![rule.name.clone()]
            } else if !self.is_broken(rule) {
                match answer {
                    Some(Answer::Others(others)) if !others.is_empty() => others.clone(),
                    _ => self.cured.get(&i).cloned().into_iter().collect(),
                }
            } else if self.nowhere.contains_key(&rule.name) {
                vec![rule.name.clone()]
            } else {
                match answer {
                    Some(Answer::Blocked(others)) => {
                        let needed = self.needed.get(&i).into_iter().flatten();
                        others
                            .iter()
                            .chain(needed.filter(|n| self.waiting.contains_key(*n)))
                            .cloned()
                            .collect()
                    }
                    _ => Vec::new(),
                }
            };
            if by.is_empty() {
                let reason = self.reason(i);
                self.stays.push(Stays { key: rule.key.clone(), reason });
            }
            for name in by {
                cures.entry(name).or_default().push(rule.key.clone());
            }
        }
        self.share_cures(&mut cures);
        let mut part = |name: PodName, pod, node, target, is_held, group| {
            let mut cures = cures.remove(&name)?;
            cures.sort_unstable();
            Some(Part { pod, node, target, cures, is_held, group })
        };
        let steps = self.steps.drain(..);
        let mut parts: Vec<Part> = steps
            .filter_map(|step| part(step.name(), step.pod, step.node, step.target, false, step.group))
            .collect();
        let nowhere = self.nowhere.drain().chain(self.waiting.drain());
        let nowhere =
            nowhere.map(|(name, (pod, node, why))| part(name, pod, node, Target::Nowhere(why), true, None));
        let mut nowhere: Vec<Part> = nowhere.flatten().collect();
        nowhere.sort_by(|a, b| a.cures.cmp(&b.cures).then_with(|| a.pod.name.cmp(&b.pod.name)));
        parts.extend(nowhere);
        self.stays.sort_by(|a, b| a.key.cmp(&b.key));
        Found { parts, stays: std::mem::take(&mut self.stays) }
    }

    /// Why no pod is evicted for a rule.
    fn reason(&self, i: usize) -> String {
        let state = self.speculation.state();
        match self.answers.get(&i) {
            Some(Answer::Waits(other)) => {
                format!("{}, which conflicts with it, is being deleted already", text_of(state, other))
            }
            Some(Answer::Stuck(why)) => why.clone(),
            _ => {
                self.reasons.get(&i).cloned().unwrap_or_else(|| "no eviction would fix this rule".to_owned())
            }
        }
    }
}

pub(super) fn text_of(state: &State, (namespace, name): &PodName) -> String {
    format!("{}/{name}", state.symbols.text(*namespace))
}
