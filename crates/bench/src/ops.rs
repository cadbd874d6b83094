//! Single operations of the engine, a fixed number of times: for criterion, and for tools that count
//! instructions.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

use berth_api::object::{Node, Pod};
use berth_api::quantity::Quantity;
use berth_engine::PreparedPod;

use crate::measure::{Samples, timed};
use crate::scale::nodes::{DISK, node, node_name};
use crate::scale::{Made, make};

const SEED: u64 = 1;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A pod that runs on a node becomes known.
    AddPod,
    /// A pod goes.
    RemovePod,
    /// A pod of a class that was decided before is decided and assigned; it goes again, so that the cluster
    /// stays as it is.
    DecideKnown,
    /// The same, of a class never seen before.
    DecideNew,
    /// A node's labels change.
    LabelNode,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 5] = [Op::AddPod, Op::RemovePod, Op::DecideKnown, Op::DecideNew, Op::LabelNode];
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::AddPod => "add-pod",
            Op::RemovePod => "remove-pod",
            Op::DecideKnown => "decide",
            Op::DecideNew => "decide-new",
            Op::LabelNode => "label-node",
        })
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let names = Op::ALL.map(|op| op.to_string());
        let known = || format!("one of {}", names.join(", "));
        names.iter().position(|n| n == text).map(|i| Op::ALL[i]).ok_or_else(known)
    }
}

/// What an operation is done to.
pub struct Subject {
    act: Act,
    /// The pod that must go afterwards, by namespace and name.
    leaves: Option<(String, String)>,
}

enum Act {
    Add(Pod),
    Remove(Pod),
    Decide(PreparedPod),
    Label(Node),
}

/// A cluster in which every class has been decided, and the operations on it.
pub struct Bench {
    made: Made,
    n_nodes: usize,
    turn: usize,
}

impl Bench {
    /// A cluster of this many nodes, with ten pods of each class.
    pub fn new(n_nodes: usize) -> Bench {
        let mut made = make(n_nodes, SEED);
        let n_classes = made.classes.len();
        for i in 0..10 * n_classes {
            let pod = made.prepared[i % n_classes].named(&format!("first-{i}"));
            made.cluster.place_prepared(&pod);
        }
        Bench { made, n_nodes, turn: 0 }
    }

    /// Gets ready for an operation; no part of it.
    pub fn prepare(&mut self, op: Op) -> Subject {
        let turn = self.turn;
        self.turn += 1;
        let class = turn % self.made.classes.len();
        let n_nodes = self.n_nodes.max(1);
        let node_number = turn.wrapping_mul(7919) % n_nodes;
        let mut pod = self.made.classes[class].template.clone();
        pod.metadata.name = format!("pod-{turn}");
        let leaves = Some((pod.metadata.namespace.clone(), pod.metadata.name.clone()));
        match op {
            Op::AddPod => {
                pod.spec.node_name = node_name(node_number);
                Subject { act: Act::Add(pod), leaves }
            }
            Op::RemovePod => {
                pod.spec.node_name = node_name(node_number);
                self.made.cluster.set_pod(&pod);
                Subject { act: Act::Remove(pod), leaves: None }
            }
            Op::DecideKnown => {
                let pod = self.made.prepared[class].named(&pod.metadata.name);
                Subject { act: Act::Decide(pod), leaves }
            }
            Op::DecideNew => {
                // Nobody else asks for just as much.
                let cpu = Quantity::from_millis(1000 + turn as i64);
                if let Some(container) = pod.spec.containers.first_mut() {
                    container.resources.requests.insert("cpu".to_owned(), cpu);
                }
                Subject { act: Act::Decide(self.made.cluster.prepare(&pod)), leaves }
            }
            Op::LabelNode => {
                let mut node = node(SEED, node_number);
                // Every node comes up once in a round: in one round it changes, in the next it changes back.
                if (turn / n_nodes).is_multiple_of(2)
                    && let Some(disk) = node.metadata.labels.get_mut(DISK)
                {
                    *disk = if disk == "ssd" { "hdd" } else { "ssd" }.to_owned();
                }
                Subject { act: Act::Label(node), leaves: None }
            }
        }
    }

    /// Does it. Never inlined: tools that count instructions find it by its name.
    #[inline(never)]
    pub fn run(&mut self, subject: &Subject) {
        let cluster = &mut self.made.cluster;
        match &subject.act {
            Act::Add(pod) => _ = black_box(cluster.set_pod(pod)),
            Act::Remove(pod) => cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name),
            Act::Decide(pod) => _ = black_box(cluster.place_prepared(pod)),
            Act::Label(node) => cluster.set_node(node),
        }
    }

    /// Clears away what it left.
    pub fn clear(&mut self, subject: Subject) {
        if let Some((namespace, name)) = subject.leaves {
            self.made.cluster.remove_pod(&namespace, &name);
        }
    }

    /// Does an operation `count` times, and tells how long each took.
    pub fn repeat(&mut self, op: Op, count: usize) -> Samples {
        let mut samples = Samples::default();
        for _ in 0..count {
            let subject = self.prepare(op);
            let ((), duration) = timed(|| self.run(&subject));
            samples.add(duration);
            self.clear(subject);
        }
        samples
    }
}
