//! ReplicaSets.

use super::shared::{CURRENT, DESIRED, N_READY, Workload};
use crate::strategy::fields::default;
use crate::table::columns::{AGE, CONTAINERS, Column, IMAGES, NAME, SELECTOR};

pub static STRATEGY: Workload =
    Workload { default: |spec| default(spec, "replicas", 1), counts: &["replicas"], ..Workload::NEW };

pub const COLUMNS: &[Column] = &[NAME, DESIRED, CURRENT, N_READY, AGE, CONTAINERS, IMAGES, SELECTOR];
