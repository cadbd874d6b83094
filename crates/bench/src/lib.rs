//! Measures the engine: Kubernetes' scheduler benchmark files ([`workload`]), made clusters of any size
//! ([`scale`]), pods that are created and deleted for ever ([`churn`]), single operations ([`ops`]), reading a dump
//! ([`load`]) and following rules required during execution ([`enforce`]).
//!
//! A placement is judged by [`check`], which shares no code with the engine's rules. This crate uses the clock
//! and reads files, as the engine must not; it prints nothing: reports are data.

pub mod check;
pub mod churn;
pub mod dump;
pub mod enforce;
pub mod load;
pub mod measure;
pub mod ops;
pub mod scale;
pub mod workload;
