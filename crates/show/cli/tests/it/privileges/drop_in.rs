//! `berth scheduler` in the place of kube-scheduler, and components that may not read everything.

use berth_client::component::ComponentError;
use berth_enforcer::EnforcerOptions;
use berth_scheduler::SchedulerOptions;
use berth_testkit::documents::blocks::blocks;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::world::{NAMESPACE, Right, World, right};
use super::{break_rule, enforced_world, running_pod, volumes, wait_for};
use crate::client::{eventually, text};
use crate::process::{Berth, DEADLINE};

const UPSTREAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/privileges/kube-scheduler-1.37.yaml");
const POD_GROUPS: [(&str, &str); 2] = [("scheduling.k8s.io", "v1beta1"), ("scheduling.x-k8s.io", "v1alpha1")];

/// The rule as messages name it.
fn rule(group: &str, resource: &str) -> String {
    format!("{{apiGroups: [{group:?}], resources: [{resource:?}], verbs: [\"list\", \"watch\"]}}")
}

impl World {
    async fn is_bound(&self, pod: &str) -> Result<(), String> {
        let pod = self.get(&format!("/api/v1/namespaces/default/pods/{pod}")).await;
        if text(&pod, "/spec/nodeName").is_empty() { Err(pod["status"].to_string()) } else { Ok(()) }
    }

    /// Waits until the condition of a pending pod says this.
    async fn says(&self, pod: &str, what: &str) {
        eventually(&format!("{pod} is not scheduled: {what}"), async || {
            let pod = self.get(&format!("/api/v1/namespaces/default/pods/{pod}")).await;
            let conditions = pod["status"]["conditions"].to_string();
            let quoted = json!(what).to_string();
            if conditions.contains(quoted.trim_matches('"')) { Ok(()) } else { Err(conditions) }
        })
        .await;
    }

    /// A pod in a PodGroup of each API group, each with one required member.
    async fn grouped_pods(&self) {
        self.define_pod_groups().await;
        for (group, version) in POD_GROUPS {
            let spec = match group {
                "scheduling.k8s.io" => json!({"schedulingPolicy": {"gang": {"minCount": 1}}}),
                _ => json!({"minMember": 1}),
            };
            let object = json!({"apiVersion": format!("{group}/{version}"), "kind": "PodGroup",
                "metadata": {"name": "g"}, "spec": spec});
            self.create(&format!("/apis/{group}/{version}/namespaces/default/podgroups"), object).await;
        }
        self.pod("gang", "berth", json!({"schedulingGroup": {"podGroupName": "g"}}), "100m").await;
        let labels = json!({"scheduling.x-k8s.io/pod-group": "g"});
        self.labelled_pod("cogang", labels, "berth", json!({}), "100m").await;
    }
}

/// The arguments of the static pod of docs/install.md, with this kubeconfig and a free port.
fn documented_args(kubeconfig: &str) -> Vec<String> {
    let blocks = blocks();
    let pod = blocks
        .iter()
        .find(|block| block.file.ends_with("install.md") && block.text.contains("component: kube-scheduler"));
    let pod: Value = serde_saphyr::from_str(&pod.unwrap().text).unwrap();
    let args = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    let replaced = |arg: &str| match arg.split_once('=') {
        Some(("--kubeconfig", _)) => format!("--kubeconfig={kubeconfig}"),
        Some(("--secure-port", _)) => "--secure-port=0".to_owned(),
        _ => arg.to_owned(),
    };
    args.iter().map(|arg| replaced(arg.as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_replacement_of_kube_scheduler_works_with_the_permissions_of_kube_scheduler() {
    let world = World::with(&[UPSTREAM]).await;
    world.priority_class("high", 1000).await;
    world.node("a", "1", json!({})).await;
    let directory = TempDir::new("drop-in");
    let kubeconfig = directory.file("scheduler.conf");
    std::fs::write(&kubeconfig, world.kubeconfig_as("system:kube-scheduler").to_string()).unwrap();
    let before = world.requests().await;
    let running = Berth::start(&directory, "scheduler", &documented_args(kubeconfig.to_str().unwrap()));

    world.pod("low", "default-scheduler", json!({}), "600m").await;
    eventually("low is bound", async || world.is_bound("low").await).await;
    world.pod("high", "berth", json!({"priorityClassName": "high"}), "600m").await;
    eventually("high is bound in the place of low", async || world.is_bound("high").await).await;
    assert!(world.is_gone("low").await.is_ok());
    volumes(&world).await;
    eventually("a volume is reserved, and the node of another selected", async || {
        let volume = world.get("/api/v1/persistentvolumes/v").await;
        let claim = world.get("/api/v1/namespaces/default/persistentvolumeclaims/dynamic").await;
        let node = &claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
        let is_so = text(&volume, "/spec/claimRef/name") == "static" && node == "a";
        if is_so { Ok(()) } else { Err(format!("{volume} {claim}")) }
    })
    .await;
    let lease = world.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler").await;
    assert!(!text(&lease, "/spec/holderIdentity").is_empty(), "{lease}");
    eventually("there are events", async || {
        let events = world.get("/apis/events.k8s.io/v1/namespaces/default/events").await;
        let is_so = events.to_string().contains("Successfully assigned default/high");
        if is_so { Ok(()) } else { Err(events.to_string()) }
    })
    .await;
    let address = eventually("metrics are served", async || {
        let stderr = running.stderr();
        let found = stderr.split("https://").nth(1).and_then(|rest| rest.split_whitespace().next());
        found.and_then(|address| address.trim_end_matches(['/', ',']).parse().ok()).ok_or(stderr)
    })
    .await;
    world.account("probe").await;
    super::scrape(&world, "probe", Some(address)).await;

    // Only pods of pod groups need more.
    world.grouped_pods().await;
    for (pod, (group, _)) in ["gang", "cogang"].into_iter().zip(POD_GROUPS) {
        world.says(pod, &rule(group, "podgroups")).await;
    }
    let refused = world.requests().await.since(&before).refused();
    // A resource that is not defined yet is counted without its name.
    assert!(
        refused.iter().all(|right| matches!(&*right.resource, "podgroups" | "workloads" | "")),
        "{refused:?}"
    );
    let stderr = running.stderr();
    for (group, _) in POD_GROUPS {
        let warnings: Vec<_> =
            stderr.lines().filter(|l| l.contains("WARN") && l.contains(&rule(group, "podgroups"))).collect();
        assert_eq!(warnings.len(), 1, "{stderr}");
    }
    world.grant_pod_groups("system:kube-scheduler").await;
    for pod in ["gang", "cogang"] {
        eventually(&format!("{pod} is bound"), async || world.is_bound(pod).await).await;
    }
}

/// What is not required, and unnecessary for ordinary pods.
fn is_optional(right: &Right) -> bool {
    let required = ["nodes", "pods", "namespaces"];
    matches!(right.verb.as_str(), "list" | "watch") && !required.contains(&right.resource.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_need_what_may_not_be_read_wait_with_the_rule_to_add_and_are_decided_when_it_is_added() {
    let world = World::with(&["scheduler.yaml"]).await;
    world.priority_class("high", 1000).await;
    let rules = world.restrict("berth-scheduler", |right| !is_optional(right)).await;
    world.node("a", "2", json!({})).await;
    let stop = CancellationToken::new();
    let config = world.config_of("berth-scheduler").await;
    let handle = berth_scheduler::start(config, SchedulerOptions::default(), stop.clone()).await.unwrap();
    world.pod("ordinary", "berth", json!({}), "800m").await;
    wait_for(&handle, "an ordinary pod is bound", |s| s.n_bound == 1).await;

    world.grouped_pods().await;
    volumes(&world).await;
    let requests = json!([{"name": "c", "image": "i", "resources": {"requests": {"example.com/gpu": "1"},
        "limits": {"example.com/gpu": "1"}}}]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gpu"},
        "spec": {"schedulerName": "berth", "containers": requests}});
    world.create("/api/v1/namespaces/default/pods", pod).await;
    world.pod("high", "berth", json!({"priorityClassName": "high"}), "1500m").await;
    for (pod, group, resource) in [
        ("gang", "scheduling.k8s.io", "podgroups"),
        ("cogang", "scheduling.x-k8s.io", "podgroups"),
        ("stored", "", "persistentvolumes"),
        ("gpu", "resource.k8s.io", "deviceclasses"),
        ("high", "policy", "poddisruptionbudgets"),
    ] {
        world.says(pod, &rule(group, resource)).await;
    }
    assert!(world.is_gone("ordinary").await.is_err(), "preempted although budgets cannot be read");
    assert_eq!(handle.status().borrow().n_bound, 1);

    world.set_rules("berth-scheduler", &rules).await;
    for pod in ["gang", "cogang", "high"] {
        eventually(&format!("{pod} is bound"), async || world.is_bound(pod).await).await;
    }
    world.says("gpu", "Insufficient example.com/gpu").await;
    eventually("the volumes of stored are being bound", async || {
        let volume = world.get("/api/v1/persistentvolumes/v").await;
        if text(&volume, "/spec/claimRef/name") == "static" { Ok(()) } else { Err(volume.to_string()) }
    })
    .await;

    // What is taken away again is known as it was.
    world.restrict("berth-scheduler", |right| !is_optional(right)).await;
    world.pod("later", "berth", json!({}), "100m").await;
    eventually("later is bound", async || world.is_bound("later").await).await;
    stop.cancel();
    handle.stopped().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_what_every_decision_needs_the_start_ends_with_the_rule_to_add() {
    let world = World::with(&["scheduler.yaml", "enforcer.yaml"]).await;
    let is_kept = |right: &Right| right.resource != "nodes";
    world.restrict("berth-scheduler", is_kept).await;
    world.restrict("berth-enforcer", is_kept).await;
    let stop = CancellationToken::new;
    let [scheduler, enforcer] = ["berth-scheduler", "berth-enforcer"].map(|account| world.config_of(account));
    let scheduler =
        berth_scheduler::start(scheduler.await, SchedulerOptions::default(), stop()).await.unwrap();
    let options = EnforcerOptions { ledger_namespace: NAMESPACE.to_owned(), ..EnforcerOptions::default() };
    let enforcer = berth_enforcer::start(enforcer.await, options, stop()).await.unwrap();
    let ended: [Result<(), ComponentError>; 2] =
        tokio::time::timeout(DEADLINE, futures::future::join(scheduler.stopped(), enforcer.stopped()))
            .await
            .expect("both end")
            .into();
    for ended in ended {
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(&rule("", "nodes")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_enforcer_does_not_evict_pods_whose_volumes_it_may_not_read() {
    let world = enforced_world().await;
    running_pod(&world, "stored", "c", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]))
        .await;
    let rules = world.restrict("berth-enforcer", |right| right.resource != "persistentvolumeclaims").await;
    let stop = CancellationToken::new();
    let handle = super::start_enforcer(&world, &stop).await;
    break_rule(&world, "c").await;
    break_rule(&world, "a").await;
    eventually("first is evicted", async || world.is_gone("first").await).await;
    eventually("an event says why stored is not evicted", async || {
        let events = world.get("/apis/events.k8s.io/v1/namespaces/default/events").await.to_string();
        let quoted = json!(rule("", "persistentvolumeclaims")).to_string();
        if events.contains(quoted.trim_matches('"')) { Ok(()) } else { Err(events) }
    })
    .await;
    assert!(world.is_gone("stored").await.is_err());
    world.set_rules("berth-enforcer", &rules).await;
    stop.cancel();
    handle.stopped().await.unwrap();
}

/// The permissions of an identity as docs/permissions.md lists them.
fn documented(part: &str) -> Vec<Right> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/permissions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once(&format!("\n## {part}\n")).expect("the identity has a section");
    let section = section.split("\n## ").next().unwrap();
    let mut rights = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let words = |cell: &str| cell.split(", ").map(|w| w.trim_matches('`').to_owned()).collect::<Vec<_>>();
        for group in words(cells[1]).iter().map(|g| if g == "core" { "" } else { g }) {
            for resource in words(cells[2]) {
                rights.extend(words(cells[3]).iter().map(|verb| right(group, &resource, verb)));
            }
        }
    }
    rights.sort();
    rights
}

#[tokio::test]
async fn the_documentation_lists_the_permissions_of_each_identity() {
    let components = ["binding-guard/webhook", "console/console", "placement-policies/webhook"];
    let components = components.map(|file| format!("../components/{file}.yaml"));
    let files = ["scheduler.yaml", "enforcer.yaml", "webhook.yaml"].into_iter();
    let files: Vec<&str> = files.chain(components.iter().map(String::as_str)).collect();
    let world = World::with(&files).await;
    for part in ["scheduler", "enforcer", "webhook", "console"] {
        assert_eq!(documented(part), world.granted(&format!("berth-{part}")).await, "{part}");
    }
    // Of the scheduler, kube-scheduler lacks only what pod groups need, also those of Jobs.
    let upstream = World::rights_in(UPSTREAM);
    let lacking = documented("scheduler").into_iter().filter(|right| !upstream.contains(right));
    let is_for_groups = |right: &Right| {
        right.resource.starts_with("podgroups") || ["jobs", "workloads"].contains(&&*right.resource)
    };
    let lacking: Vec<_> = lacking.filter(|right| !is_for_groups(right)).collect();
    assert_eq!(lacking, []);
}

impl World {
    /// The permissions in the roles of a file.
    fn rights_in(file: &str) -> Vec<Right> {
        let objects = super::world::objects(file);
        objects.iter().filter(|o| o["rules"].is_array()).flat_map(super::world::rights_of_role).collect()
    }

    async fn account(&self, name: &str) {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        self.create(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), account).await;
    }

    /// Grants a user the permission to read PodGroups.
    async fn grant_pod_groups(&self, user: &str) {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "pod-groups"}, "rules": [{"apiGroups": POD_GROUPS.map(|(group, _)| group),
                "resources": ["podgroups"], "verbs": ["list", "watch"]}]});
        self.create(&format!("{rbac}/clusterroles"), role).await;
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "pod-groups"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "pod-groups"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        self.create(&format!("{rbac}/clusterrolebindings"), binding).await;
    }
}
