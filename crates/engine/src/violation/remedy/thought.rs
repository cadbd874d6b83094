//! Pods that go and come in thought: the state is changed for as long as the thought lasts, and is then what it was.
//!
//! Everything is taken back in the opposite order, so that even the numbers of pods are the same again. Waiting
//! pods are not told of it, and a watch of violations has nothing to tell when it is over.

use super::super::types::Target;
use rustc_hash::FxHashMap;

use super::super::watch::Judged;
use crate::decision::Outcome;
use crate::state::class::ClassId;
use crate::state::cluster::Cluster;
use crate::state::identity::IdentityId;
use crate::state::incoming::PreparedPod;
use crate::state::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::pod::{PodId, Standing};
use crate::state::uid::Uid;
use crate::wake::ClusterChange;

/// Why a pod that fits somewhere has no place all the same.
const WOULD_BREAK: &str =
    "wherever it fits, its coming would break a rule of another pod that is required during execution";

/// The state, changed in thought.
pub(super) struct Thought<'a> {
    cluster: &'a mut Cluster,
    done: Vec<Done>,
    noted: Option<Vec<ClusterChange>>,
    is_watched: bool,
    /// Why pods fit nowhere, in the scheduler's words: once for pods alike, since it takes a look at every node.
    why: FxHashMap<(ClassId, IdentityId), String>,
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
        let mut thought = Thought { cluster, done: Vec::new(), noted, is_watched, why: FxHashMap::default() };
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
    pub(super) fn place(&mut self, pod: &PreparedPod, node: Symbol) {
        self.cluster.assign(pod, node);
        self.done.push(Done::Placed(pod.clone()));
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
        if let Some(found) = self.try_on(pod, first) {
            return found;
        }
        let others = self.by_score(pod).into_iter().filter(|node| *node != first);
        let found = others.into_iter().find_map(|node| self.try_on(pod, node));
        let nowhere = || (Target::Nowhere(WOULD_BREAK.to_owned()), Judged::default());
        found.unwrap_or_else(nowhere)
    }

    /// The node that the scheduler would choose.
    fn first_choice(&mut self, pod: &PreparedPod) -> Result<NodeId, String> {
        let identity = self.cluster.identity_of(pod.namespace, pod.terminating, &pod.labels);
        let alike = (pod.class, identity);
        let class = self.cluster.classes.get(pod.class);
        if class.key.profile.is_some() && class.fits_a_view() {
            if let Some((node, _)) = self.cluster.best_by_view(pod) {
                return Ok(node);
            }
            if let Some(why) = self.why.get(&alike) {
                return Err(why.clone());
            }
        }
        let incoming = self.cluster.incoming(pod);
        let context = self.cluster.context_of_any(&incoming);
        match context.map(|context| self.cluster.run_in(context).outcome()) {
            Some(Outcome::Placed { node, .. }) => {
                let node = self.cluster.symbols.get(&node).and_then(|node| self.cluster.nodes.find(node));
                node.ok_or_else(|| "no node is known".to_owned())
            }
            Some(other) => {
                let why = other.message().into_owned();
                self.why.insert(alike, why.clone());
                Err(why)
            }
            None => Err("there is no scheduling profile".to_owned()),
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
