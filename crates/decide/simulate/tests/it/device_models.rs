//! Devices by model, and those of a node with what keeps them from being allocated.

use berth_input::inventory::Inventory;
use berth_simulate::{Simulation, SimulationOptions};

const NODE: &str =
    "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 8, pods: 20}}}";

/// A slice of the node `a` with these fields.
fn slice(name: &str, n_slices: usize, fields: &str) -> String {
    format!(
        "\n---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {name}}}, spec: {{driver: d.example.com, \
         nodeName: a, pool: {{name: a, generation: 1, resourceSliceCount: {n_slices}}}, {fields}}}}}"
    )
}

/// A claim that has a device.
fn allocated(name: &str, device: &str, more: &str) -> String {
    format!(
        "\n---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: default}}, spec: {{devices: \
         {{requests: [{{name: r, exactly: {{deviceClassName: c}}}}]}}}}, status: {{allocation: {{devices: {{results: [{{request: r, driver: \
         d.example.com, pool: a, device: {device}{more}}}]}}}}}}}}"
    )
}

fn simulation(text: &str) -> Simulation {
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid")
}

/// The models as `attributes capacity: devices allocated claims`.
fn models(text: &str) -> Vec<String> {
    let models = simulation(text).cluster().device_models().into_iter();
    let text = models.map(|of| {
        let attributes = of.attributes.into_values().collect::<Vec<_>>().join(" ");
        let amounts = of.capacity.values().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        format!("{attributes} {amounts}: {} {} {}", of.n_devices, of.n_allocated, of.n_claims)
    });
    text.collect()
}

/// A card of 80Gi as a whole, as halves and as quarters, which share its memory.
fn card() -> String {
    let partition = |name: &str, size: usize| {
        format!(
            "{{name: {name}, attributes: {{type: {{string: partition}}, uuid: {{string: u-{name}}}}}, capacity: {{memory: {{value: \
             {size}Gi}}}}, consumesCounters: [{{counterSet: card, counters: {{memory: {{value: {size}Gi}}}}}}]}}"
        )
    };
    let partitions = [("whole", 80), ("h0", 40), ("h1", 40), ("q0", 20), ("q1", 20), ("q2", 20), ("q3", 20)];
    let devices: Vec<_> = partitions.into_iter().map(|(name, size)| partition(name, size)).collect();
    slice("counters", 2, "sharedCounters: [{name: card, counters: {memory: {value: 80Gi}}}]")
        + &slice("partitions", 2, &format!("devices: [{}]", devices.join(", ")))
}

#[test]
fn claims_for_a_partition_fit_while_the_shared_counters_suffice() {
    let free = [NODE, &card()].concat();
    assert_eq!(models(&free), ["partition 20Gi: 4 0 4", "partition 40Gi: 2 0 2", "partition 80Gi: 1 0 1"]);
    let used = free.clone() + &allocated("half", "h0", "");
    assert_eq!(models(&used), ["partition 20Gi: 4 0 2", "partition 40Gi: 2 1 1", "partition 80Gi: 1 0 0"]);
    let full = used + &allocated("quarter", "q3", "");
    assert_eq!(models(&full), ["partition 20Gi: 4 1 1", "partition 40Gi: 2 1 0", "partition 80Gi: 1 0 0"]);
}

#[test]
fn tainted_devices_and_those_of_missing_nodes_take_no_claims() {
    let devices = "devices: [{name: g0, attributes: {model: {string: m}, cores: {int: 7}}}, {name: g1, attributes: {model: {string: m}}, \
                   taints: [{key: bad, effect: NoSchedule}]}, {name: g2, attributes: {model: {string: m}}, taints: [{key: note, effect: \
                   None}]}]";
    let text = [NODE, &slice("s", 1, devices)].concat();
    assert_eq!(models(&text), ["m : 3 0 2"]);
    assert_eq!(models(&text.replace("nodeName: a", "nodeName: b")), [""; 0]);
    // Until all its slices are there, the devices of a pool are not known.
    assert_eq!(models(&text.replace("resourceSliceCount: 1", "resourceSliceCount: 2")), [""; 0]);
}

#[test]
fn a_shared_device_takes_as_many_claims_as_its_capacity_has_default_amounts() {
    let devices = "devices: [{name: g0, allowMultipleAllocations: true, capacity: {memory: {value: 80Gi, requestPolicy: {default: 10Gi, \
                   validRange: {min: 5Gi}}}}}]";
    let text = [NODE, &slice("s", 1, devices)].concat();
    assert_eq!(models(&text), [" 80Gi: 1 0 8"]);
    let share = ", shareID: 5f3e4d1c-0000-4000-8000-000000000001, consumedCapacity: {memory: 25Gi}";
    assert_eq!(models(&(text + &allocated("share", "g0", share))), [" 80Gi: 1 1 5"]);
}

#[test]
fn devices_of_a_node_have_their_claims_taints_and_missing_counters() {
    let text = [NODE, &card(), &allocated("half", "h0", "")].concat();
    let mut simulation = simulation(&text);
    let found = simulation.cluster().devices_of_node("a");
    let state = |name: &str| {
        let device = found.devices.iter().find(|device| device.name == name).expect("it is published");
        (device.claims.iter().map(|claim| claim.name().to_owned()).collect::<Vec<_>>(), device.lacks_counters)
    };
    assert_eq!(state("whole"), (vec![], true));
    assert_eq!(state("h0"), (vec!["half".to_owned()], false));
    assert_eq!(state("h1"), (vec![], false));
    let whole = &found.devices[0];
    assert_eq!(
        (whole.attributes["uuid"].as_str(), whole.counter_sets.as_slice()),
        ("u-whole", &["card".to_owned()][..])
    );
    assert_eq!(found.unusable_pools, []);
    let text = [NODE, &slice("s", 2, "devices: [{name: g0}]")].concat();
    let incomplete = self::simulation(&text).cluster().devices_of_node("a");
    assert_eq!((incomplete.devices.len(), incomplete.unusable_pools.len()), (0, 1));
    assert_eq!(incomplete.unusable_pools[0].0, "d.example.com/a");
}
