//! Pictures: each function returns a self-contained SVG file.

mod explanation;
mod keys;
mod losses;
pub(crate) mod rules;
mod sets;
mod spread;
mod timeline;
mod topology;
mod view;

pub use explanation::explanation;
pub(crate) use explanation::explanation_bars;
pub use losses::losses;
pub(crate) use losses::{losses_bars, losses_section};
pub use rules::rules;
pub use sets::{node_sets, plural, relation_words, rule_role, rule_users, selector_owner, sets};
pub use spread::spread;
pub(crate) use spread::{spread_bars, spread_of};
pub use timeline::timeline;
pub(crate) use topology::map;
pub use topology::topology;
pub use view::ColorBy;
pub(crate) use view::{Level, Nearly, View, common_suffix};

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::{Simulation, SimulationOptions};

    use super::*;

    const CLUSTER: &str = "
{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {topology.kubernetes.io/zone: a}},
 status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b-1, labels: {topology.kubernetes.io/zone: b}},
 status: {allocatable: {cpu: 2, memory: 4Gi, pods: 10}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {labelSelector: {matchLabels: {app: web}}, topologyKey: topology.kubernetes.io/zone}
      containers: [{name: web, image: web, resources: {requests: {cpu: 500m}}}]
";

    fn simulation(text: &str) -> Simulation {
        let inventory = Inventory::from_text(text).unwrap();
        let mut simulation = Simulation::new(inventory, SimulationOptions::default()).unwrap();
        simulation.run(|_, _| ());
        simulation
    }

    fn cluster() -> Simulation {
        simulation(CLUSTER)
    }

    #[test]
    fn the_topology_has_nodes_pods_and_pending_pods() {
        let svg = topology(&cluster(), &[], ColorBy::Workload);
        for text in [
            ">2 nodes, 3 pods, 1 pending</text>",
            "<title>a: 1 node, 1 pod</title>",
            "<title>a-1: cpu 500m of 2, memory 0 of 4Gi, pods 1 of 10</title>",
            ">1 pod without a node</text>",
            ">default/Deployment web</text>",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn many_nodes_share_cells() {
        let nodes =
            (0..12_000).map(|i| format!("{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}}}\n---\n"));
        let svg = topology(&simulation(&nodes.collect::<String>()), &[], ColorBy::Utilization);
        assert!(
            svg.contains("12,000 nodes, 0 pods") && svg.contains("3 nodes, 0 pods, 0 % requested"),
            "{svg:.2000}"
        );
        assert_eq!(svg.matches(" % requested").count(), 4000);
    }

    #[test]
    fn the_explanation_has_rules_nodes_and_the_message() {
        let mut simulation = cluster();
        let pending = simulation.pods().iter().find(|pod| pod.node().is_none()).unwrap();
        let (namespace, name) = (pending.pod.metadata.namespace.clone(), pending.pod.metadata.name.clone());
        let explained = simulation.explain(&namespace, &name, None).unwrap();
        let svg = explanation(&explained);
        assert!(svg.contains("fits on no node</text>") && svg.contains(">2 of 2</text>"), "{svg}");
        assert!(svg.contains("0/2 nodes are available"), "{svg}");
    }

    #[test]
    fn the_rules_have_an_arc_for_each_pair_of_workloads() {
        let svg = rules(&cluster(), &[]);
        let text = "default/Deployment web avoids default/Deployment web: per topology.kubernetes.io/zone";
        assert!(svg.contains(">1 rule between 1 workload</text>") && svg.contains(text), "{svg}");
        let simulation = cluster();
        let broken = berth_engine::Violation {
            namespace: "default".to_owned(),
            name: simulation.pods()[0].pod.metadata.name.clone(),
            ..violation()
        };
        let svg = rules(&simulation, &[broken]);
        assert!(svg.contains("; ! broken for 1 pod"), "{svg}");
    }

    #[test]
    fn the_spread_counts_pods_by_domain() {
        let svg = spread(&cluster(), "topology.kubernetes.io/zone");
        assert!(svg.contains("<title>topology.kubernetes.io/zone=a: 1 pod</title>"), "{svg}");
        assert!(svg.contains("default/Deployment web: 3 pods, by topology.kubernetes.io/zone"), "{svg}");
    }

    fn violation() -> berth_engine::Violation {
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {nodeName: a-1, nodeSelector: {disk: ssd},
            containers: [{name: c, image: i}]}, status: {phase: Running}}";
        let mut violation = simulation(&format!("{CLUSTER}---\n{pod}")).cluster().audit().remove(0);
        violation.term =
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]".to_owned();
        violation
    }
}
