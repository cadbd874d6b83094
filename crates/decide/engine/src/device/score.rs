//! The score of a node by requests with alternatives.

use super::Requested;
use super::search::ChosenClaim;
use crate::state::device::{Allocation, Alternative, ClaimRequest, ClaimSpec};

/// The length of a list of alternatives at most: the first one scores this much.
const MAX_ALTERNATIVES: i64 = 8;

/// The sum over requests with alternatives of how early the chosen one stands.
pub(super) fn score(claims: &[&Requested], chosen: &[ChosenClaim]) -> i64 {
    let of_claim = |(requested, chosen): (&&Requested, &ChosenClaim)| -> i64 {
        let requests = requested.spec.requests.iter().zip(&chosen.alternatives);
        requests
            .filter(|(request, _)| request.is_prioritized)
            .map(|(_, i)| MAX_ALTERNATIVES - *i as i64)
            .sum()
    };
    claims.iter().zip(chosen).map(of_claim).sum()
}

/// The same for a claim that is allocated.
pub(super) fn score_of_allocated(spec: &ClaimSpec, allocation: &Allocation) -> i64 {
    let used = |alternative: &Alternative| {
        allocation.devices.iter().any(|device| device.alternative.as_ref() == Some(&alternative.full_name))
    };
    let place = |request: &ClaimRequest| request.alternatives.iter().position(used);
    let prioritized = spec.requests.iter().filter(|request| request.is_prioritized);
    prioritized.filter_map(place).map(|place| MAX_ALTERNATIVES - place as i64).sum()
}
