//! Claims that the pods of a PodGroup share, offline: `docs/groups.md`.

use berth_api::feature_gates::FeatureGates;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_input::inventory::Inventory;
use berth_simulate::{Simulation, SimulationOptions};

use crate::devices::node;

const OBJECTS: &str = "---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: ring, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 3}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]
";

fn member(i: usize) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: m{i}}}, spec: {{schedulingGroup: {{podGroupName: ring}},
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: gpus}}], containers: [{{name: c, image: i}}]}}}}\n"
    )
}

fn simulated(is_enabled: bool) -> Simulation {
    let text = node("a", 1) + &node("b", 1) + OBJECTS + &(0..3).map(member).collect::<String>();
    let inventory = Inventory::from_text(&text).expect("the text is well-formed");
    let gates = FeatureGates { dra_workload_resource_claims: is_enabled, ..FeatureGates::default() };
    let config = SchedulerConfig { feature_gates: gates, ..SchedulerConfig::default() };
    let settings = Settings { config, ..Settings::default() };
    let options = SimulationOptions { settings, ..SimulationOptions::default() };
    let mut simulation = Simulation::new(inventory, options).expect("the objects are valid");
    simulation.run(|_, _| ());
    simulation
}

#[test]
fn a_group_gets_one_claim_from_its_template_and_its_pods_run_where_the_devices_are() {
    let simulation = simulated(true);
    let claims: Vec<_> = simulation.claims().collect();
    assert_eq!(claims.len(), 1, "{claims:?}");
    let claim = claims[0];
    let owner = claim.metadata.controller().expect("the group owns it");
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("PodGroup", "ring"));
    assert!(claim.metadata.name.starts_with("ring-gpu-"), "{}", claim.metadata.name);
    let consumers: Vec<_> =
        claim.status.reserved_for.iter().map(|consumer| consumer.as_pod_group()).collect();
    assert_eq!(consumers, [Some("ring")], "the group is the only consumer");
    let nodes: Vec<_> = simulation.pods().iter().map(|pod| pod.node().unwrap_or("-").to_owned()).collect();
    assert!(nodes == ["a"; 3] || nodes == ["b"; 3], "{nodes:?}");
}

#[test]
fn without_the_gate_the_group_stays_pending() {
    let simulation = simulated(false);
    for pod in simulation.pods().iter() {
        let message = pod.outcome.message();
        assert!(message.contains("its PodGroup has resourceClaims, which are not supported"), "{message}");
    }
}
