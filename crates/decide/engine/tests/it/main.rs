//! The tests of the engine in one binary.

mod blast_radius;
mod common;
mod devices;
mod disruption;
mod documentation;
mod explanation;
mod feature_gates;
mod group_search;
mod group_topology;
mod groups;
mod limits;
mod naive_groups;
mod node_admission;
mod opportunity_cost;
mod preemption;
mod preemption_across_nodes;
mod properties;
mod relaxing;
mod remedies;
mod views;
mod violations;
mod volumes;
mod wake;
