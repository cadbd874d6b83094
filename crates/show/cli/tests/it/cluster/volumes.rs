//! Claims of every kind, from the pod that uses them to the bound volume. The independent check follows each step.

use http::Method;
use serde_json::{Value, json};

use super::check::{assert_every_rule_kept, assert_volumes_right};
use super::running::{Cluster, PODS};
use crate::client::{create, eventually, get, list, send, text};

pub const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
pub const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
/// The driver of the simulated provisioner.
const DRIVER: &str = "csi.berth.dev";

/// A cluster with claims.
pub struct Storage {
    pub cluster: Cluster,
}

impl Storage {
    /// Six nodes in three zones, and five classes: `zonal` and `now` are provisioned, the latter at once; the provisioner
    /// of `external` does not run; volumes of `local` and `bound` exist, and the latter binds claims at once.
    pub async fn start(name: &str, scheduler_args: &[&[&str]]) -> Storage {
        let cluster = Cluster::start(name, 6, scheduler_args).await;
        let local = "kubernetes.io/no-provisioner";
        for (name, provisioner, mode) in [
            ("zonal", DRIVER, "WaitForFirstConsumer"),
            ("now", DRIVER, "Immediate"),
            ("external", "kubernetes.io/external", "WaitForFirstConsumer"),
            ("local", local, "WaitForFirstConsumer"),
            ("bound", local, "Immediate"),
        ] {
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
                "provisioner": provisioner, "volumeBindingMode": mode, "reclaimPolicy": "Delete"});
            create(&cluster.client, CLASSES, class).await;
        }
        Storage { cluster }
    }

    pub async fn get(&self, path: &str) -> Value {
        get(&self.cluster.client, path).await.unwrap()
    }

    pub async fn delete(&self, path: &str) {
        send(&self.cluster.client, Method::DELETE, path, None).await.unwrap();
    }

    /// Creates a claim of a class for 1 GiB, with more fields.
    pub async fn claim(&self, name: &str, class: &str, more: Value) {
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}});
        merge(&mut claim, &more);
        create(&self.cluster.client, CLAIMS, claim).await;
    }

    /// Creates a volume of a class and a size, with more fields; with a node, only that node can use it.
    pub async fn volume(&self, name: &str, class: &str, size: &str, node: Option<&str>, more: Value) {
        let mut volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp"}}});
        if let Some(node) = node {
            let on_node = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
            volume["spec"]["nodeAffinity"] =
                json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}});
        }
        merge(&mut volume, &more);
        create(&self.cluster.client, VOLUMES, volume).await;
        // Volumes without a phase are not considered: a pod would get one of those that have theirs already.
        eventually(&format!("volume {name} has a phase"), async || {
            let volume =
                get(&self.cluster.client, &format!("{VOLUMES}/{name}")).await.map_err(|e| e.to_string())?;
            if ["", "Pending"].contains(&text(&volume, "/status/phase")) {
                return Err(volume["status"].to_string());
            }
            Ok(())
        })
        .await;
    }

    /// Creates a pod with this volume.
    pub async fn pod(&self, name: &str, volume: Value) {
        create(&self.cluster.client, PODS, pod(name, volume)).await;
    }

    /// Creates a claim and a pod of the same name that uses it.
    pub async fn pod_and_claim(&self, name: &str, class: &str, more: Value) {
        self.claim(name, class, more).await;
        self.pod(name, uses(name)).await;
    }

    /// Waits until a pod runs, and returns its node.
    pub async fn runs(&self, name: &str) -> String {
        eventually(&format!("{name} runs"), async || {
            let pod =
                get(&self.cluster.client, &format!("{PODS}/{name}")).await.map_err(|e| e.to_string())?;
            match text(&pod, "/status/phase") {
                "Running" => Ok(text(&pod, "/spec/nodeName").to_owned()),
                _ => Err(pod["status"].to_string()),
            }
        })
        .await
    }

    /// Waits until a pod waits for a reason that contains this text.
    pub async fn waits(&self, name: &str, reason: &str) {
        eventually(&format!("{name} waits: {reason}"), async || {
            let pod =
                get(&self.cluster.client, &format!("{PODS}/{name}")).await.map_err(|e| e.to_string())?;
            let message = scheduled(&pod).map_or("", |c| text(c, "/message"));
            if message.contains(reason) { Ok(()) } else { Err(pod["status"].to_string()) }
        })
        .await;
        assert_eq!(text(&self.get(&format!("{PODS}/{name}")).await, "/spec/nodeName"), "", "{name}");
    }

    /// Waits until a claim has this phase, and returns it.
    pub async fn claim_is(&self, name: &str, phase: &str) -> Value {
        eventually(&format!("claim {name} is {phase}"), async || {
            let claim =
                get(&self.cluster.client, &format!("{CLAIMS}/{name}")).await.map_err(|e| e.to_string())?;
            if text(&claim, "/status/phase") == phase { Ok(claim) } else { Err(claim.to_string()) }
        })
        .await
    }

    /// Waits until an object is deleted.
    pub async fn gone(&self, path: &str) {
        eventually(&format!("{path} is deleted"), async || match get(&self.cluster.client, path).await {
            Err(_) => Ok(()),
            Ok(object) => Err(object.to_string()),
        })
        .await;
    }

    /// The volume of a claim.
    pub async fn volume_of(&self, claim: &str) -> String {
        text(&self.claim_is(claim, "Bound").await, "/spec/volumeName").to_owned()
    }

    /// Changes an object by a merge patch.
    pub async fn patch(&self, path: &str, patch: &Value) {
        let content_type = "application/merge-patch+json";
        let request =
            berth_client::call::with_body(Method::PATCH, path, content_type, patch.to_string().into_bytes());
        let timeout = std::time::Duration::from_secs(10);
        berth_client::call::json::<Value>(&self.cluster.client, request, timeout).await.unwrap();
    }

    pub async fn check(&self) {
        assert_volumes_right(&self.cluster.client).await;
    }
}

/// The condition that says why a pod is not scheduled.
fn scheduled(pod: &Value) -> Option<&Value> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False")
}

/// A volume of a pod that uses a claim.
pub fn uses(claim: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
}

pub fn pod(name: &str, volume: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"schedulerName": "berth", "terminationGracePeriodSeconds": 0, "volumes": [volume],
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}})
}

/// A JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| merge(&mut object[key.as_str()], value))
        }
        value => *object = value.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_are_bound_and_their_pods_run_where_the_volumes_are() {
    let none = json!({});
    let storage = Storage::start("claims", &[&[]]).await;
    // A provisioned volume for the node that was chosen, and one that exists before a node is chosen.
    storage.pod_and_claim("first-consumer", "zonal", none.clone()).await;
    storage.pod_and_claim("immediate", "now", none.clone()).await;
    // Existing volumes: the smallest that is large enough on the chosen node.
    storage.volume("small", "local", "500Mi", Some("node-2"), none.clone()).await;
    storage.volume("fitting", "local", "1Gi", Some("node-2"), none.clone()).await;
    storage.volume("large", "local", "5Gi", Some("node-2"), none.clone()).await;
    storage.pod_and_claim("existing", "local", none.clone()).await;
    // A volume that is reserved for its claim, and a claim that names its volume.
    let reserved = json!({"spec": {"claimRef": {"namespace": "default", "name": "reserved"}}});
    storage.volume("reserved-volume", "bound", "3Gi", Some("node-3"), reserved).await;
    storage.pod_and_claim("reserved", "bound", none.clone()).await;
    storage.volume("named-volume", "bound", "3Gi", Some("node-4"), none.clone()).await;
    storage.pod_and_claim("named", "bound", json!({"spec": {"volumeName": "named-volume"}})).await;
    // A claim of a pod's own.
    let spec = json!({"storageClassName": "zonal", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}});
    let ephemeral = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    storage.pod("ephemeral", ephemeral).await;

    for pod in ["first-consumer", "immediate", "ephemeral"] {
        storage.runs(pod).await;
    }
    for (pod, node, volume) in [
        ("existing", "node-2", "fitting"),
        ("reserved", "node-3", "reserved-volume"),
        ("named", "node-4", "named-volume"),
    ] {
        assert_eq!(storage.runs(pod).await, node, "{pod}");
        assert_eq!(storage.volume_of(pod).await, volume, "{pod}");
    }
    storage.check().await;
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, 6);

    // The ephemeral claim goes with its pod, and its volume with the claim.
    let volume = storage.volume_of("ephemeral-scratch").await;
    storage.delete(&format!("{PODS}/ephemeral")).await;
    storage.gone(&format!("{CLAIMS}/ephemeral-scratch")).await;
    storage.gone(&format!("{VOLUMES}/{volume}")).await;
    // A pod that comes back finds its volume.
    let (node, volume) = (storage.runs("first-consumer").await, storage.volume_of("first-consumer").await);
    storage.delete(&format!("{PODS}/first-consumer")).await;
    storage.gone(&format!("{PODS}/first-consumer")).await;
    storage.pod("first-consumer", uses("first-consumer")).await;
    let zone = |node: Value| text(&node, "/metadata/labels/topology.kubernetes.io~1zone").to_owned();
    let back = storage.runs("first-consumer").await;
    assert_eq!(
        zone(storage.get(&format!("/api/v1/nodes/{back}")).await),
        zone(storage.get(&format!("/api/v1/nodes/{node}")).await)
    );
    assert_eq!(storage.volume_of("first-consumer").await, volume);
    storage.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_attach_as_many_volumes_as_their_drivers_can() {
    let mut storage = Storage::start("attach-limits", &[&[]]).await;
    let limit = format!("{DRIVER}=2");
    let args =
        ["--zones", "1", "--node-prefix", "tight-", "--node-label", "tight=yes", "--node-csi-driver", &limit];
    storage.cluster.add_nodes(1, &args).await;
    for i in 0..3 {
        let name = format!("p{i}");
        storage.claim(&name, "zonal", json!({})).await;
        let mut pod = pod(&name, uses(&name));
        pod["spec"]["nodeSelector"] = json!({"tight": "yes"});
        create(&storage.cluster.client, PODS, pod).await;
        if i < 2 {
            assert_eq!(storage.runs(&name).await, "tight-1");
        }
    }
    storage.waits("p2", "1 node(s) exceed max volume count").await;
    storage.check().await;
    storage.delete(&format!("{PODS}/p0")).await;
    assert_eq!(storage.runs("p2").await, "tight-1");
    storage.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_wait_for_a_reason_until_their_claims_can_be_used() {
    let none = json!({});
    let storage = Storage::start("waiting-claims", &[&[]]).await;
    // Without a claim, without a volume, with a volume that no node has.
    storage.pod("missing", uses("missing")).await;
    storage.waits("missing", "persistentvolumeclaim \"missing\" not found").await;
    storage.pod_and_claim("unbound", "bound", none.clone()).await;
    storage.waits("unbound", "pod has unbound immediate PersistentVolumeClaims").await;
    storage.pod_and_claim("nowhere", "local", none.clone()).await;
    storage.waits("nowhere", "node(s) didn't find available persistent volumes to bind").await;
    // One pod at a time.
    let one_pod = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    storage.claim("exclusive", "zonal", one_pod).await;
    storage.pod("owner", uses("exclusive")).await;
    storage.runs("owner").await;
    storage.pod("heir", uses("exclusive")).await;
    storage
        .waits(
            "heir",
            "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use",
        )
        .await;
    // A claim that is being deleted, since a pod uses it.
    storage.pod_and_claim("deleted", "zonal", none.clone()).await;
    storage.runs("deleted").await;
    storage.delete(&format!("{CLAIMS}/deleted")).await;
    storage.pod("late", uses("deleted")).await;
    storage.waits("late", "persistentvolumeclaim \"deleted\" is being deleted").await;
    // A claim that has lost its volume.
    let reserved = json!({"spec": {"claimRef": {"namespace": "default", "name": "lost"}}});
    storage.volume("losing", "bound", "1Gi", None, reserved).await;
    storage.claim("lost", "bound", json!({"spec": {"volumeName": "losing"}})).await;
    storage.claim_is("lost", "Bound").await;
    storage.delete(&format!("{VOLUMES}/losing")).await;
    storage.patch(&format!("{VOLUMES}/losing"), &json!({"metadata": {"finalizers": null}})).await;
    storage.claim_is("lost", "Lost").await;
    storage.pod("lost", uses("lost")).await;
    storage
        .waits("lost", "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"losing\"")
        .await;
    storage.check().await;

    // What helps, one after the other.
    storage.claim("missing", "zonal", none.clone()).await;
    storage.runs("missing").await;
    storage.volume("for-unbound", "bound", "1Gi", Some("node-5"), none.clone()).await;
    assert_eq!(storage.runs("unbound").await, "node-5");
    storage.volume("for-nowhere", "local", "1Gi", Some("node-6"), none.clone()).await;
    assert_eq!(storage.runs("nowhere").await, "node-6");
    storage.delete(&format!("{PODS}/owner")).await;
    storage.runs("heir").await;
    storage.delete(&format!("{PODS}/late")).await;
    storage.delete(&format!("{PODS}/deleted")).await;
    storage.gone(&format!("{CLAIMS}/deleted")).await;
    storage.delete(&format!("{PODS}/lost")).await;
    storage.check().await;
    let pods = list(&storage.cluster.client, PODS).await.unwrap();
    assert_eq!(assert_every_rule_kept(&storage.cluster.client).await, pods.len());
}
