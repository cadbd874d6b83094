//! Keeps the ledgers equal to the living pods: charges go down to the domain of the node after binding, end with the pod,
//! and are made for pods that no webhook has seen.
//!
//! Every replica does this; a write has the resource version, so that a charge of another replica is never lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::Pod;
use berth_api::resource::{PLACEMENT_QUOTAS, PODS};
use berth_client::{Cache, Informer, Missing, WatchGroup, WatchOptions, call};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ledger::{self, Ledgers, TIMEOUT};
use super::{Charge, PlacementQuota};
use crate::state::{ChargedPod, StateAccess};

/// Changes are collected for so long before the ledgers are compared again.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval of retries, and of checks whether pods that were never seen exist.
const RECHECK: Duration = Duration::from_secs(5);
/// How long the charge of a pod counts that was allowed and never observed: no request for its creation is open any more.
const GRACE: Duration = Duration::from_secs(60);

/// Entries without a living pod, by uid: since when this process knows them.
type Unseen = HashMap<String, Instant>;

/// Follows quotas and pods for as long as there are changes.
pub(crate) async fn sync<K: StateAccess>(
    client: kube::Client,
    ledgers: &Ledgers,
    state: &K,
    mut changes: tokio::sync::watch::Receiver<u64>,
    group: &WatchGroup,
) {
    let options = WatchOptions {
        missing: Missing::empty(&PLACEMENT_QUOTAS),
        group: group.clone(),
        ..WatchOptions::new(PLACEMENT_QUOTAS.path(""))
    };
    let mut informer = Informer::<PlacementQuota>::new(options);
    let (cache, changed) = (informer.cache(), Arc::new(Notify::new()));
    let notified = changed.clone();
    informer.on_change(move |_| notified.notify_one());
    let mut informer = informer.run(client.clone(), CancellationToken::new());
    let mut unseen = Unseen::default();
    let mut has_failed = false;
    loop {
        tokio::select! {
            () = &mut informer => return,
            () = changed.notified() => {}
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RECHECK), if has_failed || !unseen.is_empty() => {}
        }
        if cache.n_objects() > 0 {
            tokio::time::sleep(PAUSE).await;
            changes.mark_unchanged();
        }
        has_failed = !settle(&client, state, &cache, &mut unseen).await;
        ledgers.metrics.set(&cache.all());
    }
}

/// Writes the ledgers that differ from the living pods. Returns whether nothing failed.
async fn settle<K: StateAccess>(
    client: &kube::Client,
    state: &K,
    cache: &Cache<PlacementQuota>,
    unseen: &mut Unseen,
) -> bool {
    let now = Instant::now();
    let mut quotas = cache.all();
    quotas.sort_by_cached_key(|quota| quota.metadata.namespaced_name());
    let settled = state.ask("placement quotas", |state| {
        let mut settled = Vec::new();
        for quota in &quotas {
            let living = state.charged_pods(&quota.metadata.namespace);
            let has_ended = |uid: &str| state.charged.as_ref().is_some_and(|pods| pods.has_ended(uid));
            settled.push(charges(quota, &living, has_ended, unseen, now));
        }
        let uids: HashSet<&str> = quotas.iter().flat_map(|q| &q.status.charges).map(|c| &*c.uid).collect();
        if let Some(charged) = &mut state.charged {
            charged.retain_ended(|uid| uids.contains(uid));
        }
        unseen.retain(|uid, _| uids.contains(uid.as_str()));
        settled
    });
    // The list of pods is not complete: the next change is soon.
    let Ok(settled) = settled else { return true };
    let mut is_good = true;
    for (quota, mut charges) in quotas.iter().zip(settled) {
        let name = quota.metadata.namespaced_name();
        let mut gone = HashSet::new();
        for charge in &charges {
            let is_due = |since: &Instant| !charge.reserved || now - *since >= GRACE;
            if unseen.get(&charge.uid).is_some_and(is_due) {
                match exists(client, name.namespace(), charge).await {
                    Some(false) => _ = gone.insert(charge.uid.clone()),
                    // It exists and will be seen, or it is not known.
                    _ => _ = unseen.insert(charge.uid.clone(), now),
                }
            }
        }
        charges.retain(|charge| !gone.contains(&charge.uid));
        let wanted = quota.with(charges);
        if wanted.object == quota.object {
            continue;
        }
        match ledger::write(client, &wanted).await.map(PlacementQuota::read) {
            // The next comparison is with what was written, even if the watch reports it later.
            Ok(written) => _ = written.map(|written| cache.insert(Arc::new(written))),
            // The watch reports the change.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => {
                tracing::warn!("placement quota {name} is not up to date: {error}");
                is_good = false;
            }
        }
    }
    is_good
}

/// The charges of the living pods, and of those that were allowed and may still appear.
fn charges(
    quota: &PlacementQuota,
    living: &[ChargedPod],
    has_ended: impl Fn(&str) -> bool,
    unseen: &mut Unseen,
    now: Instant,
) -> Vec<Charge> {
    let mut charges: Vec<Charge> = living.iter().map(|pod| quota.charge(pod)).collect();
    let uids: HashSet<&str> = living.iter().map(|pod| pod.uid.as_str()).collect();
    for charge in &quota.status.charges {
        if uids.contains(charge.uid.as_str()) || has_ended(&charge.uid) {
            unseen.remove(&charge.uid);
        } else {
            unseen.entry(charge.uid.clone()).or_insert(now);
            charges.push(charge.clone());
        }
    }
    charges
}

/// Whether the pod of a charge is living; `None` if that is not known.
async fn exists(client: &kube::Client, namespace: &str, charge: &Charge) -> Option<bool> {
    let request = call::get(&PODS.object_path(namespace, &charge.pod));
    match call::json::<Pod>(client, request, TIMEOUT).await {
        Ok(pod) => Some(pod.metadata.uid == charge.uid && !pod.is_terminal()),
        Err(error) => error.is_not_found().then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::{OpportunityCost, Reach};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, n_nodes: usize) -> ChargedPod {
        let largest = Reach { n_nodes, ..Reach::default() };
        let cost = OpportunityCost { average: largest.clone(), largest };
        ChargedPod { name: name.to_owned(), uid: format!("uid-{name}"), node: String::new(), cost }
    }

    fn quota(nodes: u64, pods: &[ChargedPod]) -> PlacementQuota {
        let object = json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": {"nodes": nodes.to_string()}}});
        let quota = PlacementQuota::read(object).unwrap();
        quota.with(pods.iter().map(|pod| quota.charge(pod)).collect())
    }

    fn names(charges: &[Charge]) -> Vec<&str> {
        charges.iter().map(|charge| charge.pod.as_str()).collect()
    }

    #[test]
    fn a_charge_that_no_pod_has_counts_until_its_pod_has_ended_or_never_appeared() {
        let now = Instant::now();
        let quota = quota(9, &[pod("living", 3), pod("ended", 1), pod("allowed", 1)]);
        let mut unseen = Unseen::default();
        let living = [pod("living", 1), pod("unnoticed", 1)];
        let left = charges(&quota, &living, |uid| uid == "uid-ended", &mut unseen, now);
        assert_eq!(names(&left), ["living", "unnoticed", "allowed"]);
        assert_eq!(quota.with(left).object["status"]["used"]["nodes"], "3");
        assert_eq!(unseen, Unseen::from([("uid-allowed".to_owned(), now)]));
        // It appears, and may end at once.
        charges(&quota, &[pod("allowed", 1)], |uid| uid == "uid-ended", &mut unseen, now);
        assert!(!unseen.contains_key("uid-allowed"));
    }

    #[test]
    fn a_pod_is_refused_only_where_it_takes_more_than_before() {
        let over = quota(2, &[pod("a", 3)]);
        let refused = over.charge_to(&pod("b", 1)).unwrap_err();
        assert_eq!(
            refused,
            "exceeded placement quota: q, requested: nodes=1, used: nodes=3, limited: nodes=2"
        );
        assert_eq!(over.charge_to(&pod("b", 0)).unwrap().len(), 2);
        assert_eq!(over.charge_to(&pod("a", 3)).unwrap().len(), 1);
        assert!(over.charge_to(&pod("a", 4)).is_err());
    }

    #[test]
    fn a_refusal_releases_only_what_no_pod_has_yet() {
        let living = quota(9, &[pod("a", 1)]);
        assert_eq!(living.without(&pod("a", 1)), None);
        let allowed = living.with(living.charge_to(&pod("b", 1)).unwrap());
        assert_eq!(allowed.without(&pod("b", 1)), Some(living));
    }

    #[test]
    fn charges_that_cannot_be_read_or_are_below_zero_stayed_until_an_administrator_removed_them() {
        let with = |nodes: &str| {
            json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": {"nodes": 1}},
                "status": {"charges": [{"pod": "p", "uid": "u", "reserved": true, "nodes": nodes}]}})
        };
        assert!(PlacementQuota::read(with("lots")).is_err(), "nothing is charged");
        let followed: PlacementQuota = serde_json::from_value(with("lots")).unwrap();
        assert_ne!(followed.with(Vec::new()).object, followed.object, "it is written");
        let lie: PlacementQuota = serde_json::from_value(with("-100")).unwrap();
        assert!(lie.charge_to(&pod("a", 2)).is_err());
    }

    #[test]
    fn an_entry_that_cannot_be_read_names_the_quota() {
        let object =
            json!({"metadata": {"name": "q", "namespace": "n"}, "spec": {"hard": {"nodes": "many"}}});
        let error = PlacementQuota::read(object).unwrap_err();
        assert!(
            error.starts_with("PlacementQuota n/q: spec.hard.nodes: \"many\" is not a quantity"),
            "{error}"
        );
    }
}
