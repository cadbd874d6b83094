//! Pods that go and come in thought: the state is changed for as long as the thought lasts, and is then what it was.
//!
//! Everything is taken back in the opposite order, so that even the numbers of pods are the same again. Waiting
//! pods are not told of it, and a watch of violations has nothing to tell when it is over.

use super::super::types::Target;
use super::super::watch::Judged;
use crate::decision::Outcome;
use crate::state::cluster::Cluster;
use crate::state::incoming::PreparedPod;
use crate::state::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::pod::{PodId, Standing};
use crate::state::uid::Uid;
use crate::wake::ClusterChange;

/// The state, changed in thought.
pub(super) struct Thought<'a> {
    cluster: &'a mut Cluster,
    done: Vec<Done>,
    noted: Option<Vec<ClusterChange>>,
    is_watched: bool,
}

enum Done {
    Removed(PreparedPod, Symbol),
    Placed(PreparedPod),
}

/// How much of a thought had been done at some moment.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl<'a> Thought<'a> {
    pub(super) fn new(cluster: &'a mut Cluster) -> Thought<'a> {
        let is_watched = cluster.watch.is_some();
        cluster.watch_violations();
        let noted = cluster.noted.take();
        let mut thought = Thought { cluster, done: Vec::new(), noted, is_watched };
        thought.judge();
        thought
    }

    pub(super) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.done.len())
    }

    /// Takes back what was done since.
    pub(super) fn undo_to(&mut self, mark: Mark) {
        while self.done.len() > mark.0 {
            match self.done.pop() {
                Some(Done::Removed(pod, node)) => _ = self.cluster.assign(&pod, node),
                Some(Done::Placed(pod)) => self.cluster.forget(&pod),
                None => break,
            }
        }
    }

    /// Which rules hold or are broken now, that were not when this was last asked.
    pub(super) fn judge(&mut self) -> Judged {
        let Some(mut watch) = self.cluster.watch.take() else { return Judged::default() };
        let judged = watch.refresh(self.cluster);
        self.cluster.watch = Some(watch);
        judged
    }

    /// Takes a pod away. Returns what its controller would make in its place: the same pod without a node.
    pub(super) fn remove(&mut self, id: PodId) -> PreparedPod {
        let record = self.cluster.pods.get(id);
        let (pod, node) = (record.as_incoming(), record.node_name);
        self.cluster.remove_record(id);
        self.done.push(Done::Removed(pod.clone(), node));
        let standing = Standing { started: Standing::NOT_STARTED, ..pod.standing };
        PreparedPod { uid: Uid::default(), standing, ..pod }
    }

    /// Puts a pod on a node.
    pub(super) fn place(&mut self, pod: &PreparedPod, node: Symbol) -> Option<PodId> {
        self.cluster.assign(pod, node);
        self.done.push(Done::Placed(pod.clone()));
        self.cluster.pods.find(pod.namespace, &pod.name)
    }

    /// Whether all rules let a pod go to a node.
    pub(super) fn fits_on(&mut self, pod: &PreparedPod, node: Symbol) -> bool {
        let incoming = self.cluster.incoming(pod);
        let (cluster, node) = (&*self.cluster, self.cluster.nodes.find(node));
        node.is_some_and(|node| cluster.context_of_any(&incoming).is_some_and(|c| c.admits(node)))
    }

    /// Looks for the best node where a pod fits with all rules and breaks none that is required during execution,
    /// and puts it there. All that held before holds then, too.
    pub(super) fn seek(&mut self, pod: &PreparedPod) -> (Target, Judged) {
        let first = match self.first_choice(pod) {
            Ok(first) => first,
            Err(why) => return (Target::Nowhere(why), Judged::default()),
        };
        if let Some(found) = first.and_then(|node| self.try_on(pod, node)) {
            return found;
        }
        let mut broken = None;
        for node in self.by_score(pod).into_iter().filter(|node| Some(*node) != first) {
            match self.try_on(pod, node) {
                Some(found) => return found,
                None => broken = Some(node),
            }
        }
        let why = match first.or(broken) {
            Some(_) => {
                "wherever it fits, its coming would break a rule of another pod that is required during execution"
            }
            None => "no node is known",
        };
        (Target::Nowhere(why.to_owned()), Judged::default())
    }

    /// The node that the scheduler would choose; none if the pod's scheduler is not one that is known here.
    fn first_choice(&mut self, pod: &PreparedPod) -> Result<Option<NodeId>, String> {
        let outcome = if self.cluster.classes.get(pod.class).key.profile.is_some() {
            self.cluster.decide_prepared(pod)
        } else {
            let incoming = self.cluster.incoming(pod);
            let context = self.cluster.context_of_any(&incoming);
            match context.map(|context| self.cluster.run_in(context).outcome()) {
                Some(outcome) => outcome,
                None => return Err("there is no scheduling profile".to_owned()),
            }
        };
        match &outcome {
            Outcome::Placed { node, .. } => {
                Ok(self.cluster.symbols.get(node).and_then(|node| self.cluster.nodes.find(node)))
            }
            other => Err(other.message().into_owned()),
        }
    }

    /// All nodes on which a pod fits, the best first.
    fn by_score(&mut self, pod: &PreparedPod) -> Vec<NodeId> {
        let incoming = self.cluster.incoming(pod);
        let Some(context) = self.cluster.context_of_any(&incoming) else { return Vec::new() };
        let run = self.cluster.run_in(context);
        let mut nodes: Vec<_> = run.totals.iter().zip(&run.feasible).collect();
        nodes.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| run.node_name(**x).cmp(run.node_name(**y))));
        nodes.into_iter().map(|(_, node)| *node).collect()
    }

    /// Puts a pod on a node, unless that breaks a rule.
    fn try_on(&mut self, pod: &PreparedPod, node: NodeId) -> Option<(Target, Judged)> {
        let mark = self.mark();
        let name = self.cluster.nodes.get(node).name;
        self.place(pod, name);
        let judged = self.judge();
        if judged.began.is_empty() {
            return Some((Target::Node(self.cluster.symbols.text(name).to_owned()), judged));
        }
        self.undo_to(mark);
        self.judge();
        None
    }
}

impl Drop for Thought<'_> {
    fn drop(&mut self) {
        self.undo_to(Mark(0));
        self.cluster.noted = self.noted.take();
        if !self.is_watched {
            self.cluster.watch = None;
        }
    }
}
