//! In-tree volumes that a CSI driver serves on some nodes: their driver, their handle and their topology.

use berth_api::object::volume::{
    CsiNode, CsiVolume, InTreeDisks, MIGRATED_PLUGINS_ANNOTATION, PersistentVolume, VolumeNodeAffinity,
};
use berth_api::object::{NodeSelector, NodeSelectorTerm, SelectorRequirement};
use berth_api::syntax::labels::{REGION, ZONE};

berth_api::named! {
    /// An in-tree plugin with a CSI driver that replaces it. vSphere and Azure files are never counted or translated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum InTree(name) {
        AwsEbs = "kubernetes.io/aws-ebs",
        GcePd = "kubernetes.io/gce-pd",
        AzureDisk = "kubernetes.io/azure-disk",
        Cinder = "kubernetes.io/cinder",
        Portworx = "kubernetes.io/portworx-volume",
    }
}

impl InTree {
    const ALL: [InTree; 5] =
        [InTree::AwsEbs, InTree::GcePd, InTree::AzureDisk, InTree::Cinder, InTree::Portworx];

    /// The plugin of a volume.
    pub fn of(disks: InTreeDisks) -> Option<InTree> {
        InTree::ALL.into_iter().find(|plugin| match plugin {
            InTree::AwsEbs => disks.aws_elastic_block_store.is_some(),
            InTree::GcePd => disks.gce_persistent_disk.is_some(),
            InTree::AzureDisk => disks.azure_disk.is_some(),
            InTree::Cinder => disks.cinder.is_some(),
            InTree::Portworx => disks.portworx_volume.is_some(),
        })
    }

    /// The plugin that is the provisioner of a class.
    pub fn from_provisioner(provisioner: &str) -> Option<InTree> {
        InTree::ALL.into_iter().find(|plugin| plugin.name() == provisioner)
    }

    pub fn driver(self) -> &'static str {
        match self {
            InTree::AwsEbs => "ebs.csi.aws.com",
            InTree::GcePd => "pd.csi.storage.gke.io",
            InTree::AzureDisk => "disk.csi.azure.com",
            InTree::Cinder => "cinder.csi.openstack.org",
            InTree::Portworx => "pxd.portworx.com",
        }
    }

    /// The node label that replaces the zone in the node affinity of a volume.
    fn topology_key(self) -> Option<&'static str> {
        match self {
            InTree::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
            InTree::GcePd => Some("topology.gke.io/zone"),
            InTree::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
            _ => None,
        }
    }

    /// Whether `VolumeBinding` translates volumes of the plugin on a node: if the node's CSINode lists the plugin.
    fn is_translated_on(self, node: Option<&CsiNode>) -> bool {
        let plugins = node.and_then(|n| n.metadata.annotation(MIGRATED_PLUGINS_ANNOTATION));
        plugins.unwrap_or_default().split(',').any(|p| p == self.name())
    }
}

/// The CSI volume that replaces an in-tree disk of a pod; `Err` when its name cannot be translated.
pub fn translated_disk(plugin: InTree, disks: InTreeDisks) -> Result<CsiVolume, String> {
    let handle = match plugin {
        InTree::AwsEbs => {
            ebs_handle(&disks.aws_elastic_block_store.map(|d| d.volume_id.clone()).unwrap_or_default())?
        }
        InTree::GcePd => gce_handle("zones", "UNSPECIFIED", disks),
        InTree::AzureDisk => disks.azure_disk.map(|d| d.disk_uri.clone()).unwrap_or_default(),
        InTree::Cinder => disks.cinder.map(|d| d.volume_id.clone()).unwrap_or_default(),
        InTree::Portworx => disks.portworx_volume.map(|d| d.volume_id.clone()).unwrap_or_default(),
    };
    Ok(CsiVolume { driver: plugin.driver().to_owned(), volume_handle: handle })
}

fn gce_handle(kind: &str, place: &str, disks: InTreeDisks) -> String {
    let name = disks.gce_persistent_disk.map(|d| d.pd_name.as_str()).unwrap_or_default();
    format!("projects/UNSPECIFIED/{kind}/{place}/disks/{name}")
}

/// `aws://zone/vol-1` and `aws:///vol-1` become `vol-1`.
fn ebs_handle(id: &str) -> Result<String, String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Ok(id.to_owned()) };
    let path = rest.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    if path.starts_with("vol-") && !path.contains('/') {
        Ok(path.to_owned())
    } else {
        Err(format!(
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({id})"
        ))
    }
}

const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// A volume as `VolumeBinding` sees it on a node; `Err` when it cannot be translated.
pub fn on_node(volume: &PersistentVolume, node: Option<&CsiNode>) -> Result<PersistentVolume, String> {
    match InTree::of(volume.spec.in_tree_disks()) {
        Some(plugin) if plugin.is_translated_on(node) => translated(plugin, volume),
        _ => Ok(volume.clone()),
    }
}

/// The volume as the CSI driver that replaces its plugin sees it.
pub fn translated(plugin: InTree, volume: &PersistentVolume) -> Result<PersistentVolume, String> {
    let mut volume = volume.clone();
    let mut csi = translated_disk(plugin, volume.spec.in_tree_disks())?;
    if plugin == InTree::GcePd {
        let label = |key: &str| volume.metadata.label(key).unwrap_or_default().to_owned();
        let zones = if label(BETA_ZONE).is_empty() { label(ZONE) } else { label(BETA_ZONE) };
        let zones: Vec<&str> = zones.split("__").collect();
        csi.volume_handle = match zones.as_slice() {
            [""] => csi.volume_handle,
            [zone] => gce_handle("zones", zone, volume.spec.in_tree_disks()),
            zones => gce_handle("regions", &region(zones)?, volume.spec.in_tree_disks()),
        };
    }
    if let Some(key) = plugin.topology_key() {
        translate_topology(&mut volume, key);
    }
    volume.spec.csi = Some(csi);
    Ok(volume)
}

/// The region of zones with names like `us-east1-b`.
fn region(zones: &[&str]) -> Result<String, String> {
    let mut regions = Vec::new();
    for zone in zones {
        let parts: Vec<&str> = zone.split('-').collect();
        let [locale, region, _] = parts.as_slice() else {
            return Err(format!("failed to get region from zones: unexpected format of zone {zone:?}"));
        };
        let region = format!("{locale}-{region}");
        if !regions.contains(&region) {
            regions.push(region);
        }
    }
    match regions.as_slice() {
        [region] => Ok(region.clone()),
        _ => Err(format!(
            "failed to get region from zones: multiple or no regions gotten from zones: {regions:?}"
        )),
    }
}

/// The zone in the node affinity, or else in the labels of the volume, becomes a requirement on the driver's own label.
fn translate_topology(volume: &mut PersistentVolume, driver_key: &str) {
    let requirements = |volume: &PersistentVolume| -> Vec<SelectorRequirement> {
        let required = volume.spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
        let terms = required.map(|r| r.node_selector_terms.clone()).unwrap_or_default();
        terms.into_iter().flat_map(|term| term.match_expressions).collect()
    };
    let has = |key: &str| requirements(volume).iter().any(|r| r.key == key);
    let labeled = |key: &str| volume.metadata.label(key).is_some();
    let is_beta = !has(ZONE) && (has(BETA_ZONE) || (!labeled(ZONE) && labeled(BETA_ZONE)));
    let (zone, region) = if is_beta { (BETA_ZONE, BETA_REGION) } else { (ZONE, REGION) };

    let has_values = |key: &str| requirements(volume).iter().any(|r| r.key == key && !r.values.is_empty());
    let region_has_values = has_values(region);
    if has_values(zone) {
        rename(volume, zone, driver_key);
    } else if let Some(zones) = volume.metadata.label(zone) {
        let mut zones: Vec<String> = zones.split("__").map(|z| z.trim().to_owned()).collect();
        zones.retain(|z| !z.is_empty());
        if !zones.is_empty() {
            add(volume, driver_key, zones);
        }
    }
    if is_beta && region_has_values {
        rename(volume, BETA_REGION, REGION);
    }
}

fn terms(volume: &mut PersistentVolume) -> &mut Vec<NodeSelectorTerm> {
    let affinity = volume.spec.node_affinity.get_or_insert_with(VolumeNodeAffinity::default);
    &mut affinity.required.get_or_insert_with(NodeSelector::default).node_selector_terms
}

fn rename(volume: &mut PersistentVolume, key: &str, new_key: &str) {
    for requirement in terms(volume).iter_mut().flat_map(|term| &mut term.match_expressions) {
        if requirement.key == key {
            requirement.key = new_key.to_owned();
        }
    }
}

fn add(volume: &mut PersistentVolume, key: &str, values: Vec<String>) {
    let terms = terms(volume);
    if terms.is_empty() {
        terms.push(NodeSelectorTerm::default());
    }
    for term in terms {
        let requirement =
            SelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values: values.clone() };
        term.match_expressions.push(requirement);
    }
}
