//! Preemption for devices, an extension that a profile enables: pods of lower priority are evicted so that the devices of their claims
//! are free. The sentences are those of `docs/devices.md`.

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::{Condition, NamespacedName, PodDisruptionBudget};
use berth_engine::{DisruptionBudget, Group, Outcome, Preemption, Settings};
use berth_input::config::{Profile, SchedulerConfig};
use berth_testkit::text;

use super::{CLASS, World, claim, nodes, pod, requests, slice, world_with};

const NOT_HELPFUL: &str = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
const NO_VICTIMS: &str =
    "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
const STILL_IN_USE: &str = "preemption: 0/1 nodes are available: 1 cannot allocate all claims.";
const WAITS: &str = "preemption: not eligible due to a terminating pod on the nominated node.";

pub(super) fn settings(preempt_for_devices: bool) -> Settings {
    let mut profile = Profile::default();
    profile.dynamic_resources.preempt_for_devices = preempt_for_devices;
    Settings {
        config: SchedulerConfig { profiles: vec![profile], ..SchedulerConfig::default() },
        ..Settings::default()
    }
}

/// A world with the extension in which the first pods are placed.
fn running(manifest: &str, pods: &[&str]) -> World {
    let mut world = world_with(settings(true), manifest);
    for pod in pods {
        let placed = world.placed(pod);
        assert!(placed.starts_with('n'), "{pod}: {placed}");
    }
    world
}

impl World {
    /// The victims of a pod as `NODE: POD ...`, with `!` for each violated budget; or why there are none.
    pub(super) fn preempt(&mut self, pod: &str, budgets: &[PodDisruptionBudget]) -> String {
        let prepared = self.prepare(pod);
        assert_eq!(self.cluster.decide(&prepared).node(), None, "{pod} is unschedulable");
        let budgets: Vec<_> = budgets.iter().map(DisruptionBudget::from).collect();
        match self.cluster.preempt(&prepared, &budgets) {
            Preemption::Victims(found) => {
                let victims: Vec<_> = found.victims.iter().map(|victim| victim.name()).collect();
                format!("{}: {}{}", found.node, victims.join(" "), "!".repeat(found.n_pdb_violations))
            }
            other => other.message().unwrap_or_default(),
        }
    }

    /// The controller of claims deallocates a claim.
    fn deallocate(&mut self, name: &str) {
        let mut objects = self.inventory.device_objects.iter().map(|object| &object.object);
        let claim = objects.find(|object| object.metadata().name == name).expect("a claim of the manifest");
        self.cluster.remove_device_object(DeviceKind::ResourceClaim, "default", name);
        self.cluster.set_device_object(claim);
    }

    /// A pod is being preempted.
    fn terminate(&mut self, name: &str) {
        let mut pod = self.pod(name).clone();
        "n0".clone_into(&mut pod.spec.node_name);
        pod.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse().expect("a time"));
        pod.status.conditions.push(Condition {
            condition_type: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: "PreemptionByScheduler".to_owned(),
            ..Condition::default()
        });
        self.cluster.set_pod(&pod);
    }
}

/// A pod of a priority with claims, and further fields of its metadata.
pub(super) fn pod_of(name: &str, priority: i32, claims: &[&str]) -> String {
    let labelled = format!("labels: {{app: {name}}}, name: {name}");
    let spec = format!("spec: {{priority: {priority}, ");
    pod(name, claims).replace(&format!("name: {name}"), &labelled).replace("spec: {", &spec)
}

/// A pod of a priority with a claim of its name for some devices.
pub(super) fn user(name: &str, priority: i32, count: usize) -> String {
    let devices = requests(&[&format!(", count: {count}")]);
    format!("{}{}", claim(name, &devices), pod_of(name, priority, &[name]))
}

/// A node `n0` with free devices.
fn node(n_devices: usize) -> String {
    let devices: Vec<_> = (0..n_devices).map(|i| format!("{{name: gpu-{i}}}")).collect();
    format!("{}{CLASS}{}", nodes(1), slice("n0", &devices.join(", ")))
}

#[test]
fn the_least_important_pods_whose_devices_suffice_are_evicted() {
    let users = [user("a", 3, 1), user("b", 1, 1), user("c", 2, 1)].concat();
    for (count, expected) in [(1, "n0: b"), (2, "n0: c b"), (3, "n0: a c b"), (4, STILL_IN_USE)] {
        let manifest = format!("{}{users}{}", node(3), user("high", 9, count));
        assert_eq!(running(&manifest, &["a", "b", "c"]).preempt("high", &[]), expected, "{count}");
    }
    // A pod without devices stays, and so does one of equal priority.
    let manifest = format!("{}{}{}{}", node(1), pod_of("idle", 0, &[]), user("a", 9, 1), user("high", 9, 1));
    assert_eq!(running(&manifest, &["idle", "a"]).preempt("high", &[]), STILL_IN_USE);
    assert_eq!(running(&manifest, &["a"]).preempt("high", &[]), NO_VICTIMS);
}

#[test]
fn without_the_argument_and_without_extensions_devices_are_not_freed() {
    let manifest = format!("{}{}{}", node(1), user("low", 0, 1), user("high", 9, 1));
    let strict = Settings { extensions: false, ..settings(true) };
    for settings in [settings(false), strict] {
        let mut world = world_with(settings, &manifest);
        assert_eq!(world.placed("low"), "n0: r0=gpu-0");
        assert_eq!(world.preempt("high", &[]), NOT_HELPFUL);
    }
}

#[test]
fn a_shared_claim_is_free_when_all_its_pods_are_gone() {
    for (priority, expected) in [(1, "n0: b a"), (9, STILL_IN_USE)] {
        let shared = claim("shared", &requests(&[""]));
        let users = [pod_of("a", 0, &["shared"]), pod_of("b", priority, &["shared"])].concat();
        let manifest = format!("{}{shared}{users}{}", node(1), user("high", 9, 1));
        assert_eq!(running(&manifest, &["a", "b"]).preempt("high", &[]), expected);
    }
}

#[test]
fn pods_with_extended_resources_free_the_devices_that_provide_them() {
    let class = CLASS.replace("spec: {", "spec: {extendedResourceName: example.com/gpu, ");
    let with_resource = |name: &str, priority: i32| {
        let resources = "image: i, resources: {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 1}}";
        pod_of(name, priority, &[]).replace("image: i", resources)
    };
    let manifest = format!(
        "{}{}{}{}",
        node(2).replace(CLASS, &class),
        with_resource("a", 1) + &with_resource("b", 2),
        with_resource("high", 9),
        user("higher", 10, 2)
    );
    let mut world = running(&manifest, &["a"]);
    let Outcome::Placed { devices: Some(devices), .. } = world.place("b") else { panic!("b is placed") };
    assert_eq!(world.preempt("high", &[]), "n0: a");
    assert_eq!(world.preempt("higher", &[]), "n0: b a");
    // The same once the claim is written.
    let of_b = world.pod("b").metadata.clone();
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    for decided in &devices.claims {
        let written = decided.written(None, &of_b, "b-extended", now);
        world.cluster.set_device_object(&DeviceObject::ResourceClaim(Box::new(written)));
    }
    assert_eq!(world.preempt("higher", &[]), "n0: b a");
}

#[test]
fn partitions_free_their_counters() {
    let counters = "---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: counters}, spec: {driver: gpu.example.com, nodeName: n0,
  pool: {name: n0, generation: 1, resourceSliceCount: 2}, sharedCounters: [{name: card, counters: {memory: {value: 4}}}]}}
";
    let device = |name: &str, kind: &str, memory: usize| {
        format!(
            "{{name: {name}, attributes: {{kind: {{string: {kind}}}}}, consumesCounters: [{{counterSet: card, \
             counters: {{memory: {{value: {memory}}}}}}}]}}"
        )
    };
    let devices = [device("whole", "whole", 4), device("half-0", "half", 2), device("half-1", "half", 2)];
    let slice = slice("n0", &devices.join(", ")).replace("resourceSliceCount: 1", "resourceSliceCount: 2");
    let user_of = |name: &str, priority: i32, kind: &str| {
        let selector = format!("device.attributes[\"gpu.example.com\"].kind == \"{kind}\"");
        let selectors = format!(", selectors: [{{cel: {{expression: '{selector}'}}}}]");
        claim(name, &requests(&[&selectors])) + &pod_of(name, priority, &[name])
    };
    let halves = [user_of("a", 2, "half"), user_of("b", 1, "half")].concat();
    for (kind, expected) in [("half", "n0: b"), ("whole", "n0: a b")] {
        let high = user_of("high", 9, kind);
        let manifest = format!("{}{CLASS}{counters}{slice}{halves}{high}", nodes(1));
        assert_eq!(running(&manifest, &["a", "b"]).preempt("high", &[]), expected, "{kind}");
    }
}

#[test]
fn budgets_are_respected_where_possible() {
    let manifest = format!("{}{}{}{}", node(2), user("a", 1, 1), user("b", 2, 1), user("high", 9, 1));
    for (budgets, expected) in [
        ("", "n0: a"),
        ("pdb default/a app=a", "n0: b"),
        ("pdb default/a app=a\npdb default/b app=b", "n0: a!"),
    ] {
        let budgets = text::world(budgets).budgets;
        assert_eq!(running(&manifest, &["a", "b"]).preempt("high", &budgets), expected);
    }
}

#[test]
fn the_claims_of_the_pod_itself_keep_their_devices() {
    let own = claim("own", &requests(&[""]));
    let high = claim("high", &requests(&[""])) + &pod_of("high", 9, &["own", "high"]);
    let users = [user("other", 1, 1), pod_of("partner", 0, &["own"])].concat();
    let manifest = format!("{}{own}{users}{high}", node(2));
    assert_eq!(running(&manifest, &["other", "partner"]).preempt("high", &[]), "n0: other");
}

#[test]
fn devices_are_reserved_for_nominated_pods() {
    let users = [user("a", 1, 1), user("b", 1, 1), user("high", 9, 2), user("small", 2, 1)].concat();
    let mut world = running(&format!("{}{users}", node(2)), &["a", "b"]);
    assert_eq!(world.preempt("high", &[]), "n0: a b");
    let high = world.prepare("high");
    world.cluster.nominate(&high, "n0");
    world.terminate("b");
    world.cluster.remove_pod("default", "a");
    assert_eq!(world.preempt("high", &[]), WAITS);
    // One device is free, and the other will be.
    world.deallocate("a");
    assert_eq!(world.preempt("high", &[]), WAITS);
    assert_eq!(world.placed("small"), "0/1 nodes are available: 1 cannot allocate all claims.");
    // The claim of a pod that is gone is deallocated a little later: no other pod is evicted meanwhile.
    world.cluster.remove_pod("default", "b");
    assert_eq!(world.preempt("high", &[]), WAITS);
    assert_eq!(world.placed("small"), "0/1 nodes are available: 1 cannot allocate all claims.");
    assert!(world.cluster.awaits_victims(&high));
    world.deallocate("b");
    assert!(!world.cluster.awaits_victims(&high));
    assert_eq!(world.placed("small"), "0/1 nodes are available: 1 cannot allocate all claims.");
    assert_eq!(world.placed("high"), "n0: r0=gpu-0 r0=gpu-1");
}

#[test]
fn devices_of_victims_are_kept_before_all_of_them_are_marked() {
    let users = [user("a", 1, 1), user("b", 1, 1), user("high", 9, 2), user("small", 2, 1)].concat();
    let mut world = running(&format!("{}{users}", node(2)), &["a", "b"]);
    let high = world.prepare("high");
    let victims = ["a", "b"].map(|name| NamespacedName::new("default", name));
    world.cluster.nominate_for_victims(&high, "n0", &victims);
    // `a` is deleted at once, without a time to terminate; the request that deletes `b` is on its way.
    world.cluster.remove_pod("default", "a");
    world.deallocate("a");
    world.cluster.nominate(&high, "n0");
    assert_eq!(world.placed("small"), "0/1 nodes are available: 1 cannot allocate all claims.");
    world.cluster.clear_nomination("default", "high");
    assert_eq!(world.placed("small"), "n0: r0=gpu-0");
}

#[test]
fn a_pod_beside_a_nominated_pod_gets_devices_that_this_one_does_not_need() {
    let devices = "{name: gpu-0, attributes: {fast: {bool: true}}}, {name: gpu-1}, {name: gpu-2}";
    let fast = ", count: 1, selectors: [{cel: {expression: 'device.attributes[\"gpu.example.com\"].?fast.orValue(false)'}}]";
    let high = claim("high", &requests(&[fast])) + &pod_of("high", 9, &["high"]);
    let small = user("small", 2, 1);
    let manifest = format!("{}{CLASS}{}{high}{small}", nodes(1), slice("n0", devices));
    let mut world = running(&manifest, &[]);
    let prepared = world.prepare("high");
    world.cluster.nominate(&prepared, "n0");
    assert_eq!(world.placed("small"), "n0: r0=gpu-1");
    assert_eq!(world.placed("high"), "n0: r0=gpu-0");
}

#[test]
fn a_group_preempts_for_the_devices_of_all_its_members() {
    let users = [user("a", 1, 1), user("b", 2, 1), user("c", 3, 1)].concat();
    let members = [user("m1", 9, 1), user("m2", 9, 1)].concat();
    let mut world = running(&format!("{}{users}{members}", node(3)), &["a", "b", "c"]);
    let members = [world.prepare("m1"), world.prepare("m2")];
    let group = Group { members: &members, min: 2, levels: &[], composite: None };
    let preempt = |world: &mut World| {
        let found = world.cluster.preempt_group(&group, &[]).expect("victims");
        let victims: Vec<_> = found.victims.iter().map(|victim| victim.name().to_owned()).collect();
        victims.join(" ")
    };
    assert_eq!(preempt(&mut world), "b a");
    // The trial is taken back.
    assert_eq!(preempt(&mut world), "b a");
    assert_eq!(world.preempt("m1", &[]), "n0: a");
}
