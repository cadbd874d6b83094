//! The volumes that CSI drivers attach to nodes.

use std::sync::Arc;

use berth_rules::volume::{DriverOf, InTreePlugin};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{ClaimKey, ClaimRecord, CsiNodeRecord, PodClaim, PodVolumes, Source, Volumes};
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};

/// A volume that a driver attaches: pods that share it have it attached once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attachment<'a> {
    pub(crate) driver: &'a str,
    handle: Handle<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handle<'a> {
    Volume(&'a str),
    /// The volume is not known yet.
    Claim(&'a ClaimKey),
}

/// Pods that a node has more (1) or less (−1) than the state says, with their volumes.
pub(crate) type VolumeDelta = SmallVec<[(Arc<PodVolumes>, i64); 1]>;

impl Volumes {
    /// Whether an ephemeral claim was created for the pod; other claims need not be.
    pub(crate) fn is_for(&self, pod: &PodVolumes, used: &PodClaim, claim: &ClaimRecord) -> bool {
        !used.ephemeral || claim.controller.as_ref() == Some(&pod.pod_uid)
    }

    /// What attaching the volume of a claim means: on a node, or with `None` on one that attaches volumes of every
    /// plugin, with the plugin.
    pub(crate) fn attachment<'a>(
        &'a self,
        key: &'a ClaimKey,
        claim: &'a ClaimRecord,
        csi_node: Option<&CsiNodeRecord>,
    ) -> Option<(Attachment<'a>, Option<InTreePlugin>)> {
        let attaches = |plugin: InTreePlugin| csi_node.is_none_or(|node| node.attaches(plugin));
        let volume = (!claim.volume.is_empty()).then(|| self.volume(&claim.volume)).flatten();
        if let Some(volume) = volume {
            return match &volume.source {
                Source::Csi { driver, handle } if !driver.is_empty() && !handle.is_empty() => {
                    Some((Attachment { driver, handle: Handle::Volume(handle) }, None))
                }
                Source::InTree { plugin, handle, .. } if attaches(*plugin) && !handle.is_empty() => {
                    let driver = plugin.csi_driver();
                    Some((Attachment { driver, handle: Handle::Volume(handle) }, Some(*plugin)))
                }
                _ => None,
            };
        }
        let class = self.class(&claim.class)?;
        let handle = Handle::Claim(key);
        match InTreePlugin::driver_of(&class.provisioner) {
            DriverOf::Provisioner("") | DriverOf::None => None,
            DriverOf::Provisioner(driver) => Some((Attachment { driver, handle }, None)),
            DriverOf::Migrated(plugin) => {
                attaches(plugin).then(|| (Attachment { driver: plugin.csi_driver(), handle }, Some(plugin)))
            }
        }
    }

    /// The volumes of a pod that drivers attach to a node.
    pub(crate) fn attachments_of_pod<'a>(
        &'a self,
        pod: &'a PodVolumes,
        csi_node: &'a CsiNodeRecord,
    ) -> impl Iterator<Item = Attachment<'a>> {
        let claims = pod.claims.iter().filter_map(move |used| {
            let claim = self.claim(&used.key).filter(|claim| self.is_for(pod, used, claim))?;
            Some(self.attachment(&used.key, claim, Some(csi_node))?.0)
        });
        let in_tree = pod.in_tree.iter().filter(|(plugin, _)| csi_node.attaches(*plugin));
        claims.chain(in_tree.map(|(plugin, handle)| Attachment {
            driver: plugin.csi_driver(),
            handle: Handle::Volume(handle),
        }))
    }

    /// The volumes that drivers have attached to a node, and whether pods of the node use them: detaching takes a while.
    pub(crate) fn attached_to<'a>(
        &'a self,
        state: &'a State,
        id: NodeId,
        node: &NodeRecord,
        csi_node: &'a CsiNodeRecord,
        delta: &'a [(Arc<PodVolumes>, i64)],
        counts: impl Fn(&str) -> bool,
    ) -> FxHashMap<Attachment<'a>, bool> {
        let mut used: FxHashMap<Attachment<'a>, i64> = FxHashMap::default();
        let pods = self.pods_on_node(id).iter().filter_map(|pod| state.pods.get(*pod).volumes.as_deref());
        let pods = pods.map(|pod| (pod, 1)).chain(delta.iter().map(|(pod, sign)| (&**pod, *sign)));
        for (pod, sign) in pods {
            for attachment in self.attachments_of_pod(pod, csi_node).filter(|a| counts(a.driver)) {
                *used.entry(attachment).or_default() += sign;
            }
        }
        let used = used.into_iter().filter(|(_, n_uses)| *n_uses > 0);
        let mut attached: FxHashMap<_, _> = used.map(|(attachment, _)| (attachment, true)).collect();
        for name in self.attachments_of_node.get(&node.name).into_iter().flatten() {
            let Some(record) = self.attachments.get(name).filter(|a| counts(&a.driver)) else { continue };
            let volume = self.volume(&record.volume);
            if let Some(Source::Csi { handle, .. }) = volume.map(|volume| &volume.source) {
                let attachment = Attachment { driver: &record.driver, handle: Handle::Volume(handle) };
                attached.entry(attachment).or_insert(false);
            }
        }
        attached
    }

    /// The nodes whose pods use volumes of a pod already, or may do so.
    pub(crate) fn nodes_attached(&self, state: &State, pod: &PodVolumes) -> SmallVec<[NodeId; 2]> {
        let mut nodes = SmallVec::new();
        let of_claim = |key: &ClaimKey, nodes: &mut SmallVec<[NodeId; 2]>| {
            nodes.extend(self.pods_of_claim(key).iter().filter_map(|pod| state.pods.get(*pod).node));
        };
        let mut has_in_tree = !pod.in_tree.is_empty();
        for used in &pod.claims {
            let Some(claim) = self.claim(&used.key) else { continue };
            of_claim(&used.key, &mut nodes);
            let Some(volume) = self.volume(&claim.volume) else { continue };
            has_in_tree |= volume.source.may_be_in_tree();
            for name in self.same_handle(&volume.source) {
                for key in self.claims_of_volume.get(&**name).into_iter().flatten() {
                    of_claim(key, &mut nodes);
                }
            }
        }
        if has_in_tree && self.n_in_tree_pods > 0 {
            let has_disk = |pod: &PodVolumes| !pod.in_tree.is_empty();
            let pods = self.pods_on_node.iter().filter(|(_, pods)| {
                pods.iter().any(|pod| state.pods.get(*pod).volumes.as_deref().is_some_and(has_disk))
            });
            nodes.extend(pods.map(|(node, _)| *node));
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    fn same_handle(&self, source: &Source) -> impl Iterator<Item = &Arc<str>> {
        source.handle().and_then(|handle| self.of_handle.get(&handle)).into_iter().flatten()
    }
}

impl Source {
    /// Whether pods may name the same disk themselves, as that of an in-tree plugin.
    fn may_be_in_tree(&self) -> bool {
        match self {
            Source::Csi { driver, .. } => {
                InTreePlugin::ALL.iter().any(|plugin| plugin.csi_driver() == &**driver)
            }
            Source::InTree { .. } => true,
            Source::Other => false,
        }
    }

    /// The driver that attaches the volume, and the handle it knows the volume by.
    pub(super) fn handle(&self) -> Option<(Box<str>, Box<str>)> {
        match self {
            Source::Csi { driver, handle } => Some((Box::from(&**driver), handle.clone())),
            Source::InTree { plugin, handle, .. } => Some((plugin.csi_driver().into(), handle.clone())),
            Source::Other => None,
        }
    }
}
