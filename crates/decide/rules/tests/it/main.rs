//! The tests of the crate in one binary.

mod admission_conformance;
mod admission_validation;
mod admitted_pods_parse;
mod device_selectors;
