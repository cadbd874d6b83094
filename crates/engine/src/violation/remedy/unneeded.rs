//! Pods that need not go after all: company came to them with the replacement of one that went later.

use super::thought::Mark;
use super::{Plan, PodName, Step};
use crate::violation::types::Target;

impl Plan<'_, '_> {
    /// Leaves out pods that went because they lacked company, where it came later.
    pub(super) fn leave_out_unneeded(&mut self) {
        for i in (0..self.steps.len()).rev().filter(|i| self.steps[*i].lacks_company).collect::<Vec<_>>() {
            if let Some(company) = self.company_for(i) {
                self.try_without(i, &company);
            }
        }
    }

    /// A pod that went after step `i` and whose replacement may be company for the pod that went then.
    fn company_for(&self, i: usize) -> Option<PodName> {
        let cluster = self.thought.cluster();
        let term = cluster.classes.get(self.steps[i].pod.class).required_affinity.first()?;
        let placed = self.steps[i + 1..].iter().filter(|step| matches!(step.target, Target::Node(_)));
        let is_company = |step: &&Step| {
            let id = cluster.pods.find(step.pod.namespace, &step.pod.name);
            id.is_some_and(|id| cluster.is_matched(cluster.pods.get(id), term.matcher))
        };
        placed.filter(is_company).map(Step::name).next()
    }

    /// Leaves step `i` out if all that is cured is cured without it, and those after it fit where they went.
    fn try_without(&mut self, i: usize, company: &PodName) {
        let cured: Vec<usize> =
            (0..self.pending.len()).filter(|rule| !self.is_broken(&self.pending[*rule])).collect();
        let (marks, steps): (Vec<Mark>, Vec<Step>) =
            self.steps[i..].iter().map(|step| (step.mark, step.clone())).unzip();
        let name = steps[0].name();
        self.thought.undo_to(marks[0]);
        self.gone.remove(&name);
        let mut marks_without = Vec::new();
        let mut fits = true;
        for step in &steps[1..] {
            marks_without.push(self.thought.mark());
            fits &= self.again(step);
        }
        self.thought.judge();
        if fits && cured.iter().all(|rule| !self.is_broken(&self.pending[*rule])) {
            for rule in cured {
                let by = self.cured.get(&rule);
                if self.pending[rule].name == name || by.is_some_and(|by| *by == name) {
                    self.cured.insert(rule, company.clone());
                }
            }
            self.steps.remove(i);
            self.steps[i..].iter_mut().zip(marks_without).for_each(|(step, mark)| step.mark = mark);
            return;
        }
        self.thought.undo_to(marks[0]);
        self.gone.insert(name);
        steps.iter().for_each(|step| _ = self.again(step));
        self.thought.judge();
    }

    /// Carries a step out again; tells whether its replacement fits where it went.
    fn again(&mut self, step: &Step) -> bool {
        let Some(id) = self.thought.cluster().pods.find(step.pod.namespace, &step.pod.name) else {
            return false;
        };
        let replacement = self.thought.remove(id);
        let Target::Node(node) = &step.target else { return true };
        let Some(node) = self.thought.cluster().symbols.get(node) else { return false };
        let fits = self.thought.fits_on(&replacement, node);
        self.thought.place(&replacement, node);
        fits
    }
}
