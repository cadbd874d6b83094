//! Pods in the cluster: those a server says are assigned, and those a scheduler assumes to be.

use std::collections::{HashMap, HashSet};

use berth_api::object::Pod;
use berth_engine::{Cluster, PreparedPod};

use super::Feed;
use super::fingerprint::Fingerprint;
use super::known::{Difference, Differences, Key, key};
use super::pod_news::PodName;

/// What is remembered of a pod in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMemo {
    /// `metadata.uid`: a pod of the same name with another one is another pod.
    pub uid: Box<str>,
    /// `spec.nodeName`, or the node it is assumed on.
    pub node: Box<str>,
    fingerprint: Fingerprint,
    /// Whether a scheduler assumes it there, and the server has not said so yet.
    pub assumed: bool,
}

pub(super) type PodMemos = HashMap<Key, PodMemo>;

/// What a told pod meant for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodChange {
    /// It is in the cluster as it was.
    Unchanged,
    /// It came into the cluster, or changed there.
    Set,
    /// An assumption came true.
    Confirmed,
    /// It (or another pod of its name) left the cluster.
    Removed,
    /// It is not in the cluster, and was not.
    Absent,
}

impl Feed {
    /// Number of pods in the cluster, assumed ones included.
    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// What is remembered of a pod, if it is in the cluster.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&PodMemo> {
        self.pods.get(&key(namespace, name))
    }

    /// The fingerprint of what placement sees of a pod, but for where it is.
    pub fn fingerprint(&self, pod: &Pod) -> Fingerprint {
        self.fingerprints.of_pod(pod)
    }

    /// A pod as the server tells it. One that is not assigned, while it is assumed to be, stays assumed: the
    /// binding is on its way. If it has changed it counts there as it is now.
    pub fn set_pod(&mut self, cluster: &mut Cluster, pod: &Pod) -> PodChange {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let key = key(namespace, name);
        let known = self.pods.get_mut(&key);
        let is_assigned = !pod.spec.node_name.is_empty() && !pod.is_terminal();
        if !is_assigned {
            let is_on_its_way = |k: &PodMemo| k.assumed && *k.uid == *pod.metadata.uid && !pod.is_terminal();
            return match known {
                None => PodChange::Absent,
                Some(known) if is_on_its_way(known) => {
                    let fingerprint = self.fingerprints.of_pod(pod);
                    if known.fingerprint == fingerprint {
                        return PodChange::Unchanged;
                    }
                    known.fingerprint = fingerprint;
                    let mut pod = pod.clone();
                    pod.spec.node_name = known.node.to_string();
                    cluster.set_pod(&pod);
                    PodChange::Set
                }
                Some(_) => {
                    self.pods.remove(&key);
                    cluster.remove_pod(namespace, name);
                    PodChange::Removed
                }
            };
        }
        let fingerprint = self.fingerprints.of_pod(pod);
        let mut change = PodChange::Set;
        if let Some(known) = known
            && *known.uid == *pod.metadata.uid
            && *known.node == *pod.spec.node_name
        {
            change =
                if std::mem::take(&mut known.assumed) { PodChange::Confirmed } else { PodChange::Unchanged };
            if known.fingerprint == fingerprint {
                return change;
            }
            if change == PodChange::Unchanged {
                change = PodChange::Set;
            }
        }
        cluster.set_pod(pod);
        let memo = PodMemo {
            uid: pod.metadata.uid.as_str().into(),
            node: pod.spec.node_name.as_str().into(),
            fingerprint,
            assumed: false,
        };
        self.pods.insert(key, memo);
        change
    }

    /// A pod that has a node, and is otherwise as it is in the cluster: an assumption comes true, or it is known already.
    /// None if the cluster does not have it there.
    pub fn confirm(&mut self, told: &PodName) -> Option<PodChange> {
        let known = self.pods.get_mut(&key(&told.namespace, &told.name))?;
        let is_there = *known.uid == *told.uid && *known.node == *told.node;
        let was_assumed = is_there && std::mem::take(&mut known.assumed);
        is_there.then_some(if was_assumed { PodChange::Confirmed } else { PodChange::Unchanged })
    }

    /// A pod that is gone. Another pod that has its name by now stays.
    pub fn remove_pod(&mut self, cluster: &mut Cluster, namespace: &str, name: &str, uid: &str) -> PodChange {
        let key = key(namespace, name);
        match self.pods.get(&key) {
            Some(known) if *known.uid == *uid => {
                self.pods.remove(&key);
                cluster.remove_pod(namespace, name);
                PodChange::Removed
            }
            Some(_) => PodChange::Unchanged,
            None => PodChange::Absent,
        }
    }

    /// Pods in the cluster that a list of all pods does not have, by namespace, name and uid.
    pub fn pods_not_in(&self, listed: &[Pod]) -> Vec<(String, String, String)> {
        let uids: HashSet<&str> = listed.iter().map(|p| p.metadata.uid.as_str()).collect();
        let gone = self.pods.iter().filter(|(_, memo)| !uids.contains(&*memo.uid));
        gone.map(|(key, memo)| {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            (namespace.to_owned(), name.to_owned(), memo.uid.to_string())
        })
        .collect()
    }

    /// Puts a pod on a node before the server knows. `fingerprint` is that of the pod as last told.
    pub fn assume(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        prepared: &PreparedPod,
        fingerprint: Fingerprint,
        node: &str,
    ) {
        cluster.assume(prepared, node);
        let memo =
            PodMemo { uid: pod.metadata.uid.as_str().into(), node: node.into(), fingerprint, assumed: true };
        self.pods.insert(key(&pod.metadata.namespace, &pod.metadata.name), memo);
    }

    /// Takes an assumption back. Tells whether there was one: the server may have confirmed it meanwhile, and then
    /// the pod stays.
    pub fn forget(&mut self, cluster: &mut Cluster, pod: &Pod) -> bool {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let key = key(namespace, name);
        let is_assumed =
            self.pods.get(&key).is_some_and(|known| known.assumed && *known.uid == *pod.metadata.uid);
        if is_assumed {
            self.pods.remove(&key);
            cluster.remove_pod(namespace, name);
        }
        is_assumed
    }

    /// How a fresh list of pods differs from what is in the cluster, assumed pods left out. See
    /// [`Feed::compare_nodes`].
    pub fn compare_pods(&self, cluster: &Cluster, listed: &[Pod]) -> Differences {
        let digest = |uid: &str, node: &str, fingerprint: Fingerprint, there: &str| {
            self.fingerprints.of(&(uid, node, fingerprint.bits(), there)).bits()
        };
        let mut unseen: HashSet<&Key> =
            self.pods.iter().filter(|(_, memo)| !memo.assumed).map(|(key, _)| key).collect();
        let known = |key: &str| {
            let memo = self.pods.get(key)?;
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            // What the engine itself has counts as well, not only what was put into it.
            let there = cluster.node_of(namespace, name).unwrap_or_default();
            Some(digest(&memo.uid, &memo.node, memo.fingerprint, there))
        };
        let mut differences = Differences::new();
        for pod in listed {
            let key = key(&pod.metadata.namespace, &pod.metadata.name);
            unseen.remove(&key);
            if self.pods.get(&key).is_some_and(|memo| memo.assumed) {
                continue;
            }
            let node = &pod.spec.node_name;
            let is_assigned = !node.is_empty() && !pod.is_terminal();
            let listed =
                is_assigned.then(|| digest(&pod.metadata.uid, node, self.fingerprints.of_pod(pod), node));
            let known = known(&key);
            if known != listed {
                differences.insert(Difference::new(&key, known, listed));
            }
        }
        differences.extend(unseen.into_iter().map(|key| Difference::new(key, known(key), None)));
        differences
    }

    /// Mends the cluster where two lists agreed that it is wrong: `differences` are those both showed. Returns how
    /// many pods were mended.
    pub fn mend_pods(&mut self, cluster: &mut Cluster, listed: &[Pod], differences: &Differences) -> usize {
        let wrong: HashSet<&str> = differences.iter().map(|d| d.key.as_str()).collect();
        for key in &wrong {
            let (namespace, name) = key.split_once('/').unwrap_or(("", key));
            self.pods.remove(*key);
            cluster.remove_pod(namespace, name);
        }
        let concerned =
            listed.iter().filter(|p| wrong.contains(&*key(&p.metadata.namespace, &p.metadata.name)));
        concerned.for_each(|pod| _ = self.set_pod(cluster, pod));
        wrong.len()
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::Settings;
    use serde_json::{Value, json};

    use super::*;
    use berth_client::watch::Event;

    fn pod(name: &str, labels: Value) -> Pod {
        let metadata = json!({"name": name, "namespace": "n", "uid": name, "labels": labels});
        let term = json!({"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "host"});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let spec = json!({"containers": [{"name": "c"}], "affinity": affinity});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn name(pod: &Pod, node: &str) -> PodName {
        PodName { node: node.into(), ..PodName::of(pod) }
    }

    #[test]
    fn a_pod_that_changes_while_it_is_being_bound_counts_as_it_is_now() {
        let (mut feed, mut cluster) = (Feed::new(), Cluster::new(Settings::default()));
        let node = json!({"metadata": {"name": "a", "labels": {"host": "a"}},
            "status": {"allocatable": {"pods": "10"}}});
        feed.nodes(&mut cluster, Event::Applied(serde_json::from_value(node).unwrap()));
        let assumed = pod("p", json!({"app": "old"}));
        let prepared = cluster.prepare(&assumed);
        let fingerprint = feed.fingerprint(&assumed);
        feed.assume(&mut cluster, &assumed, &prepared, fingerprint, "a");
        let other = cluster.prepare(&pod("other", json!({})));
        assert!(cluster.fits_on(&other, "a"));
        assert_eq!(feed.set_pod(&mut cluster, &assumed), PodChange::Unchanged);

        let changed = pod("p", json!({"app": "new"}));
        assert_eq!(feed.set_pod(&mut cluster, &changed), PodChange::Set);
        assert!(feed.pod("n", "p").unwrap().assumed, "the server has not said that it is bound");
        let other = cluster.prepare(&pod("other", json!({})));
        assert!(!cluster.fits_on(&other, "a"));
        assert_eq!(feed.confirm(&name(&changed, "b")), None, "it was told to be elsewhere");
        assert_eq!(feed.confirm(&name(&changed, "a")), Some(PodChange::Confirmed));
        assert_eq!(feed.confirm(&name(&changed, "a")), Some(PodChange::Unchanged));
        assert_eq!(feed.n_pods(), 1);
    }
}
