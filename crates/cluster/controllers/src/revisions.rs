//! Revisions of the templates of StatefulSets and DaemonSets, kept as ControllerRevision objects.
//!
//! `kubectl rollout history` and `undo` read them: their data is the patch that restores the template.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::CONTROLLER_REVISIONS;
use serde_json::{Value, json};

use super::api::{Api, DeleteOptions};
use super::index::Cache;
use super::ownership::{Owner, claim};
use super::template::{same_template, template_hash};
use super::view::{ControllerRevision, Pod, WorkloadSelector};
use berth_client::call::CallError;

pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";

/// Maximum names tried in one sync when hashes collide.
const MAX_COLLISIONS: i32 = 8;

#[derive(Debug)]
pub(crate) struct History {
    /// All of them, oldest first.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// The revision of the current template.
    pub(crate) update: Arc<ControllerRevision>,
    pub(crate) collisions: Option<i32>,
}

/// How the controller obtains a revision of the current template.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The newest revision matches.
    Newest(usize),
    /// An older revision matches; it gets this number and becomes the newest.
    Raise(usize, i64),
    /// No revision matches; a new one gets this number.
    Make(i64),
}

fn wanted(sorted: &[Arc<ControllerRevision>], template: &Value) -> Wanted {
    let next = sorted.last().map_or(0, |newest| newest.revision).saturating_add(1);
    match sorted.iter().rposition(|revision| same_template(revision.template(), template)) {
        Some(at) if at + 1 == sorted.len() => Wanted::Newest(at),
        Some(at) => Wanted::Raise(at, next),
        None => Wanted::Make(next),
    }
}

impl ControllerRevision {
    /// The previous current template.
    pub(crate) fn template(&self) -> &Value {
        self.data.pointer("/spec/template").unwrap_or(&Value::Null)
    }

    pub(crate) fn hash(&self) -> &str {
        self.metadata.label(REVISION_LABEL).unwrap_or_default()
    }
}

/// Reads the history of an object, and creates a revision of its current template if none exists.
pub(crate) async fn history(
    api: &Api,
    cache: &Cache<ControllerRevision>,
    owner: Owner<'_>,
    selector: &WorkloadSelector,
    template: &Value,
    collisions: Option<i32>,
) -> Result<History, CallError> {
    let mut all = claim(api, owner, selector, &CONTROLLER_REVISIONS, cache, |_| true).await?;
    all.sort_by(|a, b| (a.revision, &a.metadata.name).cmp(&(b.revision, &b.metadata.name)));
    match wanted(&all, template) {
        Wanted::Newest(at) => {
            let update = all[at].clone();
            Ok(History { all, update, collisions })
        }
        Wanted::Raise(at, number) => {
            let revision = all.remove(at);
            let patch = json!({
                "metadata": {"resourceVersion": revision.metadata.resource_version},
                "revision": number,
            });
            let key = revision.metadata.namespaced_name();
            let raised: ControllerRevision = api.patch_as(&CONTROLLER_REVISIONS, &key, "", &patch).await?;
            let update = Arc::new(raised);
            all.push(update.clone());
            Ok(History { all, update, collisions })
        }
        Wanted::Make(number) => {
            let (update, collisions) = make(api, owner, template, number, collisions).await?;
            let update = Arc::new(update);
            all.push(update.clone());
            Ok(History { all, update, collisions })
        }
    }
}

async fn make(
    api: &Api,
    owner: Owner<'_>,
    template: &Value,
    number: i64,
    mut collisions: Option<i32>,
) -> Result<(ControllerRevision, Option<i32>), CallError> {
    let mut data = template.clone();
    if let Some(data) = data.as_object_mut() {
        data.insert("$patch".to_owned(), "replace".into());
    }
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_else(|| json!({}));
    for attempt in 0.. {
        let hash = template_hash(template, collisions.unwrap_or(0));
        let key = NamespacedName::new(&owner.meta.namespace, &format!("{}-{hash}", owner.meta.name));
        let mut labels = labels.clone();
        labels[REVISION_LABEL] = hash.into();
        let object = json!({
            "apiVersion": CONTROLLER_REVISIONS.api_version(),
            "kind": CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": key.name(),
                "namespace": key.namespace(),
                "labels": labels,
                "ownerReferences": [owner.reference()],
            },
            "data": {"spec": {"template": data}},
            "revision": number,
        });
        match api.create_as(&CONTROLLER_REVISIONS, key.namespace(), object.to_string().into_bytes()).await {
            Err(error) if error.is_already_exists() && attempt < MAX_COLLISIONS => {
                let there: Option<ControllerRevision> = api.get(&CONTROLLER_REVISIONS, &key).await?;
                let is_ours = |there: &ControllerRevision| {
                    there.metadata.is_controlled_by(&owner.meta.uid)
                        && same_template(there.template(), template)
                };
                if let Some(ours) = there.filter(is_ours) {
                    return Ok((ours, collisions));
                }
                collisions = Some(collisions.unwrap_or(0).saturating_add(1));
            }
            result => return result.map(|made| (made, collisions)),
        }
    }
    unreachable!("the last attempt returns")
}

/// Deletes the oldest revisions beyond the limit; those of pods and `current` are in use.
pub(crate) async fn truncate(
    api: &Api,
    history: &History,
    limit: Option<i32>,
    pods: &[Arc<Pod>],
    current: Option<&str>,
) -> Result<(), CallError> {
    let live = pods.iter().filter_map(|pod| pod.metadata.label(REVISION_LABEL)).chain(current).collect();
    for revision in beyond_limit(&history.all, &history.update.metadata.name, limit, &live) {
        let options = DeleteOptions::of_uid(&revision.metadata.uid);
        api.delete(&CONTROLLER_REVISIONS, &revision.metadata.namespaced_name(), options).await?;
    }
    Ok(())
}

/// `live` has names or hashes of revisions in use.
fn beyond_limit<'a>(
    all: &'a [Arc<ControllerRevision>],
    update: &str,
    limit: Option<i32>,
    live: &BTreeSet<&str>,
) -> Vec<&'a ControllerRevision> {
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(0);
    let is_old = |revision: &&ControllerRevision| {
        let name = &*revision.metadata.name;
        name != update && !live.contains(name) && !live.contains(revision.hash())
    };
    let old: Vec<_> = all.iter().map(|revision| &**revision).filter(is_old).collect();
    let n_over = old.len().saturating_sub(limit);
    old.into_iter().take(n_over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, image: &str, revision: i64) -> Arc<ControllerRevision> {
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name},
                "data": {"spec": {"template": {"$patch": "replace", "spec": {"image": image}}}},
                "revision": revision,
            }))
            .unwrap(),
        )
    }

    #[test]
    fn rollback_renumbers_the_old_revision() {
        let all = [revision("x", "1", 1), revision("y", "2", 4)];
        for (image, expected) in
            [("2", Wanted::Newest(1)), ("1", Wanted::Raise(0, 5)), ("3", Wanted::Make(5))]
        {
            assert_eq!(wanted(&all, &json!({"spec": {"image": image}})), expected);
        }
        assert_eq!(wanted(&[], &json!({})), Wanted::Make(1));
    }

    #[test]
    fn revisions_in_use_are_kept() {
        let all =
            [revision("a", "1", 1), revision("b", "2", 2), revision("c", "3", 3), revision("d", "4", 4)];
        for (limit, live, expected) in [
            (None, vec![], vec![]),
            (Some(1), vec![], vec!["a", "b"]),
            (Some(1), vec!["a"], vec!["b"]),
            (Some(0), vec!["a"], vec!["b", "c"]),
        ] {
            let live = live.into_iter().collect();
            let names: Vec<_> =
                beyond_limit(&all, "d", limit, &live).iter().map(|r| r.metadata.name.to_string()).collect();
            assert_eq!(names, expected, "{limit:?} {live:?}");
        }
    }
}
