//! Text output: tables, lists and sentences. It only formats reports.

pub mod audit;
pub mod difference;
pub mod lint;
pub mod placement;
pub mod report;
pub mod sarif;
pub mod timeline;
