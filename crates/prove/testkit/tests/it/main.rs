//! The tests of the crate in one binary.

mod conformance;
mod device_check;
mod devices;
mod histories;
mod history;
mod proposal;
mod volume_check;
mod volumes;
