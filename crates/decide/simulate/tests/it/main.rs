//! The tests of the crate in one binary.

mod capacity;
mod compare;
mod composite_groups;
mod controllers;
mod creation;
mod device_models;
mod devices;
mod drains;
mod group_claims;
mod groups;
mod hints;
mod kubernetes_versions;
mod node_name;
mod node_sets;
mod repairs;
mod rollouts;
mod sequences;
mod sets;
mod simulation;
mod what_if;
mod worlds;
