//! Compiled spread constraints.

use berth_api::feature_gates::VersionChange;
use std::sync::Arc;

use berth_rules::{Selector, SpreadConstraint};
use smallvec::smallvec;

use crate::state::State;
use crate::state::counting::matcher::{MatcherId, NamespaceMatcher, PodQuery};
use crate::state::counting::topology::TopologyId;
use crate::state::interned::intern::{Labels, Symbol};
use crate::state::interned::uses::Use;
use crate::state::rule_set::selector::LabelMatcher;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(crate) constraint: Arc<SpreadConstraint>,
    pub(crate) topology: TopologyId,
    /// The pods counted; none for a selector that matches nothing or everything: kube-scheduler counts
    /// no pods for either.
    pub(crate) matcher: Option<MatcherId>,
    /// 1 if the pod itself would count, where a pod is given.
    pub(crate) self_match: i64,
}

impl State {
    /// Whether the pod with these labels counts for a constraint.
    pub(in crate::state) fn counts_itself(&self, spread: &Spread, labels: &Labels) -> bool {
        match spread.matcher {
            Some(matcher) => {
                let mut queries = self.matchers.get(matcher).queries.iter();
                queries.all(|query| query.labels.matches(&self.symbols, labels))
            }
            None => spread.constraint.selector.is_everything(),
        }
    }

    /// Compiles a constraint of pods in a namespace; adds what it uses to `uses`.
    pub(in crate::state) fn compile_spread(
        &mut self,
        namespace: Symbol,
        constraint: SpreadConstraint,
        uses: &mut Vec<Use>,
    ) -> Spread {
        let key = self.symbols.intern(&constraint.topology_key);
        let topology = self.topology(key, uses);
        let counts = match &constraint.selector {
            Selector::Nothing => false,
            selector if selector.is_everything() => {
                self.settings.config.feature_gates.has(VersionChange::EmptySpreadSelector)
            }
            _ => true,
        };
        let matcher = counts.then(|| {
            self.symbols.retain(namespace);
            let labels = LabelMatcher::compile(&mut self.symbols, &constraint.selector);
            let namespaces =
                NamespaceMatcher { names: [namespace].into(), selector: LabelMatcher::nothing() };
            let query = PodQuery { namespaces, labels, live_only: true, without_exempt: false };
            self.matcher(smallvec![query], [TopologyId::NODE], [], uses)
        });
        Spread { constraint: Arc::new(constraint), topology, matcher, self_match: 0 }
    }
}
