//! What a plan is made from.

use std::collections::BTreeMap;

use berth_api::object::group::RemainingGroup;
use berth_api::object::{Node, Pod, PodDisruptionBudget};
use berth_control::budget::Scales;
use berth_engine::Cluster;
use berth_rules::KnownNamespaces;
use jiff::Timestamp;

use crate::goal::Goal;
use crate::movable::Movable;
use crate::threshold::Threshold;

/// A cluster, for which a plan is made.
pub struct Input<'a> {
    /// A copy of its state. Pending pods are not in it.
    pub cluster: Cluster,
    pub nodes: &'a BTreeMap<String, Node>,
    pub namespaces: &'a KnownNamespaces,
    pub running: Vec<RunningPod<'a>>,
    /// The pods without a node, in the order in which the scheduler tries them.
    pub pending: Vec<Pending<'a>>,
    pub budgets: Vec<&'a PodDisruptionBudget>,
    /// The scales of the controllers of pods, for budgets without a status.
    pub scales: &'a Scales,
}

/// Pods without a node that are placed at once.
pub struct Pending<'a> {
    /// A single pod, or the members of a group.
    pub pods: Vec<&'a Pod>,
    /// What is left to decide of the group; none for a single pod. With a problem, it cannot be placed whatever moves.
    pub group: Option<RemainingGroup>,
}

impl<'a> From<&'a Pod> for Pending<'a> {
    fn from(pod: &'a Pod) -> Pending<'a> {
        Pending { pods: vec![pod], group: None }
    }
}

#[derive(Clone, Copy)]
pub struct RunningPod<'a> {
    pub pod: &'a Pod,
    pub node: &'a str,
    /// Why it must stay, if the caller knows a reason.
    pub stays: Option<&'a str>,
    /// Whether it may move however short it has been running: the plan has moved it before.
    pub is_settled: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The goals, the most important first.
    pub goals: Vec<Goal>,
    /// The most moves of a plan; the rest of it is left out.
    pub max_moves: Option<usize>,
    pub movable: Movable,
    /// The share of a node above which [`Goal::Balance`] counts it.
    pub threshold: Threshold,
    /// The node label with a number by which [`Goal::Consolidate`] weighs nodes; without it each node counts as 1.
    pub price_label: Option<String>,
    pub now: Timestamp,
    /// The most states that are looked at to find the best plan of all.
    pub max_states: usize,
    /// The most steps of work of the whole search; putting its moves in order takes a quarter as many at most.
    pub max_steps: u64,
}

impl Request {
    /// The defaults, for these goals.
    pub fn new(goals: Vec<Goal>, now: Timestamp) -> Request {
        Request {
            goals,
            max_moves: None,
            movable: Movable::default(),
            threshold: Threshold::default(),
            price_label: None,
            now,
            max_states: 20_000,
            max_steps: 300_000_000,
        }
    }
}
