//! What the rules about volumes have in common.

use berth_input::config::Plugin;

use super::hints::QueueingHint;
use super::rule::PreFilter;
use crate::cycle::context::Context;
use crate::state::change::VolumeChange;
use crate::state::volume::{ClaimKey, ClaimRecord, PodVolumes};
use crate::verdict::{Rejection, Status};
use crate::volume::Problem;

/// Rejects a pod on every node if there is a problem with its volumes.
pub(super) fn pre_filter_by(plugin: Plugin, problem: Option<&Problem>) -> PreFilter {
    let Some(Problem(reason)) = problem else { return PreFilter::AllNodes };
    let status = Status::UnschedulableAndUnresolvable;
    PreFilter::Rejected(Rejection { plugin, status, reasons: [reason.clone().into()].into_iter().collect() })
}

pub(super) fn volume_path(volume: &str) -> String {
    format!("spec.volumes[{volume}]")
}

pub(super) fn claim_path(pod: &PodVolumes, key: &ClaimKey) -> String {
    let used = pod.claims.iter().find(|used| used.key == *key);
    used.map_or_else(|| "spec.volumes".to_owned(), |used| volume_path(&used.volume))
}

/// Whether a change of a volume object is about the claims of the pod. These are kube-scheduler's queueing hints, except
/// that volumes and classes which none of the claims could use are left out.
pub(crate) fn volume_hint(context: Context<'_>, change: &VolumeChange) -> QueueingHint {
    let Some(volumes) = &context.cycle.volumes else { return QueueingHint::Skip };
    let state = context.state;
    let mut claims = volumes.pod.claims.iter().map(|used| (&used.key, state.volumes.claim(&used.key)));
    let named = |key: &ClaimKey, namespace: &str, name: &str| {
        (state.symbols.text(key.0), &*key.1) == (namespace, name)
    };
    QueueingHint::queue_if(match change {
        VolumeChange::Claim { namespace, name } => claims.any(|(key, _)| named(key, namespace, name)),
        VolumeChange::Volume { name, class, claim } => claims.any(|(key, record)| {
            let is_for = claim.as_ref().is_some_and(|(namespace, name)| named(key, namespace, name));
            let could_be = |record: &ClaimRecord| {
                *record.volume == **name || (claim.is_none() && *record.class == **class)
            };
            is_for || record.is_none_or(could_be)
        }),
        VolumeChange::Class(class) | VolumeChange::Capacity(class) => {
            claims.any(|(_, record)| record.is_none_or(|record| *record.class == **class))
        }
        VolumeChange::DriverChanged(driver) => claims.any(|(_, record)| {
            let class = record.and_then(|record| state.volumes.class(&record.class));
            class.is_none_or(|class| class.provisioner == *driver)
        }),
        VolumeChange::CsiNode(_) | VolumeChange::Detached(_) | VolumeChange::InUse(_) => {
            return QueueingHint::CheckNode;
        }
    })
}
