//! Claims of devices, their templates, and the devices of slices as far as their taints go.

use berth_api::object::device::{DeviceTaint, ResourceClaimStatus, ResourcePool};
use berth_api::object::{NamespacedName, PodResourceClaim, PodResourceClaimStatus};
use serde_json::Value;

use super::{Object, ObjectMeta};
use crate::index::Index;

/// As JSON: a claim gets every field.
pub(crate) type ResourceClaimTemplate = Object<Value>;
/// A PodGroup, as far as its claims of devices go.
pub(crate) type PodGroup = Object<PodGroupSpec, PodGroupStatus>;
pub(crate) type ResourceSlice = Object<ResourceSliceSpec>;

berth_api::object_types! {
    pub(crate) struct ResourceClaim {
        pub(crate) metadata: ObjectMeta,
        pub(crate) status: ResourceClaimStatus,
    }

    pub(crate) struct PodGroupSpec {
        pub(crate) resource_claims: Vec<PodResourceClaim>,
    }

    pub(crate) struct PodGroupStatus {
        pub(crate) resource_claim_statuses: Vec<PodResourceClaimStatus>,
    }

    pub(crate) struct ResourceSliceSpec {
        pub(crate) driver: String,
        pub(crate) pool: ResourcePool,
        pub(crate) devices: Vec<Device>,
    }

    pub(crate) struct Device {
        pub(crate) name: String,
        pub(crate) taints: Vec<DeviceTaint>,
    }
}

impl ResourceClaim {
    /// Its index keys: also the pools that it has devices of.
    pub(crate) fn index(&self, add: &mut dyn FnMut(Index)) {
        Index::of_metadata(&self.metadata, add);
        let results = self.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
        results.for_each(|result| add(Index::Pool(NamespacedName::new(&result.driver, &result.pool))));
    }
}

impl PodGroup {
    /// Whether an entry of one of its pods stands for one of its claims.
    pub(crate) fn shares(&self, entry: &PodResourceClaim) -> bool {
        self.spec.resource_claims.contains(entry)
    }

    /// The claim of an entry; none while it has not been made.
    pub(crate) fn claim_of<'a>(&'a self, entry: &'a PodResourceClaim) -> Option<&'a str> {
        let statuses = || self.status.resource_claim_statuses.iter();
        let made = || statuses().find(|status| status.name == entry.name)?.resource_claim_name.as_deref();
        entry.resource_claim_name.as_deref().or_else(made)
    }
}

impl ResourceSlice {
    /// Its index key: the pool.
    pub(crate) fn index(&self, add: &mut dyn FnMut(Index)) {
        add(Index::Pool(self.pool()));
    }

    /// The driver and the name of its pool.
    pub(crate) fn pool(&self) -> NamespacedName {
        NamespacedName::new(&self.spec.driver, &self.spec.pool.name)
    }
}
