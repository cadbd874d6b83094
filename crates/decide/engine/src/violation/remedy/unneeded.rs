//! Unneeded evictions: a later victim's replacement matches the affinity of an earlier victim where that one was.

use rustc_hash::FxHashMap;

use super::speculation::Savepoint;
use super::{Plan, PodName, Step};
use crate::state::counting::matcher::MatcherId;
use crate::state::rule_set::RuleAt;
use crate::violation::types::Target;

impl Plan<'_, '_> {
    /// Leaves out pods that were evicted for their affinity, where a later replacement matches it.
    pub(super) fn leave_out_unneeded(&mut self) {
        let mut last = self.last_matching();
        for i in (0..self.steps.len()).rev() {
            if !self.steps[i].needs_match {
                continue;
            }
            let rule_set = self.speculation.state().rule_sets.get(self.steps[i].pod.rule_set);
            let rules = rule_set.executing.iter().filter_map(|rule| match rule {
                RuleAt::Affinity(term) => Some(rule_set.required_affinity[*term as usize].matcher),
                _ => None,
            });
            let matching = rules.filter_map(|matcher| last.get(&matcher)).filter(|later| **later > i).max();
            if let Some(matching) = matching.map(|later| self.steps[*later].name())
                && self.try_without(i, &matching)
            {
                last = self.last_matching();
            }
        }
    }

    /// By matcher, the last step whose replacement matches it where it was placed.
    fn last_matching(&self) -> FxHashMap<MatcherId, usize> {
        let state = self.speculation.state();
        let mut last = FxHashMap::default();
        let placed = self.steps.iter().enumerate().filter(|(_, s)| matches!(s.target, Target::Node(_)));
        for (i, step) in placed {
            if let Some(id) = state.pods.find(step.pod.namespace, &step.pod.name) {
                let matched = &state.signatures.get(state.pods.get(id).signature).matched;
                last.extend(matched.iter().map(|matcher| (*matcher, i)));
            }
        }
        last
    }

    /// Leaves step `i` out if all rules that are fixed are fixed without it, and later replacements fit on their nodes.
    /// Returns whether it did.
    fn try_without(&mut self, i: usize, matching: &PodName) -> bool {
        let cured: Vec<usize> =
            (0..self.pending.len()).filter(|rule| !self.is_broken(&self.pending[*rule])).collect();
        let (savepoints, steps): (Vec<Savepoint>, Vec<Step>) =
            self.steps[i..].iter().map(|step| (step.savepoint, step.clone())).unzip();
        let name = steps[0].name();
        self.speculation.undo_to(savepoints[0]);
        self.evicted.remove(&name);
        let mut savepoints_without = Vec::new();
        let mut fits = true;
        for step in &steps[1..] {
            savepoints_without.push(self.speculation.savepoint());
            fits &= self.again(step);
        }
        self.speculation.evaluate();
        if fits && cured.iter().all(|rule| !self.is_broken(&self.pending[*rule])) {
            for rule in cured {
                let by = self.cured.get(&rule);
                if self.pending[rule].name == name || by.is_some_and(|by| *by == name) {
                    self.cured.insert(rule, matching.clone());
                }
            }
            self.steps.remove(i);
            self.steps[i..]
                .iter_mut()
                .zip(savepoints_without)
                .for_each(|(step, savepoint)| step.savepoint = savepoint);
            return true;
        }
        self.speculation.undo_to(savepoints[0]);
        self.evicted.insert(name);
        steps.iter().for_each(|step| _ = self.again(step));
        self.speculation.evaluate();
        false
    }

    /// Repeats a step; returns whether its replacement fits on its node.
    fn again(&mut self, step: &Step) -> bool {
        let Some(id) = self.speculation.state().pods.find(step.pod.namespace, &step.pod.name) else {
            return false;
        };
        let (.., replacement) = self.speculation.remove(id);
        let Target::Node(node) = &step.target else { return true };
        let fits = self.speculation.fits_on(&replacement, node);
        self.speculation.place(&replacement, node);
        fits
    }
}
