//! The disks behind volumes: which CSI driver attaches them, and which pods of a node cannot share them.

use berth_api::object::Pod;
use berth_api::object::volume::{CsiNode, InTreeDisks, PersistentVolume, Volume};

/// The annotation of a CSINode with the in-tree plugins whose disks a CSI driver attaches.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// A disk as its driver sees it: driver and handle.
pub type Disk = (String, String);

/// The disk of a volume, if a CSI driver attaches it on a node.
pub fn of_volume(volume: &PersistentVolume, csi_node: &CsiNode) -> Option<Disk> {
    match &volume.spec.csi {
        Some(csi) => Some((csi.driver.clone(), csi.volume_handle.clone())),
        None => migrated(volume.spec.in_tree_disks(), csi_node),
    }
}

/// The in-tree disk of a pod without a claim, if a CSI driver attaches it on a node.
pub fn inline(volume: &Volume, csi_node: &CsiNode) -> Option<Disk> {
    migrated(volume.in_tree_disks(), csi_node)
}

fn migrated(disks: InTreeDisks<'_>, csi_node: &CsiNode) -> Option<Disk> {
    let (plugin, driver, handle) = if let Some(disk) = disks.aws_elastic_block_store {
        ("aws-ebs", "ebs.csi.aws.com", &disk.volume_id)
    } else if let Some(disk) = disks.gce_persistent_disk {
        ("gce-pd", "pd.csi.storage.gke.io", &disk.pd_name)
    } else if let Some(disk) = disks.azure_disk {
        ("azure-disk", "disk.csi.azure.com", &disk.disk_uri)
    } else if let Some(disk) = disks.cinder {
        ("cinder", "cinder.csi.openstack.org", &disk.volume_id)
    } else if let Some(disk) = disks.portworx_volume {
        ("portworx-volume", "pxd.portworx.com", &disk.volume_id)
    } else {
        return None;
    };
    let plugins = csi_node.metadata.annotation(MIGRATED_PLUGINS).unwrap_or_default();
    let is_migrated = plugins.split(',').any(|p| p.trim().strip_prefix("kubernetes.io/") == Some(plugin));
    is_migrated.then(|| (driver.to_owned(), handle.clone()))
}

/// The first disk that two pods of one node cannot both use.
pub fn conflict(a: &Pod, b: &Pod) -> Option<String> {
    a.spec.volumes.iter().find_map(|a| b.spec.volumes.iter().find_map(|b| shared(a, b)))
}

fn shared(a: &Volume, b: &Volume) -> Option<String> {
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk)
        && a.pd_name == b.pd_name
        && !(a.read_only && b.read_only)
    {
        return Some(a.pd_name.clone());
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store)
        && a.volume_id == b.volume_id
    {
        return Some(a.volume_id.clone());
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi)
        && a.iqn == b.iqn
        && !(a.read_only && b.read_only)
    {
        return Some(a.iqn.clone());
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd)
        && a.monitors.iter().any(|monitor| b.monitors.contains(monitor))
        && (&a.pool, &a.image) == (&b.pool, &b.image)
        && !(a.read_only && b.read_only)
    {
        return Some(format!("{}/{}", a.pool, a.image));
    }
    None
}
