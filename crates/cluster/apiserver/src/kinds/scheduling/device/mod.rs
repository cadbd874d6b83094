//! Dynamic resource allocation: DeviceClasses, DeviceTaintRules, ResourceClaims, their templates and ResourceSlices.

mod claim;
mod class;
pub mod names;
mod request;
mod slice;
mod status;
mod taint_rule;

pub use claim::{CLAIM, CLAIM_COLUMNS, CLAIM_TEMPLATE};
pub use class::CLASS;
pub use slice::{SLICE_COLUMNS, Slice};
pub use taint_rule::{TAINT_RULE, TAINT_RULE_COLUMNS};

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
