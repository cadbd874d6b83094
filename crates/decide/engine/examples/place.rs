//! The engine as a library: read YAML, build the state, decide, explain, place.
//! `cargo run -p berth-engine --example place` prints what the test below expects.

use std::error::Error;
use std::fmt::Write;

use berth_api::work::WorkBudget;
use berth_engine::{Cluster, Settings};
use berth_input::inventory::Inventory;
use berth_rules::admission::{AdmissionOptions, admit};

const OBJECTS: &str = "
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}},
 status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {kubernetes.io/hostname: b}},
 status: {allocatable: {cpu: 2, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, labels: {app: db}},
 spec: {nodeName: a, containers: [{name: db, image: db}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {affinity: {podAntiAffinity: {
   requiredDuringSchedulingIgnoredDuringExecution: [
     {labelSelector: {matchLabels: {app: db}}, topologyKey: kubernetes.io/hostname}]}},
 containers: [{name: web, image: web, resources: {requests: {cpu: 1500m}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: batch}, spec: {
 containers: [{name: batch, image: batch, resources: {requests: {cpu: 5}}}]}}
";

/// Places the pending pods of a text in their order; one line for each pod, and one for each rule that excludes nodes.
fn place(objects: &str) -> Result<String, Box<dyn Error>> {
    let inventory = Inventory::from_text(objects)?;
    let mut cluster = Cluster::new(Settings::default());
    inventory.nodes.iter().for_each(|node| cluster.set_node(&node.object));
    let mut lines = String::new();
    for mut pod in inventory.pods.into_iter().map(|pod| pod.object) {
        // Defaulting and validation, as in the API server.
        if let Some(error) = admit(&mut pod, &AdmissionOptions::default()).errors.first() {
            return Err(format!("{}: {error}", pod.key()).into());
        }
        if !pod.spec.node_name.is_empty() {
            cluster.set_pod(&pod);
            continue;
        }
        let prepared = cluster.prepare(&pod);
        let outcome = cluster.decide(&prepared);
        writeln!(lines, "{}: {}", pod.key(), outcome.node().unwrap_or(&outcome.message()))?;
        let explanation = cluster.explain(&pod, &prepared, None, &WorkBudget::unlimited());
        for term in explanation.terms.iter().filter(|term| term.excludes > 0) {
            writeln!(
                lines,
                "  {} of {} nodes excluded: {}",
                term.excludes, explanation.n_nodes, term.detail
            )?;
        }
        cluster.place(&prepared);
    }
    Ok(lines)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", place(OBJECTS)?);
    Ok(())
}

#[test]
fn every_pod_is_placed_or_explained() -> Result<(), Box<dyn Error>> {
    let expected = [
        "default/web: b",
        "  1 of 2 nodes excluded: rejects pods with `app=db` in namespace default in the same kubernetes.io/hostname",
        "default/batch: 0/2 nodes are available: 2 Insufficient cpu.",
        "  2 of 2 nodes excluded: requests 5 cpu",
        "",
    ];
    assert_eq!(place(OBJECTS)?, expected.join("\n"));
    Ok(())
}
