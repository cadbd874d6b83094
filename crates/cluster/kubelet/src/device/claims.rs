//! Whether the claims of devices of a pod are ready: allocated, and reserved for it.

use std::sync::Arc;

use berth_api::object::ObjectMeta;
use berth_api::object::device::ResourceClaimStatus;
use berth_api::resource::RESOURCE_CLAIMS;
use berth_client::{Cache, Change, ChangedKeys, Informer, WatchOptions};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::pod::view::DeviceClaim;

berth_api::object_types! {
    /// A claim, as far as pods depend on it.
    pub(crate) struct Claim {
        pub(crate) metadata: ObjectMeta,
        pub(crate) status: ResourceClaimStatus,
    }
}

berth_client::has_metadata!(Claim);

/// The claims, as an informer keeps them from the first pod with claims on: many clusters have no such pods.
#[derive(Default)]
pub(crate) struct DeviceClaims {
    claims: Arc<Cache<Claim>>,
    start: Option<Box<dyn FnOnce(Informer<Claim>) + Send>>,
    changed: Arc<ChangedKeys>,
}

impl DeviceClaims {
    /// Claims that keep equal to the API server until `stop`. `changed` gets their names.
    pub(crate) fn new(client: Client, changed: &Arc<ChangedKeys>, stop: CancellationToken) -> DeviceClaims {
        let start = move |claims: Informer<Claim>| drop(tokio::spawn(claims.run(client, stop)));
        DeviceClaims { claims: Arc::default(), start: Some(Box::new(start)), changed: changed.clone() }
    }

    fn follow(&mut self) {
        let Some(start) = self.start.take() else { return };
        let mut claims = Informer::new(WatchOptions::new(RESOURCE_CLAIMS.path("")));
        let keys = self.changed.clone();
        claims.on_change(move |change: &Change<'_, Claim>| {
            change.new.into_iter().for_each(|claim| keys.add(claim.metadata.namespaced_name()));
        });
        self.claims = claims.cache();
        start(claims);
    }

    /// Whether a pod with this uid, and this PodGroup, can use its claims.
    ///
    /// # Errors
    /// It has to wait; the text is that of the event.
    pub(crate) fn check(
        &mut self,
        uid: &str,
        group: Option<&str>,
        claims: &[DeviceClaim],
    ) -> Result<(), String> {
        if !claims.is_empty() {
            self.follow();
        }
        for DeviceClaim { name, claim } in claims {
            let failed =
                |why: String| Err(format!("Failed to prepare dynamic resources: claim {name}: {why}"));
            let Some(key) = claim else {
                return failed("ResourceClaim not created yet".to_owned());
            };
            let Some(found) = self.claims.get(key) else {
                return failed(format!("resourceclaims.resource.k8s.io {:?} not found", key.name()));
            };
            if found.status.allocation.is_none() {
                return failed(format!("ResourceClaim {:?} is not allocated", key.name()));
            }
            if !found.status.is_usable_by(uid, group) {
                return failed(format!(
                    "pod is not allowed to use ResourceClaim {:?}: it is not reserved for it",
                    key.name()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use berth_api::object::NamespacedName;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_waits_until_its_claim_is_allocated_and_reserved_for_it() {
        let mut claims = DeviceClaims::default();
        let reserved = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
        let of_group = |name: &str| {
            let consumer =
                json!({"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": "g"});
            json!({"allocation": {}, "reservedFor": [consumer]})
        };
        for (name, status) in [
            ("free", json!({})),
            ("foreign", json!({"allocation": {}, "reservedFor": [{"uid": "v"}]})),
            ("ready", json!({"allocation": {}, "reservedFor": reserved})),
            ("of-group", of_group("ring")),
            ("of-other-group", of_group("star")),
        ] {
            let claim = json!({"metadata": {"name": name, "namespace": "n"}, "status": status});
            claims.claims.insert(Arc::new(serde_json::from_value::<Claim>(claim).unwrap()));
        }
        for (claim, why) in [
            (json!("ready"), None),
            (json!("of-group"), None),
            (json!("of-other-group"), Some("not reserved for it")),
            (Value::Null, Some("not created yet")),
            (json!("absent"), Some("\"absent\" not found")),
            (json!("free"), Some("\"free\" is not allocated")),
            (json!("foreign"), Some("not reserved for it")),
        ] {
            let claim = claim.as_str().map(|name| NamespacedName::new("n", name));
            let claim = DeviceClaim { name: "gpu".to_owned(), claim };
            match (claims.check("u", Some("ring"), std::slice::from_ref(&claim)), why) {
                (Ok(()), None) => {}
                (Err(message), Some(why)) if message.contains(why) => {}
                (answer, why) => panic!("{claim:?} {answer:?} {why:?}"),
            }
        }
        assert_eq!(claims.check("u", None, &[]), Ok(()));
    }
}
