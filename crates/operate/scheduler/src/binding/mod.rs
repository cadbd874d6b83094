//! Bindings: the requests for pods, and for their volumes and claims of devices.

mod concurrency;
mod devices;
mod volume_writes;
mod volumes;
mod watched;
mod workers;

pub(crate) use devices::{ClaimsFreed, DeviceBindings, DeviceOutcome, DeviceWriter};
pub(crate) use volume_writes::VolumeWriter;
pub(crate) use volumes::{VolumeBindings, VolumeOutcome};
pub(crate) use workers::{BindWorkers, Binder};
