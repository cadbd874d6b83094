//! Dynamic resource allocation: DeviceClasses, ResourceClaims, their templates and ResourceSlices.

mod claim;
mod class;
pub mod names;
mod request;
mod slice;
mod status;

pub use claim::{CLAIM, CLAIM_COLUMNS, CLAIM_TEMPLATE};
pub use class::CLASS;
pub use slice::{SLICE_COLUMNS, Slice};

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
