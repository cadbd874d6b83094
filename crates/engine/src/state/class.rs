//! Classes: pods with the same rules in the same namespace, compiled once.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::rules::PodRules;
use smallvec::SmallVec;

use super::intern::Symbol;
use super::matcher::{CarriedKind, MatcherId};
use super::node::Resources;
use super::node_condition::{NodeMatcher, NodeSelectorMatcher};
use super::topology::TopologyId;
use crate::violation::rule::RuleAt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(pub(crate) u32);

/// What makes pods one class.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClassKey {
    pub(crate) namespace: Symbol,
    /// Index of the profile; `None` if no profile has the pod's scheduler name.
    pub(crate) profile: Option<usize>,
    pub(crate) rules: PodRules,
    /// Kind and name of the controlling owner, where default spread constraints look at it.
    pub(crate) owner: Option<(String, String)>,
}

/// A required pod term: the pods it asks for, and the topologies any of which may match.
#[derive(Clone, Debug)]
pub(crate) struct RequiredTerm {
    /// Index of the term in the pod's rules.
    pub(crate) index: usize,
    pub(crate) matcher: MatcherId,
    pub(crate) topologies: SmallVec<[TopologyId; 1]>,
}

/// A preferred pod term. A term over all topologies counts each pod once, however many domains the pod
/// shares with the node: by inclusion and exclusion over combined topologies, whose signs are here.
#[derive(Clone, Debug)]
pub(crate) struct PreferredTerm {
    /// Negative for anti-affinity.
    pub(crate) weight: i64,
    pub(crate) matcher: MatcherId,
    pub(crate) topologies: SmallVec<[(TopologyId, i64); 1]>,
}

/// A term as it acts on other pods: a place in the counters of its matcher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) matcher: MatcherId,
    pub(crate) topology: TopologyId,
    pub(crate) kind: CarriedKind,
    pub(crate) weight: i64,
}

/// A class with its rules compiled against the cluster's symbols, topologies and matchers.
pub(crate) struct Class {
    pub(crate) key: Arc<ClassKey>,
    pub(crate) requests: Resources,
    pub(crate) images: Box<[Symbol]>,
    pub(crate) node_selector: Box<[(Symbol, Symbol)]>,
    pub(crate) required_node_affinity: Box<[NodeSelectorMatcher]>,
    pub(crate) preferred_node_affinity: Box<[NodeMatcher]>,
    /// All terms ask for the pods that match *all* of them, so they share a matcher.
    pub(crate) required_affinity: Box<[RequiredTerm]>,
    pub(crate) required_anti_affinity: Box<[RequiredTerm]>,
    pub(crate) preferred: Box<[PreferredTerm]>,
    pub(crate) carried: Box<[Carried]>,
    /// The rules that are required during execution, too.
    pub(crate) executing: Box<[RuleAt]>,
    /// The terms of affinity among them, as they are asked of a pod that runs: they share a matcher for the pods that
    /// match all of *these*, since what is ignored during execution must not evict anybody.
    pub(crate) executing_affinity: Box<[RequiredTerm]>,
}

impl Class {
    pub(crate) fn rules(&self) -> &PodRules {
        &self.key.rules
    }

    /// A required term of affinity as it is asked of a pod that runs, and the terms that ask for the same pods.
    pub(crate) fn affinity_of_running(&self, i: usize) -> (&RequiredTerm, &[RequiredTerm]) {
        let term = &self.required_affinity[i];
        match self.executing_affinity.iter().find(|executing| executing.index == term.index) {
            Some(executing) => (executing, &self.executing_affinity),
            None => (term, &self.required_affinity),
        }
    }
}

/// All classes.
#[derive(Default)]
pub(crate) struct Classes {
    all: Vec<Class>,
    by_key: HashMap<Arc<ClassKey>, ClassId>,
}

impl Classes {
    pub(crate) fn find(&self, key: &ClassKey) -> Option<ClassId> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn insert(&mut self, class: Class) -> ClassId {
        let id = ClassId(self.all.len() as u32);
        self.by_key.insert(class.key.clone(), id);
        self.all.push(class);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: ClassId) -> &Class {
        &self.all[id.0 as usize]
    }
}
