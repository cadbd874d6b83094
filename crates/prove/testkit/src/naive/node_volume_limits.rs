//! `NodeVolumeLimits`: the volumes that the CSI drivers of a node can attach.

use std::collections::BTreeSet;

use berth_api::object::volume::{CsiNode, PersistentVolumeClaim};
use berth_api::object::{Node, Pod};

use super::csi_migration::{InTree, translated, translated_disk};
use super::storage::{claim_name, claim_not_found, made_for};
use super::{Code, Question, Verdict, reject};

/// Provisioners of in-tree plugins whose volumes are not counted for any driver.
const NEVER_COUNTED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// Attached or attachable volumes: driver and handle.
type Attached = BTreeSet<(String, String)>;

/// `Err` when a volume of a pod breaks the whole decision.
pub fn filter(q: Question, node: &Node) -> Result<Verdict, String> {
    let csi_node = q.world.storage.csi_node(&node.metadata.name);
    let mut new = Attached::new();
    if let Some(missing) = add_attachable(q, q.pod, csi_node, &mut new)? {
        let namespace = &q.pod.metadata.namespace;
        let reason = format!("looking up PVC {namespace}/{missing}: {}", claim_not_found(&missing));
        return Ok(reject(Code::UnschedulableAndUnresolvable, &reason));
    }
    let limit = |driver: &str| {
        let driver = csi_node?.spec.drivers.iter().find(|d| d.name == driver)?;
        driver.allocatable.as_ref()?.count
    };
    let has_limits = csi_node.is_some_and(|n| {
        n.spec.drivers.iter().any(|d| d.allocatable.as_ref().is_some_and(|a| a.count.is_some()))
    });
    let is_required = |driver: &str| {
        let driver = q.world.storage.csi_drivers.iter().find(|d| d.metadata.name == driver);
        driver.is_some_and(|d| d.spec.prevent_pod_scheduling_if_missing == Some(true))
    };
    let is_installed =
        |driver: &str| csi_node.is_some_and(|n| n.spec.drivers.iter().any(|d| d.name == driver));
    let mut missing = new.iter().filter(|(driver, _)| is_required(driver) && !is_installed(driver));
    if let Some((driver, _)) = missing.next().filter(|_| q.options.feature_gates.volume_limit_scaling) {
        let reason = format!("{driver} CSI driver is not installed on the node");
        return Ok(reject(Code::Unschedulable, &reason));
    }
    if new.is_empty() || !has_limits {
        return Ok(Ok(()));
    }
    let mut attached = Attached::new();
    for pod in q.pods_on(node) {
        // Claims of running pods that do not exist are not counted.
        add_attachable(q, pod, csi_node, &mut attached)?;
    }
    new.retain(|volume| !attached.contains(volume));
    for attachment in &q.world.storage.attachments {
        let volume = q.world.storage.volume(&attachment.spec.source.persistent_volume_name);
        if let Some(csi) = volume.and_then(|v| v.spec.csi.as_ref())
            && attachment.spec.node_name == node.metadata.name
            && !attachment.spec.attacher.is_empty()
        {
            attached.insert((attachment.spec.attacher.clone(), csi.volume_handle.clone()));
        }
    }
    let count = |volumes: &Attached, driver: &str| volumes.iter().filter(|(d, _)| d == driver).count() as i64;
    for (driver, _) in &new {
        if limit(driver)
            .is_some_and(|limit| count(&attached, driver) + count(&new, driver) > i64::from(limit))
        {
            return Ok(reject(Code::Unschedulable, "node(s) exceed max volume count"));
        }
    }
    Ok(Ok(()))
}

/// Adds the volumes of a pod that a driver attaches. The answer is the first claim that does not exist.
fn add_attachable(
    q: Question,
    pod: &Pod,
    csi_node: Option<&CsiNode>,
    to: &mut Attached,
) -> Result<Option<String>, String> {
    let mut missing = None;
    for volume in &pod.spec.volumes {
        let Some((name, is_ephemeral)) = claim_name(pod, volume) else {
            if let Some(plugin) = InTree::of(volume.in_tree_disks()).filter(|_| csi_node.is_some()) {
                let csi = translated_disk(plugin, volume.in_tree_disks())?;
                to.insert((csi.driver, csi.volume_handle));
            }
            continue;
        };
        let Some(claim) = q.world.storage.claim(&pod.metadata.namespace, &name) else {
            missing.get_or_insert(name);
            continue;
        };
        // kube-scheduler fails with an error if this pod runs already, whichever pod it decides about.
        if is_ephemeral && made_for(pod, claim).is_err() {
            continue;
        }
        to.extend(attachable(q, claim, csi_node).filter(|(d, h)| !d.is_empty() && !h.is_empty()));
    }
    Ok(missing)
}

/// Driver and handle of a claim's volume.
fn attachable(
    q: Question,
    claim: &PersistentVolumeClaim,
    csi_node: Option<&CsiNode>,
) -> Option<(String, String)> {
    let storage = &q.world.storage;
    if let Some(volume) = storage.volume(&claim.spec.volume_name) {
        let csi = match (&volume.spec.csi, InTree::of(volume.spec.in_tree_disks())) {
            (Some(csi), _) => csi.clone(),
            (None, Some(plugin)) if csi_node.is_some() => translated(plugin, volume).ok()?.spec.csi?,
            _ => return None,
        };
        return Some((csi.driver, csi.volume_handle));
    }
    // Not bound yet: the class names the driver, and the claim stands for the handle, unlike that of any volume.
    let provisioner = &storage.class(claim.storage_class())?.provisioner;
    let handle = format!("unbound:{}/{}", claim.metadata.namespace, claim.metadata.name);
    match InTree::from_provisioner(provisioner) {
        Some(plugin) => csi_node.map(|_| (plugin.driver().to_owned(), handle)),
        None if NEVER_COUNTED.contains(&provisioner.as_str()) => None,
        None => Some((provisioner.clone(), handle)),
    }
}
