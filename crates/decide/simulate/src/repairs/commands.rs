//! Commands of kubectl that make the changes.

use berth_api::object::device::ResourceSlice;
use berth_api::object::{NamespacedName, Node, Pod, Taint};
use berth_api::syntax::shell::Command;
use berth_input::policy::PlacementPolicy;
use serde_json::Value;

use super::change::Change;

/// Where the request of a claim is written.
pub(super) enum ClaimSource<'a> {
    Claim(&'a NamespacedName),
    /// The template that the claim was made from.
    Template(NamespacedName),
}

/// `key=value:Effect`, or `key:Effect`.
pub(super) fn taint_text(Taint { key, value, effect }: &Taint) -> String {
    match value.as_str() {
        "" => format!("{key}:{effect}"),
        value => format!("{key}={value}:{effect}"),
    }
}

/// The commands for changes of nodes, workloads and running pods, in order.
pub(super) fn of_changes(changes: &[Change]) -> Vec<Command> {
    changes.iter().filter_map(command).collect()
}

fn command(change: &Change) -> Option<Command> {
    Some(match change {
        Change::Uncordon { node } => Command::new(["kubectl", "uncordon"]).operands([node]),
        Change::RemoveTaint { node, taint } => {
            Command::new(["kubectl", "taint", "node"]).operands([node, &format!("{taint}-")])
        }
        Change::SetLabel { node, key, value } => Command::new(["kubectl", "label", "node"])
            .operands([node, &format!("{key}={value}")])
            .words(["--overwrite"]),
        Change::RemoveLabel { node, key } => {
            Command::new(["kubectl", "label", "node"]).operands([node, &format!("{key}-")])
        }
        Change::Scale { namespace, workload, replicas } => {
            Command::new(["kubectl", "scale", "-n", namespace])
                .operands([slashed(workload)])
                .words([format!("--replicas={replicas}")])
        }
        _ => return None,
    })
}

/// Deletes a pod, which its controller creates again.
pub(super) fn delete_pod(pod: &Pod) -> Command {
    delete(&pod.metadata.namespace, &pod.metadata.name)
}

/// The same by namespace and name.
pub(super) fn delete(namespace: &str, name: &str) -> Command {
    Command::new(["kubectl", "delete", "pod", "-n", namespace]).operands([name])
}

/// Shows the moves that make room for a pod.
pub(super) fn plan_for(pod: &Pod) -> Command {
    let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
    Command::new(["berth", "rebalance", "--live"]).words(["--for", &name])
}

/// Changes the rules of a placement policy.
pub(super) fn patch_policy(policy: &PlacementPolicy, patch: &[Value]) -> Command {
    let patching = Command::new(["kubectl", "patch"]);
    let patching = match policy.is_cluster_scoped() {
        true => patching,
        false => patching.words(["-n", &policy.metadata.namespace]),
    };
    let (plural, name) = (policy.resource().plural, &policy.metadata.name);
    patching.words([plural]).operands([name]).words(["--type=json", "-p", &text(patch)])
}

/// `spec.strategy` of a Deployment whose rolling updates stop an old pod before they start a new one.
pub(super) fn old_pods_first() -> Value {
    serde_json::json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
}

/// Sets this strategy.
pub(super) fn stop_old_pods_first(namespace: &str, workload: &str) -> Command {
    let patch = serde_json::json!({"spec": {"strategy": old_pods_first()}}).to_string();
    Command::new(["kubectl", "patch", "-n", namespace]).operands([slashed(workload)]).words(["-p", &patch])
}

/// Creates a node, and the slices of its devices.
pub(super) fn create_node(node: &Node, slices: &[ResourceSlice]) -> Option<Command> {
    let mut object = serde_json::json!({"apiVersion": "v1", "kind": "Node"});
    object["metadata"] = serde_json::json!({"name": node.metadata.name, "labels": node.metadata.labels});
    if !node.spec.taints.is_empty() {
        object["spec"] = serde_json::json!({"taints": node.spec.taints});
    }
    let allocatable = serde_json::to_value(&node.status.allocatable).ok()?;
    object["status"] = serde_json::json!({"capacity": allocatable, "allocatable": allocatable});
    if !slices.is_empty() {
        let mut items = vec![object];
        for slice in slices {
            let (name, spec) = (&slice.metadata.name, &slice.spec);
            items.push(serde_json::json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec
            }));
        }
        object = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    }
    // Not `echo`, which reads backslashes in some shells.
    let text = Command::new(["printf", "%s", &object.to_string()]);
    Some(text.pipe(Command::new(["kubectl", "apply", "-f", "-"])))
}

/// Sets the class of a request of a claim. Specifications of claims and templates cannot be changed: the object is deleted and created
/// again; a pod whose claim was made from the old template, too.
pub(super) fn change_class(pod: &Pod, source: &ClaimSource<'_>, request: usize, class: &str) -> Vec<Command> {
    let (kind, name, spec) = match source {
        ClaimSource::Claim(name) => ("resourceclaim", name.name(), "/spec"),
        ClaimSource::Template(name) => ("resourceclaimtemplate", name.name(), "/spec/spec"),
    };
    let namespace = &pod.metadata.namespace;
    let path = format!("{spec}/devices/requests/{request}/exactly/deviceClassName");
    let patch = [serde_json::json!({"op": "replace", "path": path, "value": class})];
    let mut commands =
        vec![get(kind, namespace, name).pipe(patch_locally("json", &text(&patch))).pipe(replace())];
    if matches!(source, ClaimSource::Template(_)) {
        commands.push(match pod.metadata.controller() {
            Some(_) => delete_pod(pod),
            None => get("pod", namespace, &pod.metadata.name).pipe(replace()),
        });
    }
    commands
}

/// Changes fields of a pod that may be changed.
pub(super) fn patch_pod(pod: &Pod, patch: &[Value]) -> Command {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    let patching = Command::new(["kubectl", "patch", "-n", namespace, "pod"]).operands([name]);
    patching.words(["--type=json", "-p", &text(patch)])
}

/// Changes the template of the pod's workload, or creates a pod without workload again.
pub(super) fn patch_template(pod: &Pod, workload: Option<&str>, patch: &[Value]) -> Command {
    let Some(workload) = workload else {
        return recreated(pod, patch_locally("json", &text(patch)));
    };
    let prefix = template_path(workload);
    let mut patch = patch.to_vec();
    for operation in &mut patch {
        for member in ["path", "from"] {
            if let Some(path) = operation.get(member).and_then(Value::as_str) {
                operation[member] = format!("{prefix}{path}").into();
            }
        }
    }
    let namespace = &pod.metadata.namespace;
    let patch = text(&patch);
    match workload.strip_prefix("Job ") {
        Some(job) => replace_job(namespace, job, patch_locally("json", &patch)),
        None => Command::new(["kubectl", "patch", "-n", namespace]).operands([slashed(workload)]).words([
            "--type=json",
            "-p",
            &patch,
        ]),
    }
}

/// The template of a Job cannot be changed: the Job is deleted and created again, without what the API server adds to it.
fn replace_job(namespace: &str, job: &str, change: Command) -> Command {
    let labels = serde_json::json!({"controller-uid": null, "batch.kubernetes.io/controller-uid": null});
    let added = serde_json::json!({"spec": {"selector": null, "template": {"metadata": {"labels": labels}}}});
    Command::new(["kubectl", "get", "-n", namespace])
        .operands([format!("job/{job}")])
        .words(["-o", "json"])
        .pipe(patch_locally("merge", &added.to_string()))
        .pipe(change)
        .pipe(replace())
}

/// Sets requests of a container, each a resource and an amount. Limits of extended resources, which have to be equal, follow.
pub(super) fn set_requests(
    pod: &Pod,
    workload: Option<&str>,
    container: &str,
    requests: &[(String, String)],
) -> Command {
    let namespace = &pod.metadata.namespace;
    let limits = pod.spec.containers.iter().find(|of| of.name == container).map(|of| &of.resources.limits);
    let is_limited =
        |resource: &str| is_extended(resource) && limits.is_some_and(|of| of.contains_key(resource));
    let list = |of: &mut dyn Iterator<Item = &(String, String)>| {
        of.map(|(resource, amount)| format!("{resource}={amount}")).collect::<Vec<_>>().join(",")
    };
    let limited = list(&mut requests.iter().filter(|(resource, _)| is_limited(resource)));
    let requested = format!("--requests={}", list(&mut requests.iter()));
    let set = |target: Command| {
        let setting = target.words(["-c", container, &requested]);
        if limited.is_empty() { setting } else { setting.words([format!("--limits={limited}")]) }
    };
    let resources = || Command::new(["kubectl", "set", "resources"]);
    let local = || set(resources().words(["--local", "-f", "-"])).words(["-o", "json"]);
    match workload {
        Some(workload) => match workload.strip_prefix("Job ") {
            Some(job) => replace_job(namespace, job, local()),
            None => set(resources().words(["-n", namespace]).operands([slashed(workload)])),
        },
        None => recreated(pod, local()),
    }
}

/// A pod that is deleted and created again, with its object changed by a command in between.
fn recreated(pod: &Pod, change: Command) -> Command {
    get("pod", &pod.metadata.namespace, &pod.metadata.name).pipe(change).pipe(replace())
}

fn get(kind: &str, namespace: &str, name: &str) -> Command {
    Command::new(["kubectl", "get", kind, "-n", namespace]).operands([name]).words(["-o", "json"])
}

/// Changes an object between standard input and output.
fn patch_locally(kind: &str, patch: &str) -> Command {
    let patching = Command::new(["kubectl", "patch", "--local", "-f", "-"]);
    patching.words([format!("--type={kind}").as_str(), "-p", patch, "-o", "json"])
}

fn replace() -> Command {
    Command::new(["kubectl", "replace", "--force", "-f", "-"])
}

/// Whether limits of a resource have to be equal to requests.
pub(super) fn is_extended(resource: &str) -> bool {
    !["cpu", "memory", "ephemeral-storage"].contains(&resource)
}

pub(super) fn template_path(workload: &str) -> &'static str {
    if workload.starts_with("CronJob ") { "/spec/jobTemplate/spec/template" } else { "/spec/template" }
}

/// `Deployment web` as `deployment/web`.
fn slashed(workload: &str) -> String {
    match workload.split_once(' ') {
        Some((kind, name)) => format!("{}/{name}", kind.to_lowercase()),
        None => workload.to_owned(),
    }
}

fn text(patch: &[Value]) -> String {
    Value::from(patch).to_string()
}
