//! Applies manifests with the policies that they contain.

use std::sync::Arc;

use berth_admission::AdmissionController;
use berth_api::read::{Kind, Manifest};
use berth_client::apply::{Applied, ApplyError, apply};
use berth_input::policy::{PlacementPolicy, PolicySet};
use kube::Client;

/// As [`apply`], with placement policies and namespaces first; pods are created when `admission` has seen the policies.
pub async fn apply_after_policies(
    client: &Client,
    manifests: Vec<Manifest>,
    admission: Option<&AdmissionController>,
) -> Result<Applied, ApplyError> {
    let is_policy = |manifest: &Manifest| {
        let kind = Kind::of(&manifest.api_version, &manifest.kind);
        matches!(kind, Some(Kind::PlacementPolicy | Kind::ClusterPlacementPolicy))
    };
    let Some(admission) = admission.filter(|_| manifests.iter().any(is_policy)) else {
        return apply(client, manifests).await;
    };
    let (first, rest): (Vec<_>, Vec<_>) =
        manifests.into_iter().partition(|m| is_policy(m) || m.kind == "Namespace");
    let policies = first.iter().filter(|manifest| is_policy(manifest));
    let specs: Vec<_> =
        policies.filter_map(|m| PlacementPolicy::read(&m.value).ok()).map(|p| p.spec).collect();
    let mut applied = apply(client, first).await?;
    let has_all =
        |set: &Arc<PolicySet>| specs.iter().all(|spec| set.policies().iter().any(|p| p.spec == *spec));
    // The sender lives as long as the admission.
    let _ = admission.placement_policies().wait_for(has_all).await;
    let Applied { n_objects, warnings, skipped, namespaces } = apply(client, rest).await?;
    applied.n_objects += n_objects;
    applied.warnings.extend(warnings);
    applied.skipped.extend(skipped);
    applied.namespaces.extend(namespaces);
    Ok(applied)
}
