//! Whether a node can mount the volumes of a pod: the claims are bound, the node can access the volumes, and the driver's
//! limit is not reached.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::object::volume::{CsiNode, PersistentVolume, PersistentVolumeClaim};
use berth_api::resource::{CSI_NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use berth_client::{Cache, Change, ChangedKeys, Informer, WatchOptions};
use berth_rules::{Dialect, NodeSelectorRule};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::pod::rejection::Rejection;
use crate::pod::view::ClaimVolume;

/// A CSI volume: the driver, and the driver's name of the volume.
pub(crate) type Handle = (String, String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// They count for the limits of drivers.
    pub(crate) handles: Vec<Handle>,
    /// Claims with the access mode `ReadWriteOncePod`.
    pub(crate) exclusive: Vec<NamespacedName>,
}

/// Whether the volumes of a pod can be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mount {
    Mounted(Mounted),
    /// The pod waits; the text is that of the event.
    Waiting(String),
    Rejected(Rejection),
}

/// The node of a pod, as far as volumes depend on it.
pub(crate) struct MountNode<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: &'a berth_api::object::StringMap,
}

/// The claims, volumes and limits of drivers, as informers keep them, and the volumes that are mounted on the nodes.
#[derive(Default)]
pub(crate) struct Volumes {
    claims: Arc<Cache<PersistentVolumeClaim>>,
    volumes: Arc<Cache<PersistentVolume>>,
    /// They have the limits of drivers.
    csi_nodes: Arc<Cache<CsiNode>>,
    /// How many pods use a volume, by node.
    mounted: HashMap<String, BTreeMap<Handle, usize>>,
    /// Claims that one pod has mounted and no other pod of these nodes may mount.
    exclusive: HashSet<NamespacedName>,
}

impl Volumes {
    /// Keeps claims, volumes and limits equal to the API server until `stop`. `changed` gets the claims for which volumes
    /// may now be mounted.
    pub(crate) fn follow(&mut self, client: &Client, changed: &Arc<ChangedKeys>, stop: &CancellationToken) {
        let mut claims = Informer::new(WatchOptions::new(PERSISTENT_VOLUME_CLAIMS.path("")));
        let mut volumes = Informer::new(WatchOptions::new(PERSISTENT_VOLUMES.path("")));
        let csi_nodes = Informer::new(WatchOptions::new(CSI_NODES.path("")));
        let keys = changed.clone();
        claims.on_change(move |change: &Change<'_, PersistentVolumeClaim>| {
            change.new.into_iter().for_each(|claim| keys.add(claim.metadata.namespaced_name()));
        });
        let keys = changed.clone();
        volumes.on_change(move |change: &Change<'_, PersistentVolume>| {
            change.new.and_then(|volume| volume.claim()).into_iter().for_each(|claim| keys.add(claim));
        });
        (self.claims, self.volumes, self.csi_nodes) = (claims.cache(), volumes.cache(), csi_nodes.cache());
        tokio::spawn(claims.run(client.clone(), stop.clone()));
        tokio::spawn(volumes.run(client.clone(), stop.clone()));
        tokio::spawn(csi_nodes.run(client.clone(), stop.clone()));
    }

    /// Whether the volumes of a pod can be mounted on its node.
    pub(crate) fn check(&self, node: MountNode<'_>, volumes: &[ClaimVolume]) -> Mount {
        let (mut handles, mut exclusive) = (BTreeSet::new(), Vec::new());
        for ClaimVolume { name, claim } in volumes {
            let failed = |why: String| {
                Mount::Waiting(format!(
                    "Unable to attach or mount volumes: unmounted volumes=[{name}], unattached volumes=[], failed to \
                     process volumes=[{name}]: error processing PVC {claim}: {why}"
                ))
            };
            let Some(found) = self.claims.get(claim) else {
                let why = format!(
                    "failed to fetch PVC from API server: persistentvolumeclaims {:?} not found",
                    claim.name()
                );
                return failed(why);
            };
            if found.metadata.is_deleting() {
                return failed("can't start pod because PVC is being deleted".to_owned());
            }
            if found.status.phase != "Bound" || found.spec.volume_name.is_empty() {
                return failed("PVC is not bound".to_owned());
            }
            let volume = &found.spec.volume_name;
            let Some(found) = self.volumes.get(&NamespacedName::new("", volume)) else {
                let why = format!(
                    "failed to fetch PV {volume:?} from API server: persistentvolumes {volume:?} not found"
                );
                return failed(why);
            };
            if let Some(required) =
                found.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref())
                && !NodeSelectorRule::parse(required, String::new(), Dialect::V1, false)
                    .matches(node.name, node.labels)
            {
                return Mount::Waiting(format!(
                    "MountVolume.NodeAffinity check failed for volume {volume:?} : no matching NodeSelectorTerms"
                ));
            }
            if found.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
                if self.exclusive.contains(claim) {
                    return Mount::Waiting(format!(
                        "MountVolume.SetUp failed for volume {volume:?} : volume uses the ReadWriteOncePod access mode and \
                         is already in use by another pod"
                    ));
                }
                exclusive.push(claim.clone());
            }
            if let Some(csi) = &found.spec.csi {
                handles.insert((csi.driver.clone(), csi.volume_handle.clone()));
            }
        }
        if self.exceeds_limit(node.name, &handles) {
            return Mount::Rejected(Rejection {
                reason: "VolumeAttachmentLimitExceeded".to_owned(),
                message: "Node has reached its volume attachment limit, rejecting pod".to_owned(),
            });
        }
        Mount::Mounted(Mounted { handles: handles.into_iter().collect(), exclusive })
    }

    /// A volume that several pods of a node use counts once.
    fn exceeds_limit(&self, node: &str, handles: &BTreeSet<Handle>) -> bool {
        let Some(csi_node) = self.csi_nodes.get(&NamespacedName::new("", node)) else { return false };
        let none = BTreeMap::new();
        let mounted = self.mounted.get(node).unwrap_or(&none);
        csi_node.spec.drivers.iter().any(|driver| {
            let Some(limit) = driver.allocatable.as_ref().and_then(|amounts| amounts.count) else {
                return false;
            };
            let of_driver = |handle: &&Handle| handle.0 == driver.name;
            let n_new =
                handles.iter().filter(of_driver).filter(|handle| !mounted.contains_key(*handle)).count();
            let n_mounted = mounted.keys().filter(of_driver).count();
            n_new > 0 && i32::try_from(n_mounted + n_new).unwrap_or(i32::MAX) > limit
        })
    }

    /// Counts the volumes of a pod on its node.
    pub(crate) fn mount(&mut self, node: &str, volumes: &Mounted) {
        self.exclusive.extend(volumes.exclusive.iter().cloned());
        if volumes.handles.is_empty() {
            return;
        }
        let mounted = self.mounted.entry(node.to_owned()).or_default();
        for handle in &volumes.handles {
            *mounted.entry(handle.clone()).or_default() += 1;
        }
    }

    /// The pod has ended.
    pub(crate) fn unmount(&mut self, node: &str, volumes: &Mounted) {
        for claim in &volumes.exclusive {
            self.exclusive.remove(claim);
        }
        let Some(mounted) = self.mounted.get_mut(node) else { return };
        for handle in &volumes.handles {
            if let Some(n_pods) = mounted.get_mut(handle) {
                *n_pods -= 1;
                if *n_pods == 0 {
                    mounted.remove(handle);
                }
            }
        }
        if mounted.is_empty() {
            self.mounted.remove(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volumes() -> Volumes {
        let volumes = Volumes::default();
        let claim = |name: &str, phase: &str| {
            json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"volumeName": format!("pv-{name}")},
                "status": {"phase": phase}})
        };
        for name in ["a", "b", "c", "far"] {
            volumes.claims.insert(Arc::new(serde_json::from_value(claim(name, "Bound")).unwrap()));
            let zone = if name == "far" { "z2" } else { "z1" };
            let requirement = json!({"key": "zone", "operator": "In", "values": [zone]});
            let volume = json!({"metadata": {"name": format!("pv-{name}")}, "spec": {
                "csi": {"driver": "d", "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}});
            volumes.volumes.insert(Arc::new(serde_json::from_value(volume).unwrap()));
        }
        volumes.claims.insert(Arc::new(serde_json::from_value(claim("pending", "Pending")).unwrap()));
        volumes
    }

    fn check(volumes: &Volumes, claims: &[&str]) -> Mount {
        let labels = [("zone".to_owned(), "z1".to_owned())].into();
        let of = |claim: &&str| ClaimVolume { name: "v".to_owned(), claim: NamespacedName::new("n", claim) };
        let claims: Vec<_> = claims.iter().map(of).collect();
        volumes.check(MountNode { name: "node", labels: &labels }, &claims)
    }

    fn handles(names: &[&str]) -> Mounted {
        let handles = names.iter().map(|name| ("d".to_owned(), (*name).to_owned())).collect();
        Mounted { handles, exclusive: Vec::new() }
    }

    #[test]
    fn pods_wait_for_bound_claims_and_accessible_volumes() {
        let volumes = volumes();
        assert_eq!(check(&volumes, &["a", "b"]), Mount::Mounted(handles(&["a", "b"])));
        for (claim, why) in [
            ("pending", "PVC is not bound"),
            ("absent", "persistentvolumeclaims \"absent\" not found"),
            (
                "far",
                "MountVolume.NodeAffinity check failed for volume \"pv-far\" : no matching NodeSelectorTerms",
            ),
        ] {
            let Mount::Waiting(message) = check(&volumes, &["a", claim]) else { panic!("{claim} waits") };
            assert!(message.ends_with(why), "{message}");
        }
    }

    #[test]
    fn one_pod_uses_a_read_write_once_pod_volume() {
        let mut volumes = volumes();
        let volume = json!({"metadata": {"name": "pv-a"}, "spec": {"accessModes": ["ReadWriteOncePod"]}});
        volumes.volumes.insert(Arc::new(serde_json::from_value(volume).unwrap()));
        let Mount::Mounted(first) = check(&volumes, &["a"]) else { panic!("the volume is free") };
        volumes.mount("node", &first);
        let Mount::Waiting(message) = check(&volumes, &["a"]) else { panic!("the volume is in use") };
        assert!(message.ends_with("is already in use by another pod"), "{message}");
        volumes.unmount("node", &first);
        assert!(matches!(check(&volumes, &["a"]), Mount::Mounted(_)));
    }

    #[test]
    fn volumes_beyond_the_limit_of_a_driver_are_rejected() {
        let mut volumes = volumes();
        let limit = |count: Value| {
            let node = json!({"metadata": {"name": "node"},
                "spec": {"drivers": [{"name": "d", "allocatable": {"count": count}}]}});
            Arc::new(serde_json::from_value(node).unwrap())
        };
        volumes.csi_nodes.insert(limit(json!(2)));
        volumes.mount("node", &handles(&["a", "b"]));
        volumes.mount("node", &handles(&["a"]));
        assert!(matches!(check(&volumes, &["a", "b"]), Mount::Mounted(_)), "shared volumes count once");
        assert!(matches!(check(&volumes, &["c"]), Mount::Rejected(_)));
        volumes.unmount("node", &handles(&["a"]));
        assert!(matches!(check(&volumes, &["c"]), Mount::Rejected(_)), "another pod uses it");
        volumes.unmount("node", &handles(&["a", "b"]));
        assert!(matches!(check(&volumes, &["c"]), Mount::Mounted(_)) && volumes.mounted.is_empty());
        volumes.csi_nodes.insert(limit(json!(null)));
        volumes.mount("node", &handles(&["a", "b"]));
        assert!(matches!(check(&volumes, &["c"]), Mount::Mounted(_)), "no limit");
    }
}
