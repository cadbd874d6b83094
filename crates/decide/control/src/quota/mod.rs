//! ResourceQuotas: what objects use of them, and which creations they refuse. Source of the rules: the evaluators of
//! kube-apiserver's `pkg/quota/v1` and its admission plugin ResourceQuota.

mod scope;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{Pod, ResourceList, ResourceQuota};
use berth_api::read::from_value;
use berth_api::resource::{PERSISTENT_VOLUME_CLAIMS, PODS, Resource};
use berth_api::syntax::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::scope::Scoped;
pub use self::usage::{BY_PLURAL, DEVICES_OF_CLASS, OF_CLASS};

/// Requests and limits that a pod must have if a quota bounds them.
const REQUIRED: &[&str] =
    &["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// What an object uses, and what scopes ask of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Uses {
    /// The amounts by the names of `spec.hard`.
    pub amounts: ResourceList,
    /// Until when a pod that is being deleted counts, whether a kubelet ends it or not. That is the grace period after the time at which it
    /// should be gone, as in kube-apiserver's `QuotaV1Pod`.
    pub until: Option<Timestamp>,
    scoped: Scoped,
}

impl Uses {
    /// What an object of any kind uses. Of most kinds, it counts as one, whatever it contains.
    pub fn of(resource: &Resource, object: &Value) -> Uses {
        match *resource {
            PODS => Uses::of_pod(&from_value(object).unwrap_or_default()),
            PERSISTENT_VOLUME_CLAIMS => Uses::of_claim(&from_value(object).unwrap_or_default()),
            _ => Uses { amounts: usage::of(resource, object), until: None, scoped: Scoped::Other },
        }
    }

    pub fn of_pod(pod: &Pod) -> Uses {
        let metadata = &pod.metadata;
        let deleted = metadata.deletion_timestamp.zip(metadata.deletion_grace_period_seconds);
        let until = deleted.and_then(|(at, grace)| at.checked_add(SignedDuration::from_secs(grace)).ok());
        Uses { amounts: usage::of_pod(pod), until, scoped: Scoped::of_pod(&pod.spec) }
    }

    pub fn of_claim(claim: &PersistentVolumeClaim) -> Uses {
        let class = claim.spec.volume_attributes_class_name.clone().unwrap_or_default();
        Uses { amounts: usage::of_claim(claim), until: None, scoped: Scoped::Claim { class } }
    }

    /// What it uses more than an earlier object did.
    pub fn more_than(&self, earlier: &ResourceList) -> ResourceList {
        let less = |name: &str| earlier.get(name).copied().unwrap_or_default();
        let more = self.amounts.iter().map(|(name, amount)| (name.clone(), *amount - less(name)));
        more.filter(|(_, amount)| !amount.is_negative() && !amount.is_zero()).collect()
    }
}

/// Whether a quota is about an object: all of its scopes apply.
pub fn bounds(quota: &ResourceQuota, uses: &Uses) -> bool {
    scope::matches(&quota.spec, &uses.scoped)
}

/// Adds what an object that the quota bounds uses to the used amounts.
pub fn add(used: &mut ResourceList, quota: &ResourceQuota, uses: &Uses) {
    change(used, quota, uses, |used, amount| used + amount);
}

/// Takes away what such an object used.
pub fn release(used: &mut ResourceList, quota: &ResourceQuota, uses: &Uses) {
    change(used, quota, uses, |used, amount| used - amount);
}

fn change(
    used: &mut ResourceList,
    quota: &ResourceQuota,
    uses: &Uses,
    of: impl Fn(Quantity, Quantity) -> Quantity,
) {
    if bounds(quota, uses) {
        for (name, amount) in uses.amounts.iter().filter(|(name, _)| quota.spec.hard.contains_key(*name)) {
            let used = used.entry(name.clone()).or_default();
            *used = of(*used, *amount);
        }
    }
}

/// The used amounts of a quota without objects.
pub fn unused(quota: &ResourceQuota) -> ResourceList {
    quota.spec.hard.keys().map(|name| (name.clone(), Quantity::default())).collect()
}

/// The used amounts as the status has them, unless it lacks one.
pub fn used_by_status(quota: &ResourceQuota) -> Option<ResourceList> {
    let used = |name: &String| Some((name.clone(), *quota.status.used.get(name)?));
    quota.spec.hard.keys().map(used).collect()
}

/// The used amounts once an object that the quota bounds uses `more`; none if the quota bounds nothing of it.
///
/// # Errors
/// The quota is exceeded: the message of the admission plugin.
pub fn charge(
    quota: &ResourceQuota,
    used: impl FnOnce() -> ResourceList,
    more: &ResourceList,
) -> Result<Option<ResourceList>, String> {
    let hard = &quota.spec.hard;
    let requested: ResourceList =
        more.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(n, a)| (n.clone(), *a)).collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let used = used();
    let mut after = used.clone();
    for (name, amount) in &requested {
        *after.entry(name.clone()).or_default() += *amount;
    }
    let exceeded: Vec<&String> = requested.keys().filter(|name| after.get(*name) > hard.get(*name)).collect();
    if exceeded.is_empty() {
        return Ok(Some(after));
    }
    let shown = |amounts: &ResourceList| {
        let amount = |name: &String| amounts.get(name).copied().unwrap_or_default();
        let each = exceeded.iter().map(|name| format!("{name}={}", amount(name)));
        each.collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.metadata.name,
        shown(&requested),
        shown(&used),
        shown(hard)
    ))
}

/// Checks that the containers of a new pod have the requests and limits that a quota bounds.
///
/// # Errors
/// Some are missing: the message of the admission plugin.
pub fn check_amounts(quota: &ResourceQuota, pod: &Pod) -> Result<(), String> {
    let hard = &quota.spec.hard;
    let required: Vec<&str> = REQUIRED.iter().copied().filter(|name| hard.contains_key(*name)).collect();
    if required.is_empty() {
        return Ok(());
    }
    let spec = &pod.spec;
    let pod_level = spec.resources.as_deref();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in spec.init_containers.iter().chain(spec.containers.iter()) {
        let has = |name: &str| {
            let (part, of) = name.split_once('.').unwrap_or(("requests", name));
            [Some(&container.resources), pod_level].into_iter().flatten().any(|resources| {
                let amounts = if part == "limits" { &resources.limits } else { &resources.requests };
                amounts.contains_key(of)
            })
        };
        for name in required.iter().filter(|name| !has(name)) {
            missing.entry(*name).or_default().insert(&container.name);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names = |containers: &BTreeSet<&str>| containers.iter().copied().collect::<Vec<_>>().join(",");
    let each = missing.iter().map(|(name, containers)| format!("{name} for: {}", names(containers)));
    Err(format!(
        "failed quota: {}: must specify {}",
        quota.metadata.name,
        each.collect::<Vec<_>>().join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_on_a_lost_node_was_charged_until_it_was_gone() {
        let until = |metadata: Value| Uses::of(&PODS, &json!({"metadata": metadata})).until;
        assert_eq!(until(json!({"deletionTimestamp": "2026-01-01T00:00:30Z"})), None);
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        assert_eq!(until(deleted), "2026-01-01T00:01:00Z".parse().ok());
    }
}
