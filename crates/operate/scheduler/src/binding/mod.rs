//! Bindings: the requests for pods, and for their volumes and claims of devices.

mod concurrency;
mod devices;
mod pre_bind;
mod volume_writes;
mod volumes;
mod watched;
mod workers;

pub(crate) use devices::{ClaimsFreed, DeviceBindings, DeviceWriter};
pub(crate) use pre_bind::{PreBind, PreBindOutcome};
pub(crate) use volume_writes::VolumeWriter;
pub(crate) use volumes::VolumeBindings;
pub(crate) use workers::{BindWorkers, Binder};
