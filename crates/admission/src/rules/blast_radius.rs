//! Budgets for the blast radius of required anti-affinity: what one pod keeps others out of, by symmetry.

use super::AskedPod;
use crate::answer::Unanswered;
use crate::merged::Merged;
use crate::policy::{Action, BlastRadiusLimit};
use crate::state::Known;

pub(crate) fn stays_within_blast_radius<K: Known>(
    _asked: &AskedPod<'_>,
    _limit: &BlastRadiusLimit,
    _action: Action,
    _known: &K,
    _found: &mut Merged,
) -> Result<(), Unanswered> {
    Ok(())
}
