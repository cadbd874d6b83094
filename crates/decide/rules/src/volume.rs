//! Volumes as the scheduler reads them: in-tree disks as volumes of the CSI driver that replaces their plugin (CSI
//! migration), and the zones of volumes.

use std::collections::BTreeSet;

use berth_api::object::volume::{CsiNode, InTreeDisks, MIGRATED_PLUGINS_ANNOTATION, PersistentVolume};
use berth_api::object::{NodeSelector, NodeSelectorTerm, SelectorRequirement, StringMap};
use berth_api::syntax::labels::{REGION, ZONE};

berth_api::named! {
    /// An in-tree plugin whose volumes a CSI driver serves on nodes that say so.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum InTreePlugin(name) {
        AwsEbs = "kubernetes.io/aws-ebs",
        GcePd = "kubernetes.io/gce-pd",
        AzureDisk = "kubernetes.io/azure-disk",
        Cinder = "kubernetes.io/cinder",
        Portworx = "kubernetes.io/portworx-volume",
    }
}

/// Provisioners that are migrated on no node: volumes to be provisioned by them are not counted.
const NEVER_MIGRATED: [&str; 2] = ["kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"];

/// The CSI driver that serves the volumes of a provisioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverOf<'a> {
    /// The provisioner is a CSI driver, or unknown.
    Provisioner(&'a str),
    /// An in-tree plugin: only on nodes on which it is migrated.
    Migrated(InTreePlugin),
    None,
}

impl InTreePlugin {
    pub const ALL: [InTreePlugin; 5] = [
        InTreePlugin::AwsEbs,
        InTreePlugin::GcePd,
        InTreePlugin::AzureDisk,
        InTreePlugin::Cinder,
        InTreePlugin::Portworx,
    ];

    pub fn csi_driver(self) -> &'static str {
        match self {
            InTreePlugin::AwsEbs => "ebs.csi.aws.com",
            InTreePlugin::GcePd => "pd.csi.storage.gke.io",
            InTreePlugin::AzureDisk => "disk.csi.azure.com",
            InTreePlugin::Cinder => "cinder.csi.openstack.org",
            InTreePlugin::Portworx => "pxd.portworx.com",
        }
    }

    /// The node label with which the CSI driver names zones.
    fn topology_key(self) -> Option<&'static str> {
        Some(match self {
            InTreePlugin::AwsEbs => "topology.ebs.csi.aws.com/zone",
            InTreePlugin::GcePd => "topology.gke.io/zone",
            InTreePlugin::AzureDisk => "topology.disk.csi.azure.com/zone",
            InTreePlugin::Cinder => "topology.cinder.csi.openstack.org/zone",
            InTreePlugin::Portworx => return None,
        })
    }

    /// The CSI driver that serves the volumes of a provisioner.
    pub fn driver_of(provisioner: &str) -> DriverOf<'_> {
        match InTreePlugin::ALL.into_iter().find(|plugin| plugin.name() == provisioner) {
            Some(plugin) => DriverOf::Migrated(plugin),
            None if NEVER_MIGRATED.contains(&provisioner) => DriverOf::None,
            None => DriverOf::Provisioner(provisioner),
        }
    }

    pub fn migrated_on(node: &CsiNode) -> Vec<InTreePlugin> {
        let names = node.metadata.annotation(MIGRATED_PLUGINS_ANNOTATION).unwrap_or_default();
        let is_named = |plugin: &InTreePlugin| names.split(',').any(|name| name == plugin.name());
        InTreePlugin::ALL.into_iter().filter(is_named).collect()
    }

    /// The plugin and the handle that the CSI driver knows a disk by. `labels` are those of the persistent volume; none
    /// for a disk that the pod names itself.
    pub fn of_disk(disks: InTreeDisks<'_>, labels: &StringMap) -> Option<(InTreePlugin, String)> {
        if let Some(disk) = disks.aws_elastic_block_store {
            return Some((InTreePlugin::AwsEbs, ebs_volume(&disk.volume_id).to_owned()));
        }
        if let Some(disk) = disks.gce_persistent_disk {
            return Some((InTreePlugin::GcePd, gce_handle(&disk.pd_name, labels)));
        }
        if let Some(disk) = disks.azure_disk {
            return Some((InTreePlugin::AzureDisk, disk.disk_uri.clone()));
        }
        if let Some(disk) = disks.cinder {
            return Some((InTreePlugin::Cinder, disk.volume_id.clone()));
        }
        disks.portworx_volume.map(|disk| (InTreePlugin::Portworx, disk.volume_id.clone()))
    }

    /// The node affinity of a volume of this plugin where it is migrated: the zone is that of the CSI driver.
    pub fn translated_node_affinity(self, volume: &PersistentVolume) -> Option<NodeSelector> {
        let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.clone());
        let Some(topology_key) = self.topology_key() else { return required };
        let mut selector = required.unwrap_or_default();
        let any = |selector: &NodeSelector, key: &str, test: fn(&SelectorRequirement) -> bool| {
            let mut terms = selector.node_selector_terms.iter().flat_map(|term| &term.match_expressions);
            terms.any(|expression| expression.key == key && test(expression))
        };
        let in_affinity = |key| any(&selector, key, |_| true);
        let has_values = |selector: &NodeSelector, key| any(selector, key, |e| !e.values.is_empty());
        let has_label = |key| volume.metadata.labels.contains_key(key);
        let is_stable =
            in_affinity(ZONE) || (!in_affinity(BETA_ZONE) && (has_label(ZONE) || !has_label(BETA_ZONE)));
        let zone_key = if is_stable { ZONE } else { BETA_ZONE };
        if has_values(&selector, zone_key) {
            replace_key(&mut selector, zone_key, topology_key);
        } else if let Some(zones) = volume.metadata.label(zone_key) {
            let zones: BTreeSet<_> =
                zones.split(DELIMITER).map(str::trim).filter(|z| !z.is_empty()).collect();
            let requirement = SelectorRequirement {
                key: topology_key.to_owned(),
                operator: "In".to_owned(),
                values: zones.iter().map(ToString::to_string).collect(),
            };
            if selector.node_selector_terms.is_empty() {
                selector.node_selector_terms.push(NodeSelectorTerm::default());
            }
            for term in selector.node_selector_terms.iter_mut().filter(|_| !zones.is_empty()) {
                term.match_expressions.push(requirement.clone());
            }
        }
        if !is_stable && has_values(&selector, BETA_REGION) {
            replace_key(&mut selector, BETA_REGION, REGION);
        }
        (!selector.node_selector_terms.is_empty()).then_some(selector)
    }
}

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// Between the zones in a label of a volume.
const DELIMITER: &str = "__";

/// The labels of volumes and nodes that VolumeZone compares, each with the one that nodes may have instead.
pub const VOLUME_ZONE_LABELS: [(&str, &str); 4] =
    [(BETA_ZONE, ZONE), (BETA_REGION, REGION), (ZONE, ZONE), (REGION, REGION)];

/// The zones that a volume's label allows; none if the label is malformed, and so without effect.
pub fn zones_of_label(value: &str) -> Option<BTreeSet<&str>> {
    let zones: BTreeSet<_> = value.split(DELIMITER).map(str::trim).collect();
    (!zones.contains("")).then_some(zones)
}

fn replace_key(selector: &mut NodeSelector, from: &str, to: &str) {
    for term in &mut selector.node_selector_terms {
        for expression in term.match_expressions.iter_mut().filter(|expression| expression.key == from) {
            to.clone_into(&mut expression.key);
        }
    }
}

/// `vol-1` of `aws://zone/vol-1`.
fn ebs_volume(id: &str) -> &str {
    match id.strip_prefix("aws://") {
        Some(rest) => rest.split_once('/').map_or(rest, |(_, path)| path.trim_matches('/')),
        None => id,
    }
}

fn gce_handle(disk: &str, labels: &StringMap) -> String {
    let zones = labels.get(ZONE).filter(|zones| !zones.is_empty()).or_else(|| labels.get(BETA_ZONE));
    let zones: Vec<_> = zones.map_or(Vec::new(), |zones| zones.split(DELIMITER).collect());
    match zones.as_slice() {
        [zone] if !zone.is_empty() => format!("projects/UNSPECIFIED/zones/{zone}/disks/{disk}"),
        [] | [_] => format!("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"),
        [zone, ..] => {
            let region = zone.rsplit_once('-').map_or(*zone, |(region, _)| region);
            format!("projects/UNSPECIFIED/regions/{region}/disks/{disk}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_topology_key_is_translated_where_the_volume_has_values_for_it() {
        let translated = |labels: Value, expressions: Value| -> Value {
            let volume: PersistentVolume = serde_json::from_value(json!({
                "metadata": {"name": "v", "labels": labels},
                "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}},
            }))
            .unwrap();
            let selector = InTreePlugin::AwsEbs.translated_node_affinity(&volume).unwrap();
            json!(selector)["nodeSelectorTerms"][0]["matchExpressions"].clone()
        };
        let is_in = |key: &str| json!({"key": key, "operator": "In", "values": ["a"]});
        let absent = |key: &str| json!({"key": key, "operator": "DoesNotExist"});
        let driver = "topology.ebs.csi.aws.com/zone";
        assert_eq!(translated(json!({}), json!([is_in(ZONE)])), json!([is_in(driver)]));
        assert_eq!(translated(json!({}), json!([absent(ZONE)])), json!([absent(ZONE)]));
        assert_eq!(
            translated(json!({BETA_ZONE: "a"}), json!([absent(BETA_ZONE), absent(BETA_REGION)])),
            json!([absent(BETA_ZONE), absent(BETA_REGION), is_in(driver)])
        );
        assert_eq!(
            translated(json!({}), json!([is_in(BETA_ZONE), is_in(BETA_REGION)])),
            json!([is_in(driver), is_in(REGION)])
        );
        // Without any zone, the keys are taken for the stable ones.
        assert_eq!(translated(json!({}), json!([is_in(BETA_REGION)])), json!([is_in(BETA_REGION)]));
    }
}
