//! Devices of simulated nodes: a driver that publishes them, and the claims that pods wait for.

mod claims;
mod driver;
mod template;

pub(crate) use claims::DeviceClaims;
pub use driver::run_device_driver;
pub use template::{DeviceTemplate, DeviceTemplateError};
