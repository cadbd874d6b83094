//! Disks that pods on one node cannot share, and claims that one pod at a time may use.

use berth_input::config::Plugin;

use super::hints::{Hints, QueueingHint};
use super::rule::{Filter, PreFilter, Reads, Rule, TermInfo};
use super::volumes::{claim_path, pre_filter_by, volume_path};
use crate::cycle::context::{Context, NodeRef};
use crate::state::change::Change;
use crate::state::volume::{ClaimKey, Disk, PodVolumes};
use crate::verdict::{Rejection, Status, Verdict};
use crate::volume::CycleVolumes;

const REASON_DISK: &str = "node(s) had no available disk";
const REASON_IN_USE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already \
                             in-use by another pod";

pub(super) struct VolumeRestrictions;

impl Rule for VolumeRestrictions {
    const PLUGIN: Plugin = Plugin::VolumeRestrictions;
    const READS: Reads = Reads::VOLUMES.and(Reads::VOLUMES_IN_USE);

    /// Rejects a pod whose claims do not all exist: their access modes are not known.
    fn pre_filter(context: Context<'_>) -> PreFilter {
        let problem = context.cycle.volumes.as_ref().and_then(|volumes| volumes.restrictions.as_ref());
        pre_filter_by(Plugin::VolumeRestrictions, problem)
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        let volumes = context.cycle.volumes.as_deref()?;
        let needed = !volumes.pod.disks.is_empty() || volumes.n_in_use > 0;
        needed.then(|| Box::new(UnsharedVolumes { context, volumes }) as Box<dyn Filter>)
    }

    fn hints(context: Context<'_>) -> Option<Box<dyn Hints>> {
        context.cycle.volumes.as_ref().map(|_| Box::new(ReleasedClaims) as Box<dyn Hints>)
    }
}

/// A pod that used a claim for one pod may have been anywhere.
#[derive(Debug)]
struct ReleasedClaims;

impl Hints for ReleasedClaims {
    fn hint(&self, context: Context<'_>, change: &Change) -> QueueingHint {
        let Change::PodDetached(pod) = change else { return QueueingHint::Skip };
        let volumes = context.cycle.volumes.as_ref().zip(pod.volumes.as_ref());
        QueueingHint::queue_if(
            volumes
                .is_some_and(|(own, theirs)| own.one_pod_claims.iter().any(|claim| theirs.n_uses(claim) > 0)),
        )
    }
}

struct UnsharedVolumes<'a> {
    context: Context<'a>,
    volumes: &'a CycleVolumes,
}

impl UnsharedVolumes<'_> {
    /// Sums up a count over the pods of the node, with those that it has more or less.
    fn sum(&self, node: NodeRef<'_>, count: impl Fn(&PodVolumes) -> usize) -> i64 {
        let state = self.context.state;
        let pods = state.volumes.pods_on_node(node.id).iter();
        let pods = pods.filter_map(|pod| state.pods.get(*pod).volumes.as_deref()).map(|pod| (pod, 1));
        let changed = node.volume_delta().iter().map(|(pod, sign)| (&**pod, *sign));
        pods.chain(changed).map(|(pod, sign)| sign * count(pod) as i64).sum()
    }

    fn has_disk_conflict(&self, node: NodeRef<'_>) -> bool {
        let pod = &self.volumes.pod;
        !pod.disks.is_empty() && self.sum(node, |other| pod.n_disk_conflicts(other)) > 0
    }

    /// Whether claims for one pod are in use, wherever that pod runs.
    fn is_in_use(&self, node: NodeRef<'_>) -> bool {
        let uses = |pod: &PodVolumes| -> usize {
            self.volumes.one_pod_claims.iter().map(|claim| pod.n_uses(claim)).sum()
        };
        let elsewhere = node.elsewhere().flat_map(|(_, delta)| &delta.volumes);
        let changed = node.volume_delta().iter().chain(elsewhere);
        let changed: i64 = changed.map(|(pod, sign)| sign * uses(pod) as i64).sum();
        self.volumes.n_in_use + changed > 0
    }
}

impl Filter for UnsharedVolumes<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let rejection = |reason| Rejection::new(Plugin::VolumeRestrictions, Status::Unschedulable, reason);
        if self.has_disk_conflict(node) {
            return Some(rejection(REASON_DISK));
        }
        self.is_in_use(node).then(|| rejection(REASON_IN_USE))
    }

    fn terms(&self) -> Vec<TermInfo> {
        let disks = self
            .volumes
            .pod
            .disks
            .iter()
            .map(|disk| TermInfo { term: volume_path(&disk.volume), detail: disk_detail(disk) });
        let claims = self.volumes.one_pod_claims.iter().map(|claim| TermInfo {
            term: claim_path(&self.volumes.pod, claim),
            detail: claim_detail(claim),
        });
        disks.chain(claims).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let verdict =
            |reason, detail| Verdict::new(Plugin::VolumeRestrictions, Status::Unschedulable, reason, detail);
        let mut verdicts = Vec::new();
        if self.has_disk_conflict(node) {
            for disk in &self.volumes.pod.disks {
                let own = PodVolumes { disks: [disk.clone()].into(), ..PodVolumes::clone(&self.volumes.pod) };
                let conflicts = |pod: &PodVolumes| own.n_disk_conflicts(pod) > 0;
                if self.sum(node, |pod| usize::from(conflicts(pod))) > 0 {
                    let pods = state.volumes.pods_on_node(node.id).iter().copied();
                    let found =
                        pods.filter(|pod| state.pods.get(*pod).volumes.as_deref().is_some_and(conflicts));
                    let verdict = verdict(REASON_DISK, disk_detail(disk)).term(volume_path(&disk.volume));
                    verdicts.push(verdict.witnesses(state.name_some(found)));
                }
            }
        }
        if self.is_in_use(node) {
            for claim in &self.volumes.one_pod_claims {
                let uses = |pod: &PodVolumes| pod.n_uses(claim) > 0;
                let pods = state.volumes.pods_of_claim(claim).iter().copied();
                let mut found =
                    pods.filter(|pod| state.pods.get(*pod).volumes.as_deref().is_some_and(uses)).peekable();
                if found.peek().is_some() {
                    let verdict = verdict(REASON_IN_USE, claim_detail(claim))
                        .term(claim_path(&self.volumes.pod, claim));
                    verdicts.push(verdict.witnesses(state.name_some(found)));
                }
            }
        }
        verdicts
    }
}

fn disk_detail(disk: &Disk) -> String {
    format!("no other pod of the node may use {disk}: it is free once that pod is gone")
}

fn claim_detail(claim: &ClaimKey) -> String {
    format!("no other pod may use claim {} (ReadWriteOncePod): it is free once that pod is gone", claim.1)
}
