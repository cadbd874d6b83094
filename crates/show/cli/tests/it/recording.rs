//! Journals that are written in this process, and read with the built binary.

use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use berth_api::object::{Namespace, NamespacedName, Node, Pod, PodDisruptionBudget};
use berth_engine::{Cluster, DisruptionBudget, Outcome, Settings};
use berth_input::journal::{Entry, Header, RecordedSettings};
use berth_scheduler::{RecordOptions, Recorder};
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use crate::program::berth;

const LIMIT: u64 = 1 << 20;
const N_NODES: usize = 12;
const ROUNDS: usize = 4000;

/// A small scheduler that assumes and confirms pods as the real one does.
struct Scheduler {
    cluster: Cluster,
    recorder: Recorder,
}

impl Scheduler {
    fn new(directory: &Path) -> Scheduler {
        let mut cluster = Cluster::new(Settings { all_node_attributes: false, ..Settings::default() });
        let settings = RecordedSettings::from(cluster.settings());
        let options = RecordOptions { directory: directory.to_owned(), max_bytes: LIMIT };
        let recorder = Recorder::start(&options, Header { settings, ..Header::default() }).unwrap();
        cluster.set_journal(recorder.journal());
        Scheduler { cluster, recorder }
    }

    /// Decides a pod, and maybe binds it.
    fn schedule(&mut self, pod: &Pod, is_bound: bool) -> Outcome {
        let name = pod.metadata.namespaced_name();
        self.recorder.record(|| Entry::Queue(Arc::new(pod.clone())));
        let prepared = self.cluster.prepare(pod);
        let outcome = self.cluster.decide_nominated_first(&prepared);
        self.recorder.record(|| Entry::Decision(Box::new(outcome.recorded(name.clone()))));
        match outcome.node() {
            Some(node) => {
                self.cluster.assume(&prepared, node);
                if is_bound {
                    let mut bound = pod.clone();
                    node.clone_into(&mut bound.spec.node_name);
                    self.cluster.set_pod(&bound);
                }
                self.recorder.record(|| Entry::Dequeue(name));
            }
            None => {
                let budgets = [DisruptionBudget::from(&budget())];
                let preemption = self.cluster.preempt(&prepared, &budgets);
                self.recorder.record(|| Entry::Preemption(Box::new(preemption.recorded(name))));
                self.cluster.nominate(&prepared, "n1");
            }
        }
        outcome
    }
}

fn node(i: usize) -> Node {
    let labels = json!({"kubernetes.io/hostname": format!("n{i}"), "topology.kubernetes.io/zone": format!("z{}", i % 3)});
    let metadata = json!({"name": format!("n{i}"), "labels": labels, "annotations": {"token": "a-secret"}});
    let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "20"});
    serde_json::from_value(json!({"metadata": metadata, "status": {"allocatable": allocatable}})).unwrap()
}

fn pod(i: usize) -> Pod {
    let app = format!("app-{}", i % 7);
    let term =
        json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"});
    let affinity = match i % 3 {
        0 => json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}),
        1 => json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
            [{"weight": 10, "podAffinityTerm": term}]}}),
        _ => Value::Null,
    };
    let spread = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}}});
    let cpu = format!("{}m", 100 + 400 * (i % 5));
    let container = json!({"name": "c", "image": "i", "command": ["--password=a-secret"],
        "env": [{"name": "P", "value": "a-secret"}], "resources": {"requests": {"cpu": cpu}}});
    let mut metadata = json!({"name": format!("p{i}"), "namespace": "default", "uid": format!("u{i}"),
        "labels": {"app": app}, "annotations": {"token": "a-secret"}});
    // What cannot be compressed fills the files soon.
    let mut noise = std::hash::DefaultHasher::new();
    for k in 0..8 {
        let mut words = [0_u64; 3];
        words.iter_mut().for_each(|word| {
            noise.write_usize(i);
            *word = noise.finish();
        });
        metadata["labels"][format!("noise-{k}")] = words.map(|word| format!("{word:x}")).concat().into();
    }
    let spec = json!({"affinity": affinity, "topologySpreadConstraints": [spread], "containers": [container],
        "priority": (i % 4) * 10, "volumes": [{"name": "v", "secret": {"secretName": "a-secret"}}]});
    let conditions = json!([{"type": "DisruptionTarget", "status": "True", "message": "a-secret"}]);
    let status = json!({"conditions": conditions});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

fn budget() -> PodDisruptionBudget {
    let spec = json!({"selector": {"matchLabels": {"app": "app-1"}}});
    let metadata = json!({"name": "b", "namespace": "default", "annotations": {"token": "a-secret"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The files with their contents, the oldest first.
fn contents(directory: &Path) -> Vec<(String, String)> {
    let mut names: Vec<_> = directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let read = |path: std::path::PathBuf| {
        let mut text = String::new();
        let mut gzip = flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap());
        std::io::Read::read_to_string(&mut gzip, &mut text).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), text)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn recordings_stay_within_their_limit_and_each_file_replays_without_the_deleted_ones() {
    let directory = TempDir::new("recording-limit");
    let mut scheduler = Scheduler::new(&directory.0);
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    scheduler.cluster.set_namespace(&namespace);
    (0..N_NODES).for_each(|i| scheduler.cluster.set_node(&node(i)));
    scheduler.recorder.record(|| Entry::Budget(Box::new(budget())));
    scheduler.recorder.record(|| Entry::Complete {});
    let (mut placed, mut n_unplaced) = (std::collections::VecDeque::new(), 0);
    for i in 0..ROUNDS {
        let pod = pod(i);
        if scheduler.schedule(&pod, i % 2 == 0).node().is_some() {
            placed.push_back(pod.metadata.name.clone());
        } else {
            n_unplaced += 1;
            scheduler.cluster.clear_nomination("default", &pod.metadata.name);
            let name = NamespacedName::new("default", &pod.metadata.name);
            scheduler.recorder.record(|| Entry::Dequeue(name));
        }
        if placed.len() > 40 {
            let name = placed.pop_front().unwrap();
            scheduler.cluster.remove_pod("default", &name);
        }
        if i % 50 == 0 {
            let at = i / 50 % N_NODES;
            scheduler.cluster.remove_node(&format!("n{at}"));
            scheduler.cluster.set_node(&node(at));
        }
    }
    assert!(n_unplaced > 10, "{n_unplaced} pods are unschedulable");
    drop(scheduler);

    let files = contents(&directory.0);
    let size = |name: &String| directory.file(name).metadata().unwrap().len();
    let n_bytes: u64 = files.iter().map(|(name, _)| size(name)).sum();
    assert!(n_bytes <= LIMIT, "{n_bytes} bytes");
    for (name, text) in &files {
        assert!(text.starts_with(r#"{"journal":{"version":1"#), "{name}: {}", &text[..80]);
        assert!(!text.contains("a-secret"), "{name} has a secret");
    }
    assert!(files.len() > 1 && !files[0].0.ends_with("-00000.jsonl.gz"), "{} files", files.len());

    let ran = berth(&directory.0, &["replay", "."], b"");
    assert!(ran.stdout.ends_with(" steps, 0 differences\n"), "{}{}", ran.stdout, ran.stderr);
    assert_eq!((ran.stderr.as_str(), ran.code), ("", 0));
}
