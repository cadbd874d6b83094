//! Text output: tables, lists and sentences. It only formats reports.

pub mod audit;
pub mod capacity;
pub mod compare;
pub mod difference;
pub mod explanation;
pub mod explanation_summary;
pub mod heading;
pub mod lint;
pub mod node_sets;
pub mod not_running;
pub mod placement;
pub mod pod_group;
pub mod rebalance;
pub mod sarif;
pub mod sets;
pub mod timeline;
pub mod upgrade;
pub mod what_if;
