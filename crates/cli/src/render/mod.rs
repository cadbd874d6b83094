//! What people read: tables, lists and sentences. Nothing is decided here.

pub mod audit;
pub mod bench;
pub mod cluster_bench;
pub mod difference;
pub mod explanation;
pub mod live;
pub mod names;
pub mod placement;
pub mod progress;
pub mod table;
pub mod webhook_bench;
