//! The objects that a controller manages: they refer to it and match its selector.
//!
//! The controller adopts matching orphans and releases owned objects that no longer match. Both writes carry the
//! resource version, so two controllers cannot both adopt an object.

use std::sync::Arc;

use berth_api::resource::Resource;
use serde_json::json;

use super::api::Api;
use super::index::{Cache, Index};
use super::view::{ObjectMeta, OwnerReference, PartialObjectMetadata, WorkloadSelector};
use berth_client::HasMetadata;
use berth_client::call::CallError;

/// The field of the metadata with the owners.
pub(crate) const OWNERS: &str = "ownerReferences";

/// A controller as the owner of the objects it creates.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) kind: &'static Resource,
    pub(crate) meta: &'a ObjectMeta,
}

impl Owner<'_> {
    pub(crate) fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.kind.api_version().to_owned(),
            kind: self.kind.kind.to_owned(),
            name: self.meta.name.clone(),
            uid: self.meta.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Keep,
    Adopt,
    Release,
    Ignore,
}

fn claim_of(owner: &ObjectMeta, selector: &WorkloadSelector, object: &ObjectMeta, adoptable: bool) -> Claim {
    let matches = selector.matches(&object.labels);
    match object.controller() {
        Some(controller) if controller.uid != owner.uid => Claim::Ignore,
        Some(_) if matches => Claim::Keep,
        Some(_) if owner.is_deleting() => Claim::Ignore,
        Some(_) => Claim::Release,
        None if !matches || !adoptable || owner.is_deleting() || object.is_deleting() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// The objects of `cache` that the owner manages, after adoption and release.
///
/// Only orphans for which `adoptable` holds are adopted.
///
/// # Errors
/// An adoption or a release failed, most likely because the object has changed: sync again.
pub(crate) async fn claim<T: HasMetadata>(
    api: &Api,
    owner: Owner<'_>,
    selector: &WorkloadSelector,
    dependents: &'static Resource,
    cache: &Cache<T>,
    adoptable: impl Fn(&T) -> bool,
) -> Result<Vec<Arc<T>>, CallError> {
    let mut objects = cache.by(&Index::Controller(owner.meta.uid.clone()));
    objects.extend(cache.by(&Index::Orphans(owner.meta.namespace.clone())));
    let claim_of = |object: &Arc<T>| claim_of(owner.meta, selector, object.meta(), adoptable(object));
    let claims: Vec<Claim> = objects.iter().map(claim_of).collect();
    let metadata: Vec<&ObjectMeta> = objects.iter().map(|object| object.meta()).collect();
    let mut claimed = carry_out(api, owner, dependents, &metadata, &claims).await?.into_iter();
    objects.retain(|_| claimed.next() == Some(true));
    Ok(objects)
}

/// Writes owner references; returns which objects the owner manages. Not generic, so that it is compiled once.
async fn carry_out(
    api: &Api,
    owner: Owner<'_>,
    dependents: &'static Resource,
    objects: &[&ObjectMeta],
    claims: &[Claim],
) -> Result<Vec<bool>, CallError> {
    let mut claimed = Vec::with_capacity(objects.len());
    let mut checked = false;
    for (meta, claim) in objects.iter().zip(claims) {
        claimed.push(match claim {
            Claim::Ignore => false,
            Claim::Keep => true,
            Claim::Adopt if !checked && !is_still_there(api, owner).await? => false,
            Claim::Adopt => {
                checked = true;
                let reference = owner.reference();
                let owners: Vec<_> = meta.owner_references.iter().chain([&reference]).collect();
                api.set_metadata(dependents, meta, OWNERS, json!(owners)).await?.is_some()
            }
            Claim::Release => {
                let others = meta.owner_references.iter().filter(|other| other.uid != owner.meta.uid);
                let others: Vec<_> = others.collect();
                api.set_metadata(dependents, meta, OWNERS, json!(others)).await?;
                false
            }
        });
    }
    Ok(claimed)
}

/// Reads the owner from the server, as the cache may not show its deletion yet.
async fn is_still_there(api: &Api, owner: Owner<'_>) -> Result<bool, CallError> {
    let live: Option<PartialObjectMetadata> = api.get(owner.kind, &owner.meta.namespaced_name()).await?;
    Ok(live.is_some_and(|live| live.metadata.uid == owner.meta.uid && !live.metadata.is_deleting()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_orphans_are_adopted_and_others_released() {
        let selector: WorkloadSelector = serde_json::from_str(r#"{"app":"web"}"#).unwrap();
        let meta = |app: &str, owner: Option<&str>, deleting: bool| -> ObjectMeta {
            let owners = owner.map(|uid| json!([{"uid": uid, "controller": true}]));
            let deletion = deleting.then_some("2026-01-01T00:00:00Z");
            let meta = json!({"uid": "me", "labels": {"app": app}, "ownerReferences": owners,
                "deletionTimestamp": deletion});
            serde_json::from_value(meta).unwrap()
        };
        for (owner_deleting, app, controller, deleting, claim) in [
            (false, "web", Some("me"), false, Claim::Keep),
            (false, "web", Some("me"), true, Claim::Keep),
            (true, "web", Some("me"), false, Claim::Keep),
            (false, "db", Some("me"), false, Claim::Release),
            (true, "db", Some("me"), false, Claim::Ignore),
            (false, "web", Some("other"), false, Claim::Ignore),
            (false, "web", None, false, Claim::Adopt),
            (false, "web", None, true, Claim::Ignore),
            (true, "web", None, false, Claim::Ignore),
            (false, "db", None, false, Claim::Ignore),
        ] {
            let owner = meta("", None, owner_deleting);
            let object = meta(app, controller, deleting);
            assert_eq!(claim_of(&owner, &selector, &object, true), claim, "{app} {controller:?} {deleting}");
        }
        assert_eq!(
            claim_of(&meta("", None, false), &selector, &meta("web", None, false), false),
            Claim::Ignore
        );
    }
}
