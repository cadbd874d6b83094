//! The state that plans change: the pods where they are, and what the goals measure there.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::{Node, Pod};
use berth_api::work::WorkBudget;
use berth_engine::Moves;
use smallvec::SmallVec;

use crate::budgets::{Budgets, OfPod};
use crate::fixed::{Replicas, Surroundings, by_rules, reason};
use crate::goal::Goal;
use crate::nodes::{Amounts, NodeUses};
use crate::request::{Input, Request, RunningPod};
use crate::waiting::Waiting;

/// Steps of work to place a pending pod, and to try a move.
pub(crate) const PLACEMENT_STEPS: usize = 100;
const MOVE_STEPS: usize = 50;

/// The values of the goals, in their order.
pub(crate) type Values = SmallVec<[i64; 6]>;

/// What is known of a running pod besides its rules.
pub(crate) struct PodInfo<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) stays: Option<String>,
    pub(crate) is_of_node: bool,
    pub(crate) requests: Amounts,
    pub(crate) budgets: OfPod,
    pub(crate) is_ready: bool,
}

impl PodInfo<'_> {
    pub(crate) fn priority(&self) -> i32 {
        self.pod.spec.priority.unwrap_or(0)
    }

    /// Whether pods that are otherwise the same are not: they have claims of their own.
    pub(crate) fn has_own_claims(&self) -> bool {
        let spec = &self.pod.spec;
        !spec.resource_claims.is_empty() || spec.volumes.iter().any(|volume| volume.matters())
    }

    /// Who is moved first: less important, then younger pods, and the smaller ones.
    pub(crate) fn rank(&self) -> (i32, i64, Amounts) {
        (self.priority(), -self.pod.started().unwrap_or(i64::MAX), self.requests)
    }
}

/// A move that can be taken back.
struct Step {
    pod: usize,
    from: usize,
    was_ready: bool,
}

/// A cluster whose pods are moved.
pub(crate) struct Board<'a> {
    pub(crate) moves: Moves,
    pub(crate) pods: Vec<PodInfo<'a>>,
    pub(crate) nodes: NodeUses,
    pub(crate) waiting: Waiting<'a>,
    /// The pods that may move, by node.
    pub(crate) movable_on: Vec<Vec<usize>>,
    /// The pods that may move, by class.
    pub(crate) movable_of: Vec<Vec<usize>>,
    pub(crate) goals: Vec<Goal>,
    /// What the search may still do. What was begun is ended, so that values are never those of a part.
    pub(crate) work: WorkBudget,
    nodes_by_name: &'a BTreeMap<String, Node>,
    budgets: Budgets<'a>,
    steps: Vec<Step>,
}

impl<'a> Board<'a> {
    pub(crate) fn new(input: Input<'a>, request: &Request) -> Board<'a> {
        let Input { mut cluster, nodes, namespaces, running, pending, budgets, scales } = input;
        let waiting_pods = || pending.iter().flat_map(|unit| unit.pods.iter().copied());
        let replicas = match request.movable.min_replicas {
            0 => Replicas::default(),
            _ => Replicas::of(running.iter().map(|of| of.pod).chain(waiting_pods())),
        };
        let mut budgets = Budgets::new(&budgets);
        waiting_pods().for_each(|pod| _ = budgets.add(pod, false));
        // First: their rules distinguish pods.
        let waiting = Waiting::new(&mut cluster, pending);
        let names: Vec<_> = running.iter().map(|of| name(of.pod)).collect();
        let (mut moves, positions) = Moves::new(cluster, &names);
        let names = moves.nodes().to_vec();
        let cluster = moves.cluster();
        let objects = names.iter().map(|name| {
            (nodes.get(name), ["cpu", "memory"].map(|resource| cluster.requested(name, resource)))
        });
        let mut uses = NodeUses::new(objects, request.threshold, request.price_label.as_deref());
        // Pods that are being deleted are there until they are gone.
        for of in running.iter().filter(|of| of.pod.metadata.is_deleting()) {
            if let Ok(node) = names.binary_search_by(|name| name.as_str().cmp(of.node)) {
                uses.note(node, [0, 0], of.pod.belongs_to_node(), 1);
            }
        }
        let by_rules: Vec<_> = positions.iter().map(|at| by_rules(cluster, running[*at].pod)).collect();
        let around = Surroundings { namespaces, replicas, now: request.now };
        let mut infos = Vec::with_capacity(positions.len());
        for (pod, at) in positions.into_iter().enumerate() {
            let running = RunningPod { stays: running[at].stays.or(by_rules[pod]), ..running[at] };
            let requests = ["cpu", "memory"].map(|resource| moves.requested(pod, resource));
            let node = nodes.get(running.node);
            infos.push(info(&running, node, requests, &mut budgets, &around, request));
        }
        budgets.count(scales);
        let mut movable_on = vec![Vec::new(); moves.nodes().len()];
        let mut movable_of: Vec<Vec<usize>> = Vec::new();
        for (pod, info) in infos.iter().enumerate() {
            uses.note(moves.node_of(pod), info.requests, info.is_of_node, 1);
            if info.stays.is_none() {
                movable_on[moves.node_of(pod)].push(pod);
                let class = moves.class_of(pod);
                movable_of.resize_with(movable_of.len().max(class + 1), Vec::new);
                movable_of[class].push(pod);
            }
        }
        // By rank, so that the order of names, which replacements change, decides nothing.
        let by_rank = |pods: &mut Vec<usize>| pods.sort_by_key(|pod| (infos[*pod].rank(), *pod));
        movable_of.iter_mut().for_each(by_rank);
        movable_on.iter_mut().for_each(by_rank);
        Board {
            moves,
            pods: infos,
            nodes: uses,
            waiting,
            movable_on,
            movable_of,
            goals: request.goals.clone(),
            work: WorkBudget::new(request.max_steps),
            nodes_by_name: nodes,
            budgets,
            steps: Vec::new(),
        }
    }

    pub(crate) fn values(&mut self) -> Values {
        let standing = self.moves.standing();
        let mut values = Values::new();
        for i in 0..self.goals.len() {
            values.push(match self.goals[i] {
                Goal::Required => standing.rejected,
                Goal::Defragment => {
                    self.spend(PLACEMENT_STEPS * self.waiting.n_pods());
                    self.waiting.n_unplaced(self.moves.cluster())
                }
                Goal::Spread => standing.skew,
                Goal::Preferences => standing.unmet,
                Goal::Consolidate => self.nodes.price,
                Goal::Balance => self.nodes.n_hot,
            });
        }
        values
    }

    pub(crate) fn node_of(&self, pod: usize) -> usize {
        self.moves.node_of(pod)
    }

    pub(crate) fn label(&self, node: usize, key: &str) -> Option<&str> {
        self.nodes_by_name.get(&self.moves.nodes()[node])?.metadata.label(key)
    }

    /// Takes some steps of work; false if the search has no more.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        self.work.spend(steps).is_ok()
    }

    /// Moves a pod, if that is legal now.
    pub(crate) fn apply(&mut self, pod: usize, to: usize) -> bool {
        self.spend(MOVE_STEPS);
        let from = self.node_of(pod);
        let PodInfo { requests, is_of_node, budgets, is_ready, stays, .. } = &self.pods[pod];
        if from == to || stays.is_some() || !self.budgets.allow(budgets, *is_ready) {
            return false;
        }
        let (requests, is_of_node, was_ready) = (*requests, *is_of_node, *is_ready);
        if !self.moves.apply(pod, to) {
            return false;
        }
        self.nodes.count(from, requests, is_of_node, -1);
        self.nodes.count(to, requests, is_of_node, 1);
        self.set_ready(pod, true);
        self.relocate(pod, from, to);
        self.steps.push(Step { pod, from, was_ready });
        true
    }

    /// Why the disruption budgets keep a pod where it is now.
    pub(crate) fn held_by_budget(&self, pod: usize) -> Option<String> {
        let PodInfo { budgets, is_ready, .. } = &self.pods[pod];
        self.budgets.refusal(budgets, *is_ready)
    }

    pub(crate) fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// The moves so far: the pods and where they went; a pod may be among them more than once.
    pub(crate) fn steps(&self) -> Vec<(usize, usize)> {
        let mut nodes: HashMap<usize, usize> = HashMap::new();
        let mut steps: Vec<_> = self
            .steps
            .iter()
            .rev()
            .map(|step| {
                let to = nodes.insert(step.pod, step.from).unwrap_or_else(|| self.node_of(step.pod));
                (step.pod, to)
            })
            .collect();
        steps.reverse();
        steps
    }

    /// Takes moves back until there are this many.
    pub(crate) fn undo_to(&mut self, n_steps: usize) {
        while self.steps.len() > n_steps {
            let Some(Step { pod, from, was_ready }) = self.steps.pop() else { return };
            let to = self.node_of(pod);
            self.moves.undo();
            let PodInfo { requests, is_of_node, .. } = self.pods[pod];
            self.nodes.count(to, requests, is_of_node, -1);
            self.nodes.count(from, requests, is_of_node, 1);
            self.set_ready(pod, was_ready);
            self.relocate(pod, to, from);
        }
    }

    fn set_ready(&mut self, pod: usize, is_ready: bool) {
        let info = &mut self.pods[pod];
        if info.is_ready != is_ready {
            info.is_ready = is_ready;
            self.budgets.count_ready(&info.budgets, if is_ready { 1 } else { -1 });
        }
    }

    fn relocate(&mut self, pod: usize, from: usize, to: usize) {
        let Board { pods, movable_on, .. } = self;
        movable_on[from].retain(|other| *other != pod);
        let key = |pod: usize| (pods[pod].rank(), pod);
        let at = movable_on[to].partition_point(|other| key(*other) < key(pod));
        movable_on[to].insert(at, pod);
    }
}

pub(crate) fn name(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

fn info<'a>(
    running: &RunningPod<'a>,
    node: Option<&Node>,
    requests: Amounts,
    budgets: &mut Budgets<'a>,
    around: &Surroundings<'a>,
    request: &Request,
) -> PodInfo<'a> {
    let budgets = budgets.add(running.pod, true);
    let stays = reason(running, node, budgets.len(), around, &request.movable);
    PodInfo {
        pod: running.pod,
        stays,
        is_of_node: running.pod.belongs_to_node(),
        requests,
        budgets,
        is_ready: !running.pod.is_unready(),
    }
}
