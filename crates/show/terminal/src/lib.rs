//! What the programs `berth` and `berth-bench` share: opening of inputs ([`input`]), formats, colors and messages of the
//! output ([`output`]), tables ([`table`]), lines that fit the terminal ([`wrap`]), progress bars ([`progress`]), the async
//! runtime with its signals ([`runtime`]), and arguments and exit codes ([`process`]).
//!
//! It knows no command and no report.

mod archive;
mod etcd;
pub mod input;
mod kustomization;
pub mod output;
pub mod process;
pub mod progress;
pub mod runtime;
pub mod table;
pub mod wrap;
