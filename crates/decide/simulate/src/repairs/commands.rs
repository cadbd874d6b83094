//! Commands of kubectl that make the changes.

use berth_api::object::{Pod, Taint};
use serde_json::Value;

use super::change::Change;

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

/// Moves a pod. What its controller creates in its place goes where the scheduler puts it; a pod without controller is
/// created again on the node.
pub(super) fn move_pod(pod: &Pod, to: &str) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    if pod.metadata.controller().is_some() {
        return format!("kubectl delete pod -n {namespace} {name}");
    }
    let patch = serde_json::json!({"spec": {"nodeName": to}});
    replace(pod, &format!("kubectl patch --local -f - -p {} -o json", quoted(&patch.to_string())))
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
    format!("kubectl patch -n {namespace} {} --type=json -p {}", slashed(workload), quoted(&text(&patch)))
}

/// Sets the request of a container.
pub(super) fn set_request(pod: &Pod, workload: Option<&str>, container: &str, requests: &str) -> String {
    let namespace = &pod.metadata.namespace;
    let set = |target: &str| {
        format!("kubectl set resources {target} -c {container} --requests={}", quoted(requests))
    };
    match workload {
        Some(workload) => set(&format!("-n {namespace} {}", slashed(workload))),
        None => replace(pod, &(set("--local -f -") + " -o json")),
    }
}

/// A pod that is deleted and created again, with its object changed by a command in between.
fn replace(pod: &Pod, change: &str) -> String {
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    format!("kubectl get pod -n {namespace} {name} -o json | {change} | kubectl replace --force -f -")
}

fn template_path(workload: &str) -> &'static str {
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
