//! The volumes of one pod, parsed.

use berth_api::object::Pod;
use berth_api::object::volume::Volume;
use berth_rules::volume::InTreePlugin;

use crate::state::interned::intern::Symbol;
use crate::state::pod::uid::Uid;

/// Namespace and name of a claim.
pub(crate) type ClaimKey = (Symbol, Box<str>);

/// The volumes that placement depends on. It belongs to a pod, which keeps the symbol of the namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodVolumes {
    pub(crate) pod_name: Box<str>,
    pub(crate) pod_uid: Uid,
    /// In the order of the pod's volumes.
    pub(crate) claims: Box<[PodClaim]>,
    /// Disks that pods on one node may share only for reading.
    pub(crate) disks: Box<[Disk]>,
    /// In-tree disks that a CSI driver may serve: the plugin and the handle.
    pub(crate) in_tree: Box<[(InTreePlugin, Box<str>)]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodClaim {
    pub(crate) key: ClaimKey,
    pub(crate) volume: Box<str>,
    /// Created for the pod, which must own it.
    pub(crate) ephemeral: bool,
}

/// A disk that the pod names itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Disk {
    pub(crate) volume: Box<str>,
    kind: DiskKind,
    read_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DiskKind {
    Gce(Box<str>),
    Aws(Box<str>),
    Iscsi(Box<str>),
    Rbd { monitors: Box<[String]>, pool: Box<str>, image: Box<str> },
}

impl PodVolumes {
    /// None for a pod without such volumes.
    pub(crate) fn parse(pod: &Pod, namespace: Symbol) -> Option<PodVolumes> {
        let volumes = &pod.spec.volumes;
        let claims: Box<[_]> =
            volumes.iter().filter_map(|volume| claim(volume, namespace, &pod.metadata.name)).collect();
        let disks: Box<[_]> = volumes.iter().filter_map(Disk::parse).collect();
        let in_tree: Box<[_]> = volumes
            .iter()
            .filter(|volume| volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none())
            .filter_map(|volume| InTreePlugin::of_disk(volume.in_tree_disks(), &Default::default()))
            .map(|(plugin, handle)| (plugin, handle.into()))
            .collect();
        (!claims.is_empty() || !disks.is_empty() || !in_tree.is_empty()).then(|| PodVolumes {
            pod_name: pod.metadata.name.as_str().into(),
            pod_uid: Uid::new(&pod.metadata.uid),
            claims,
            disks,
            in_tree,
        })
    }

    /// The same volumes in a pod of another name.
    pub(crate) fn named(&self, pod_name: &str) -> PodVolumes {
        let mut volumes = PodVolumes { pod_name: pod_name.into(), pod_uid: Uid::default(), ..self.clone() };
        for claim in volumes.claims.iter_mut().filter(|claim| claim.ephemeral) {
            claim.key.1 = ephemeral_claim(pod_name, &claim.volume);
        }
        volumes
    }

    /// How many disks of the other pod are such that no disk of this one may be beside them.
    pub(crate) fn n_disk_conflicts(&self, other: &PodVolumes) -> usize {
        other.disks.iter().filter(|theirs| self.disks.iter().any(|own| own.conflicts_with(theirs))).count()
    }

    /// Whether it uses a claim; ephemeral ones do not count.
    pub(crate) fn n_uses(&self, key: &ClaimKey) -> usize {
        self.claims.iter().filter(|claim| !claim.ephemeral && claim.key == *key).count()
    }
}

fn claim(volume: &Volume, namespace: Symbol, pod_name: &str) -> Option<PodClaim> {
    let (name, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => (claim.claim_name.as_str().into(), false),
        (None, Some(_)) => (ephemeral_claim(pod_name, &volume.name), true),
        (None, None) => return None,
    };
    Some(PodClaim { key: (namespace, name), volume: volume.name.as_str().into(), ephemeral })
}

fn ephemeral_claim(pod_name: &str, volume: &str) -> Box<str> {
    format!("{pod_name}-{volume}").into()
}

impl Disk {
    fn parse(volume: &Volume) -> Option<Disk> {
        let (kind, read_only) = if let Some(disk) = &volume.gce_persistent_disk {
            (DiskKind::Gce(disk.pd_name.as_str().into()), disk.read_only)
        } else if let Some(disk) = &volume.aws_elastic_block_store {
            (DiskKind::Aws(disk.volume_id.as_str().into()), false)
        } else if let Some(disk) = &volume.iscsi {
            (DiskKind::Iscsi(disk.iqn.as_str().into()), disk.read_only)
        } else if let Some(disk) = &volume.rbd {
            let pool = if disk.pool.is_empty() { "rbd" } else { &disk.pool };
            let (monitors, image) = (disk.monitors.clone().into(), disk.image.as_str().into());
            (DiskKind::Rbd { monitors, pool: pool.into(), image }, disk.read_only)
        } else {
            return None;
        };
        Some(Disk { volume: volume.name.as_str().into(), kind, read_only })
    }

    /// Whether both are the same disk, and not both are mounted read-only. AWS disks are never shared.
    fn conflicts_with(&self, other: &Disk) -> bool {
        let is_same = match (&self.kind, &other.kind) {
            (
                DiskKind::Rbd { monitors, pool, image },
                DiskKind::Rbd { monitors: others, pool: other_pool, image: other_image },
            ) => (pool, image) == (other_pool, other_image) && monitors.iter().any(|m| others.contains(m)),
            (a, b) => a == b,
        };
        is_same && !(self.read_only && other.read_only)
    }
}

impl std::fmt::Display for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            DiskKind::Gce(name) => write!(f, "GCE disk {name}"),
            DiskKind::Aws(id) => write!(f, "AWS disk {id}"),
            DiskKind::Iscsi(iqn) => write!(f, "iSCSI disk {iqn}"),
            DiskKind::Rbd { pool, image, .. } => write!(f, "Ceph image {pool}/{image}"),
        }
    }
}
