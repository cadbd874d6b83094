//! Replays: the engine repeats the decisions of a recording, and the answers are compared.

mod comparison;
mod devices;
mod journal;
mod preemption;
mod timeline;
mod volumes;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::Pod;
use berth_engine::{Cluster, DevicePostFilter, DisruptionBudget, Outcome, Settings};
use berth_input::config::SchedulerConfig;
use berth_input::recording::{Recording, Scenario, Step};
use berth_rules::RuleOptions;
use berth_rules::admission::{AdmissionOptions, AdmissionResult, admit};

use self::comparison::Comparison;
pub use self::comparison::Difference;
use self::devices::Claims;
pub use self::journal::{JournalError, JournalReplay};
pub use self::timeline::{Interval, Timeline, TimelineRecorder, is_evicted};
use self::volumes::{Object, decision, read_object};

#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Number of pending pods decided.
    pub n_steps: usize,
    pub differences: Vec<Difference>,
    /// Whether the answers equal the recorded ones only where faults of the reference are corrected.
    pub is_corrected: bool,
}

/// Repeats the decisions of a recorded scenario as the version of `gates` makes them, with extensions off: the reference scheduler
/// has none.
///
/// After each step the pod runs on the recorded node, so that one difference does not cascade. A replay cannot fail: an
/// invalid configuration or a recording without steps is a difference.
///
/// ```
/// use berth_api::feature_gates::FeatureGates;
/// use berth_simulate::replay::replay;
///
/// let recording = serde_json::from_str(
///     r#"{"scenario": {"name": "none", "pending": [{"metadata": {"name": "web", "namespace": "default"}}]},
///         "expect": {"steps": [{"pod": "default/web", "chosen": null,
///                               "message": "no nodes available to schedule pods"}]}}"#,
/// )?;
/// let replayed = replay(&recording, FeatureGates::default());
/// assert_eq!((replayed.n_steps, replayed.differences.len()), (1, 0));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn replay(recording: &Recording, gates: FeatureGates) -> Replayed {
    let expected = &recording.expect;
    let replayed = replay_steps(&recording.scenario, &expected.steps, gates);
    match &expected.fixed_steps {
        Some(fixed) => {
            let of_fixed = replay_steps(&recording.scenario, fixed, gates);
            let is_equal = of_fixed.differences.is_empty();
            Replayed { is_corrected: is_equal && !replayed.differences.is_empty(), ..of_fixed }.or(replayed)
        }
        None => replayed,
    }
}

impl Replayed {
    /// The one with fewer differences; the first of two equal ones.
    fn or(self, other: Replayed) -> Replayed {
        if other.differences.len() < self.differences.len() { other } else { self }
    }
}

/// When the recordings were made, in seconds since 1970: between the times of what is over and of what is to come.
const RECORDED_AT: i64 = 1_790_000_000;

fn replay_steps(scenario: &Scenario, steps: &[Step], feature_gates: FeatureGates) -> Replayed {
    let mut replayed = Replayed { n_steps: scenario.pending.len(), ..Replayed::default() };
    let mut report = |pod: &str, field: &str, expected: String, got: String| {
        let (scenario, pod, field) = (scenario.name.clone(), pod.to_owned(), field.to_owned());
        replayed.differences.push(Difference { scenario, pod, node: None, field, expected, got });
    };

    let read = |config| SchedulerConfig::read_with(config, true, feature_gates);
    let config = match scenario.config.as_ref().map(read).transpose() {
        Ok(Some((config, _warnings))) => config,
        Ok(None) => SchedulerConfig { feature_gates, ..SchedulerConfig::default() },
        Err(error) => {
            report("", "config", "a valid configuration".to_owned(), error.to_string());
            return replayed;
        }
    };
    if steps.len() != scenario.pending.len() {
        let steps = steps.len();
        report(
            "",
            "steps",
            format!("{} pending pods", scenario.pending.len()),
            format!("{steps} recorded steps"),
        );
        return replayed;
    }

    let mut cluster = Cluster::new(Settings::strict_v1(config));
    scenario.namespaces.iter().for_each(|n| cluster.set_namespace(n));
    scenario.services.iter().for_each(|s| cluster.set_service(s));
    scenario.nodes.iter().for_each(|n| cluster.set_node(n));
    let mut claims = Claims::default();
    cluster.set_now(RECORDED_AT);
    for object in &scenario.objects {
        match read_object(object) {
            Ok(Object::Volume(object)) => cluster.set_volume_object(*object),
            Ok(Object::Device(object)) => {
                claims.note(&object);
                cluster.set_device_object(&object);
            }
            Err(error) => report("", "objects", "readable objects".to_owned(), error),
        }
    }
    let admit = |pod: &Pod| {
        let mut pod = pod.clone();
        let options = AdmissionOptions {
            rules: RuleOptions { extensions: false, feature_gates },
            ..AdmissionOptions::default()
        };
        let admission = if scenario.raw { AdmissionResult::default() } else { admit(&mut pod, &options) };
        (pod, admission)
    };
    for pod in &scenario.pods {
        cluster.set_pod(&admit(pod).0);
    }
    for pod in &scenario.nominated {
        let prepared = cluster.prepare(&admit(pod).0);
        cluster.nominate(&prepared, &pod.status.nominated_node_name);
    }
    let budgets: Vec<_> = scenario.pdbs.iter().map(DisruptionBudget::from).collect();
    for (pod, step) in scenario.pending.iter().zip(steps) {
        let (mut pod, admission) = admit(pod);
        let mut comparison = Comparison { scenario: &scenario.name, pod: &step.pod, differences: Vec::new() };
        comparison.same("pod", &step.pod, &pod.key());
        if step.is_full() {
            comparison.admission(step, &pod, &admission, scenario.raw);
        }
        if admission.is_accepted() {
            let prepared = cluster.prepare(&pod);
            let evaluation = cluster.evaluate(&prepared);
            comparison.decision(step, &evaluation);
            // Decisions without reasons are made in another way, by views where that is possible.
            comparison.same("decision", &evaluation.outcome, &cluster.decide(&prepared));
            if let (Some(node), Some(recorded)) = (&step.chosen, &step.volumes) {
                cluster.assume_volumes(&prepared, node, &decision(recorded));
            }
            if scenario.dra {
                let nothing = DevicePostFilter::Nothing;
                let found = match &evaluation.outcome {
                    Outcome::Unschedulable { .. } => cluster.device_post_filter(&prepared),
                    _ => nothing,
                };
                comparison.post_filter(step.post_filter.as_ref(), &found);
                claims.write(&mut cluster, step, &pod);
            }
            if let (true, Some(recorded)) = (scenario.preemption, &step.preemption) {
                comparison.preemption(&mut cluster, &prepared, &budgets, recorded);
            }
        }
        replayed.differences.append(&mut comparison.differences);
        let preemption = step.preemption.as_ref();
        if let Some(node) = step.chosen.as_ref().or(preemption.and_then(|p| p.placed.as_ref())) {
            pod.spec.node_name = node.clone();
            pod.status.start_time = step.start_time.or(preemption.and_then(|p| p.start_time));
            cluster.set_pod(&pod);
        }
    }
    replayed
}
