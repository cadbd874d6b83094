//! The default spread constraints of a profile, for pods without constraints.

use berth_rules::SpreadConstraint;

use crate::state::State;
use crate::state::interned::intern::Symbol;
use crate::state::interned::table::{Id, Keyed};
use crate::state::interned::uses::Use;
use crate::state::pod::signature::{LabelSetId, PodLabels};
use crate::state::rule_set::spread::Spread;
use crate::state::rule_set::{RuleSet, RuleSetId};

pub(crate) type DefaultSpreadId = Id<DefaultSpread>;

/// The default constraints of pods without constraints, resolved against services and owners as they are now.
#[derive(Clone)]
pub(crate) struct DefaultSpread {
    of: (RuleSetId, LabelSetId),
    pub(in crate::state) constraints: Box<[Spread]>,
    pub(in crate::state) uses: Vec<Use>,
}

impl Keyed for DefaultSpread {
    type Key = (RuleSetId, LabelSetId);

    fn key(&self) -> &(RuleSetId, LabelSetId) {
        &self.of
    }
}

impl State {
    /// The default constraints of pods with these rules and labels, with one more user; none if they have their own,
    /// or their profile has no defaults.
    pub(in crate::state) fn default_spread(
        &mut self,
        rule_set: RuleSetId,
        label_set: LabelSetId,
    ) -> Option<DefaultSpreadId> {
        let RuleSet { key, spread, .. } = self.rule_sets.get(rule_set);
        if !spread.is_empty() || self.profiles[key.profile?].default_constraints.is_empty() {
            return None;
        }
        let of = (rule_set, label_set);
        if let Some(id) = self.default_spreads.find(&of) {
            self.default_spreads.retain(id);
            return Some(id);
        }
        let (constraints, uses) = self.resolve_defaults(of);
        Some(self.default_spreads.insert(DefaultSpread { of, constraints, uses }))
    }

    /// Services or owners of a namespace have changed.
    pub(in crate::state) fn resolve_defaults_again(&mut self, namespace: Symbol) {
        let in_namespace =
            |spread: &DefaultSpread| self.label_sets.get(spread.of.1).of.namespace == namespace;
        let concerned: Vec<_> =
            self.default_spreads.iter().filter(|(_, s)| in_namespace(s)).map(|(id, s)| (id, s.of)).collect();
        for (id, of) in concerned {
            let (constraints, uses) = self.resolve_defaults(of);
            let spread = self.default_spreads.get_mut(id);
            spread.constraints = constraints;
            let before = std::mem::replace(&mut spread.uses, uses);
            self.release_all(before);
        }
    }

    fn resolve_defaults(
        &mut self,
        (rule_set, label_set): (RuleSetId, LabelSetId),
    ) -> (Box<[Spread]>, Vec<Use>) {
        let key = &self.rule_sets.get(rule_set).key;
        let PodLabels { namespace, labels, .. } = &self.label_sets.get(label_set).of;
        let selector = self.workloads.default_selector(&self.symbols, *namespace, labels, key.owner.as_ref());
        let Some(profile) = key.profile.filter(|_| !selector.is_everything()) else {
            return Default::default();
        };
        let namespace = *namespace;
        let defaults = self.profiles[profile].default_constraints.iter().enumerate();
        let parse = |(i, c)| {
            let path = format!("PodTopologySpreadArgs.defaultConstraints[{i}]");
            SpreadConstraint::parse(c, selector.clone(), path)
        };
        let defaults: Vec<_> = defaults.map(parse).collect();
        let mut uses = Vec::new();
        let compile = |constraint| self.compile_spread(namespace, constraint, &mut uses);
        (defaults.into_iter().map(compile).collect(), uses)
    }
}
