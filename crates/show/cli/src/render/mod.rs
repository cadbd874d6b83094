//! Text output: tables, lists and sentences. It only formats reports.

pub mod audit;
pub mod bench;
pub mod capacity;
pub mod cluster_bench;
pub mod compare;
pub mod console_bench;
pub mod difference;
pub mod explanation;
pub mod lint;
pub mod list_bench;
pub mod placement;
pub mod progress;
pub mod sarif;
pub mod sets;
pub mod status_line;
pub mod table;
pub mod timeline;
pub mod webhook_bench;
pub mod what_if;
pub mod wrap;
