//! `VolumeRestrictions`: disks that two pods of a node cannot share, and claims for a single pod.

use std::collections::BTreeSet;

use berth_api::object::volume::Volume;
use berth_api::object::{Node, Pod};

use super::storage::claim_not_found;
use super::{Code, Question, Verdict, World, reject};

/// `Err` with the reason for every node.
pub fn pre_filter(q: Question) -> Result<(), String> {
    for claim in q.pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref()) {
        if q.world.storage.claim(&q.pod.metadata.namespace, &claim.claim_name).is_none() {
            return Err(claim_not_found(&claim.claim_name));
        }
    }
    Ok(())
}

/// The plugin decides before the filters whether it has anything to say, from the cycle's own state: without nominated
/// pods, and before preemption takes pods off.
pub fn is_skipped(q: Question) -> bool {
    let of_disk = |v: &Volume| {
        let disks = v.in_tree_disks();
        let in_tree = disks.gce_persistent_disk.is_some() || disks.aws_elastic_block_store.is_some();
        in_tree || v.rbd.is_some() || v.iscsi.is_some()
    };
    !q.pod.spec.volumes.iter().any(of_disk) && n_claims_in_use(q) == 0
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    let conflict = |volume: &Volume| {
        q.pods_on(node).any(|pod| pod.spec.volumes.iter().any(|other| cannot_share(volume, other)))
    };
    if q.pod.spec.volumes.iter().any(conflict) {
        return reject(Code::Unschedulable, "node(s) had no available disk");
    }
    // Claims in use when the cycle began, plus and minus the references of pods added and taken off since.
    let in_use = n_claims_in_use(q) as i64 + n_references(q, q.world) - n_references(q, q.cycle);
    if in_use > 0 {
        return reject(
            Code::Unschedulable,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use \
             by another pod",
        );
    }
    Ok(())
}

/// Whether two pods of a node cannot use these volumes, which are the same disk.
pub fn cannot_share(volume: &Volume, other: &Volume) -> bool {
    if let (Some(a), Some(b)) = (&volume.gce_persistent_disk, &other.gce_persistent_disk) {
        return a.pd_name == b.pd_name && !(a.read_only && b.read_only);
    }
    if let (Some(a), Some(b)) = (&volume.aws_elastic_block_store, &other.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&volume.iscsi, &other.iscsi) {
        return a.iqn == b.iqn && !(a.read_only && b.read_only);
    }
    if let (Some(a), Some(b)) = (&volume.rbd, &other.rbd) {
        let pool = |pool: &str| if pool.is_empty() { "rbd".to_owned() } else { pool.to_owned() };
        return a.monitors.iter().any(|m| b.monitors.contains(m))
            && pool(&a.pool) == pool(&b.pool)
            && a.image == b.image
            && !(a.read_only && b.read_only);
    }
    false
}

/// The pod's claims that only one pod may use. Claims of ephemeral volumes do not count.
fn exclusive_claims(q: Question<'_>) -> BTreeSet<&str> {
    let claims = q.pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref());
    let names = claims.map(|c| c.claim_name.as_str());
    names
        .filter(|name| {
            let claim = q.world.storage.claim(&q.pod.metadata.namespace, name);
            claim.is_some_and(|c| c.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod"))
        })
        .collect()
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref()).map(|c| c.claim_name.as_str())
}

fn on_nodes(world: &World) -> impl Iterator<Item = &Pod> {
    world.pods.iter().filter(|p| world.nodes.iter().any(|n| n.metadata.name == p.spec.node_name))
}

fn n_claims_in_use(q: Question) -> usize {
    let in_use = |name: &&&str| {
        on_nodes(q.cycle)
            .any(|p| p.metadata.namespace == q.pod.metadata.namespace && claims_of(p).any(|c| c == **name))
    };
    exclusive_claims(q).iter().filter(in_use).count()
}

/// The references of pods to these claims. kube-scheduler compares names only, not namespaces, and so may evict a pod of
/// another namespace without success; Berth does not.
fn n_references(q: Question, world: &World) -> i64 {
    let exclusive = exclusive_claims(q);
    let pods = on_nodes(world).filter(|p| p.metadata.namespace == q.pod.metadata.namespace);
    pods.flat_map(claims_of).filter(|claim| exclusive.contains(claim)).count() as i64
}
