//! The hot operations at growing numbers of nodes. `BERTH_BENCH_MILLION=1` adds a million nodes, which take
//! a while to set up.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use berth_api::object::{NamespacedName, Node, Pod};
use berth_api::syntax::quantity::Quantity;
use berth_bench::scale::nodes::{DISK, node, node_name};
use berth_bench::scale::{GeneratedCluster, generate};
use berth_engine::PreparedPod;
use criterion::{BenchmarkId, Criterion};

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    operations(&mut criterion);
    criterion.final_summary();
}

fn operations(criterion: &mut Criterion) {
    let mut sizes = vec![1_000, 10_000, 100_000];
    if std::env::var_os("BERTH_BENCH_MILLION").is_some() {
        sizes.push(1_000_000);
    }
    for n_nodes in sizes {
        let mut bench = Bench::new(n_nodes);
        for op in Op::ALL {
            let mut group = criterion.benchmark_group(op.to_string());
            group.sample_size(10).warm_up_time(Duration::from_millis(500));
            group.measurement_time(Duration::from_secs(2));
            group.bench_function(BenchmarkId::from_parameter(n_nodes), |bencher| {
                bencher.iter_custom(|n_iterations| {
                    let mut total = Duration::ZERO;
                    for _ in 0..n_iterations {
                        let subject = bench.prepare(op);
                        let start = Instant::now();
                        bench.run(&subject);
                        total += start.elapsed();
                        bench.clear(subject);
                    }
                    total
                });
            });
            group.finish();
        }
    }
}

const SEED: u64 = 1;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Adds a pod that runs on a node.
    AddPod,
    /// Removes a pod.
    RemovePod,
    /// Decides and assigns a pod with a known rule set, and removes it afterwards.
    DecideKnown,
    /// The same with a new rule set.
    DecideNew,
    /// Changes the labels of a node.
    LabelNode,
}

impl Op {
    /// All of them.
    const ALL: [Op; 5] = [Op::AddPod, Op::RemovePod, Op::DecideKnown, Op::DecideNew, Op::LabelNode];
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

/// The object of an operation.
struct Subject {
    act: Act,
    /// The pod to remove afterwards.
    leaves: Option<NamespacedName>,
}

enum Act {
    Add(Pod),
    Remove(Pod),
    Decide(PreparedPod),
    Label(Box<Node>),
}

/// A cluster in which pods of every template were placed, and the operations on it.
struct Bench {
    generated: GeneratedCluster,
    n_nodes: usize,
    turn: usize,
}

impl Bench {
    /// A cluster of this many nodes, with ten pods of each template.
    fn new(n_nodes: usize) -> Bench {
        let mut generated = generate(n_nodes, SEED, false);
        let n_templates = generated.templates.len();
        for i in 0..10 * n_templates {
            let pod = generated.prepared[i % n_templates].named(&format!("first-{i}"));
            generated.cluster.place(&pod);
        }
        Bench { generated, n_nodes, turn: 0 }
    }

    /// Prepares an operation; not part of it.
    fn prepare(&mut self, op: Op) -> Subject {
        let turn = self.turn;
        self.turn += 1;
        let template = turn % self.generated.templates.len();
        let n_nodes = self.n_nodes.max(1);
        let node_number = turn.wrapping_mul(7919) % n_nodes;
        let mut pod = self.generated.templates[template].pod.clone();
        pod.metadata.name = format!("pod-{turn}");
        let leaves = Some(pod.metadata.namespaced_name());
        match op {
            Op::AddPod => {
                pod.spec.node_name = node_name(node_number);
                Subject { act: Act::Add(pod), leaves }
            }
            Op::RemovePod => {
                pod.spec.node_name = node_name(node_number);
                self.generated.cluster.set_pod(&pod);
                Subject { act: Act::Remove(pod), leaves: None }
            }
            Op::DecideKnown => {
                let pod = self.generated.prepared[template].named(&pod.metadata.name);
                Subject { act: Act::Decide(pod), leaves }
            }
            Op::DecideNew => {
                // No other pod requests as much.
                let cpu = Quantity::from_millis(1000 + turn as i64);
                if let Some(container) = pod.spec.containers.first_mut() {
                    container.resources.requests.insert("cpu".to_owned(), cpu);
                }
                Subject { act: Act::Decide(self.generated.cluster.prepare(&pod)), leaves }
            }
            Op::LabelNode => {
                let mut node = node(SEED, node_number);
                // Each node is used once in a round: in one round it changes, in the next it changes back.
                if (turn / n_nodes).is_multiple_of(2)
                    && let Some(disk) = node.metadata.labels.get_mut(DISK)
                {
                    *disk = if disk == "ssd" { "hdd" } else { "ssd" }.to_owned();
                }
                Subject { act: Act::Label(node.into()), leaves: None }
            }
        }
    }

    /// Executes an operation. Never inlined: tools that count instructions find it by its name.
    #[inline(never)]
    fn run(&mut self, subject: &Subject) {
        let cluster = &mut self.generated.cluster;
        match &subject.act {
            Act::Add(pod) => _ = black_box(cluster.set_pod(pod)),
            Act::Remove(pod) => cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name),
            Act::Decide(pod) => _ = black_box(cluster.place(pod)),
            Act::Label(node) => cluster.set_node(node),
        }
    }

    /// Removes what the operation left.
    fn clear(&mut self, subject: Subject) {
        if let Some(pod) = subject.leaves {
            self.generated.cluster.remove_pod(pod.namespace(), pod.name());
        }
    }
}
