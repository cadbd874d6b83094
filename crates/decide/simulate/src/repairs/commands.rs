//! Commands of kubectl that make the changes.

use berth_api::object::device::ResourceSlice;
use berth_api::object::{NamespacedName, Node, Pod, Taint};
use berth_api::policy::PlacementPolicy;
use serde_json::Value;

use super::change::Change;

/// Where the request of a claim is written.
pub(super) enum ClaimSource<'a> {
    /// The claim itself.
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
pub(super) fn of_changes(changes: &[Change]) -> Vec<String> {
    changes.iter().filter_map(command).collect()
}

fn command(change: &Change) -> Option<String> {
    Some(match change {
        Change::Uncordon { node } => format!("kubectl uncordon {node}"),
        Change::RemoveTaint { node, taint } => format!("kubectl taint node {node} {}-", quoted(taint)),
        Change::SetLabel { node, key, value } => {
            format!("kubectl label node {node} {}", quoted(&format!("{key}={value}"))) + " --overwrite"
        }
        Change::RemoveLabel { node, key } => format!("kubectl label node {node} {}-", quoted(key)),
        Change::Scale { namespace, workload, replicas } => {
            format!("kubectl scale -n {namespace} {} --replicas={replicas}", slashed(workload))
        }
        _ => return None,
    })
}

/// Deletes a pod, which its controller creates again.
pub(super) fn delete_pod(pod: &Pod) -> String {
    delete(&pod.metadata.namespace, &pod.metadata.name)
}

/// The same by namespace and name.
pub(super) fn delete(namespace: &str, name: &str) -> String {
    format!("kubectl delete pod -n {namespace} {name}")
}

/// Shows the moves that make room for a pod.
pub(super) fn plan_for(pod: &Pod) -> String {
    format!("berth rebalance --live --for {}/{}", pod.metadata.namespace, pod.metadata.name)
}

/// The command after which a pending pod has the rules of a changed template, where the controller of its workload does not replace
/// it.
pub(super) fn recreate(pod: &Pod, workload: Option<&str>) -> Option<String> {
    let kind = workload?.split(' ').next()?;
    ["StatefulSet", "ReplicaSet", "ReplicationController"].contains(&kind).then(|| delete_pod(pod))
}

/// Changes the rules of a placement policy.
pub(super) fn patch_policy(policy: &PlacementPolicy, patch: &[Value]) -> String {
    let namespace = match policy.is_cluster_scoped() {
        true => String::new(),
        false => format!("-n {} ", policy.metadata.namespace),
    };
    let (plural, name) = (policy.resource().plural, &policy.metadata.name);
    format!("kubectl patch {namespace}{plural} {name} --type=json -p {}", quoted(&text(patch)))
}

/// `spec.strategy` of a Deployment whose rolling updates stop an old pod before they start a new one.
pub(super) fn old_pods_first() -> Value {
    serde_json::json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
}

/// Sets this strategy.
pub(super) fn stop_old_pods_first(namespace: &str, workload: &str) -> String {
    let patch = serde_json::json!({"spec": {"strategy": old_pods_first()}}).to_string();
    format!("kubectl patch -n {namespace} {} -p {}", slashed(workload), quoted(&patch))
}

/// Creates a node, and the slices of its devices.
pub(super) fn create_node(node: &Node, slices: &[ResourceSlice]) -> Option<String> {
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
    Some(format!("echo {} | kubectl apply -f -", quoted(&object.to_string())))
}

/// Sets the class of a request of a claim. Specifications of claims and templates cannot be changed: the object is deleted and created
/// again; a pod whose claim was made from the old template, too.
pub(super) fn change_class(pod: &Pod, source: &ClaimSource<'_>, request: usize, class: &str) -> Vec<String> {
    let (kind, name, spec) = match source {
        ClaimSource::Claim(name) => ("resourceclaim", name.name(), "/spec"),
        ClaimSource::Template(name) => ("resourceclaimtemplate", name.name(), "/spec/spec"),
    };
    let namespace = &pod.metadata.namespace;
    let path = format!("{spec}/devices/requests/{request}/exactly/deviceClassName");
    let patch = [serde_json::json!({"op": "replace", "path": path, "value": class})];
    let change = format!("kubectl patch --local -f - --type=json -p {} -o json", quoted(&text(&patch)));
    let mut commands = vec![format!(
        "kubectl get {kind} -n {namespace} {name} -o json | {change} | kubectl replace --force -f -"
    )];
    if matches!(source, ClaimSource::Template(_)) {
        commands.push(match pod.metadata.controller() {
            Some(_) => delete_pod(pod),
            None => {
                let name = &pod.metadata.name;
                format!("kubectl get pod -n {namespace} {name} -o json | kubectl replace --force -f -")
            }
        });
    }
    commands
}

/// Changes fields of a pod that may be changed.
pub(super) fn patch_pod(pod: &Pod, patch: &[Value]) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    format!("kubectl patch -n {namespace} pod {name} --type=json -p {}", quoted(&text(patch)))
}

/// Changes the template of the pod's workload, or creates a pod without workload again.
pub(super) fn patch_template(pod: &Pod, workload: Option<&str>, patch: &[Value]) -> String {
    let Some(workload) = workload else {
        let patch = quoted(&text(patch));
        return replace(pod, &format!("kubectl patch --local -f - --type=json -p {patch} -o json"));
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
    let patch = quoted(&text(&patch));
    match workload.strip_prefix("Job ") {
        Some(job) => {
            replace_job(namespace, job, &format!("kubectl patch --local -f - --type=json -p {patch} -o json"))
        }
        None => format!("kubectl patch -n {namespace} {} --type=json -p {patch}", slashed(workload)),
    }
}

/// The template of a Job cannot be changed: the Job is deleted and created again, without what the API server adds to it.
fn replace_job(namespace: &str, job: &str, change: &str) -> String {
    let labels = serde_json::json!({"controller-uid": null, "batch.kubernetes.io/controller-uid": null});
    let added = serde_json::json!({"spec": {"selector": null, "template": {"metadata": {"labels": labels}}}});
    let without =
        format!("kubectl patch --local -f - --type=merge -p {} -o json", quoted(&added.to_string()));
    format!(
        "kubectl get -n {namespace} job/{job} -o json | {without} | {change} | kubectl replace --force -f -"
    )
}

/// Sets requests of a container, each a resource and an amount. Limits of extended resources, which have to be equal, follow.
pub(super) fn set_requests(
    pod: &Pod,
    workload: Option<&str>,
    container: &str,
    requests: &[(String, String)],
) -> String {
    let namespace = &pod.metadata.namespace;
    let limits = pod.spec.containers.iter().find(|of| of.name == container).map(|of| &of.resources.limits);
    let is_limited =
        |resource: &str| is_extended(resource) && limits.is_some_and(|of| of.contains_key(resource));
    let list = |of: &mut dyn Iterator<Item = &(String, String)>| {
        let amounts: Vec<_> = of.map(|(resource, amount)| format!("{resource}={amount}")).collect();
        quoted(&amounts.join(","))
    };
    let limited: Vec<_> = requests.iter().filter(|(resource, _)| is_limited(resource)).cloned().collect();
    let set = |target: &str| {
        let limits = match limited.as_slice() {
            [] => String::new(),
            limited => format!(" --limits={}", list(&mut limited.iter())),
        };
        format!(
            "kubectl set resources {target} -c {container} --requests={}{limits}",
            list(&mut requests.iter())
        )
    };
    match workload {
        Some(workload) => match workload.strip_prefix("Job ") {
            Some(job) => replace_job(namespace, job, &(set("--local -f -") + " -o json")),
            None => set(&format!("-n {namespace} {}", slashed(workload))),
        },
        None => replace(pod, &(set("--local -f -") + " -o json")),
    }
}

/// A pod that is deleted and created again, with its object changed by a command in between.
fn replace(pod: &Pod, change: &str) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    format!("kubectl get pod -n {namespace} {name} -o json | {change} | kubectl replace --force -f -")
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

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
