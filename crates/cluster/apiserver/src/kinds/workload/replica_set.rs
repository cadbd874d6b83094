//! ReplicaSets.

use super::shared::{CURRENT, DESIRED, N_READY, Workload};
use crate::kinds::prelude::*;

pub static STRATEGY: Workload =
    Workload { default: |spec| default(spec, "replicas", 1), counts: &["replicas"], ..Workload::NEW };

pub const COLUMNS: &[Column] = &[NAME, DESIRED, CURRENT, N_READY, AGE, CONTAINERS, IMAGES, SELECTOR];
