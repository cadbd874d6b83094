//! The subresource `resize` of pods: new CPU and memory of the pod and of its containers in place, and new sizes of volumes in memory.

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object as typed;
use berth_api::read::from_value;
use berth_api::syntax::quantity::Quantity;
use berth_rules::admission::{complete_pod_resources, validate_pod};
use berth_rules::{RuleOptions, pod_requests};
use berth_schema::resource::{NODES, PODS};

use super::defaults::{default_pod, qos_class};
use super::validate::validate_spec;
use crate::kinds::prelude::*;
use crate::strategy::metadata::kept;

const LISTS: [&str; 2] = ["containers", "initContainers"];
const RESIZABLE: [&str; 2] = ["cpu", "memory"];
const VOLUMES: &str = "InPlacePodVerticalScalingMemoryBackedVolumes";

fn has_same_containers(new: &Value, old: &Value) -> bool {
    LISTS.iter().all(|list| items(&new["spec"], list).len() == items(&old["spec"], list).len())
}

/// Keeps everything of a pod but what a resize changes. A pod with more or less containers stays as it is, and is refused.
pub fn prepare(gates: FeatureGates, new: &mut Value, old: &Value) {
    if !has_same_containers(new, old) {
        return;
    }
    let mut kept = kept(new, old);
    for list in LISTS {
        let sent = items(&new["spec"], list);
        for (i, container) in items_mut(&mut kept["spec"], list).iter_mut().enumerate() {
            if sent[i]["name"] == container["name"] {
                ["resources", "resizePolicy"].iter().for_each(|field| take(container, &sent[i], field));
            } else {
                *container = sent[i].clone();
            }
        }
    }
    // Clients that do not know the resources of the pod leave them out.
    if !new["spec"]["resources"].is_null() {
        take(&mut kept["spec"], &new["spec"], "resources");
    }
    if gates.is_on(VOLUMES) {
        take(&mut kept["spec"], &new["spec"], "volumes");
    }
    *new = kept;
    default_pod(new);
    if gates.version >= KubernetesVersion::V1_37
        && !new["spec"]["resources"].is_null()
        && let Ok(mut spec) = from_value::<typed::PodSpec>(&new["spec"])
    {
        complete_pod_resources(&mut spec);
        if let Some(resources) = &spec.resources {
            set_quantities(&mut new["spec"]["resources"], "requests", &resources.requests);
            set_quantities(&mut new["spec"]["resources"], "limits", &resources.limits);
        }
    }
}

/// Validates new resources. The messages are kube-apiserver's.
pub fn validate(context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
    let Context { extensions, feature_gates, .. } = *context;
    if let Ok(pod) = from_value::<typed::Pod>(new) {
        let errors = validate_pod(&pod, RuleOptions { extensions, feature_gates });
        causes.0.extend(errors.iter().map(|error| cause(error, "")));
    }
    validate_spec(&new["spec"], "spec", causes);
    let class = &old["status"]["qosClass"];
    if *class != qos_class(new) {
        causes.invalid("spec", class, "Pod QOS Class may not change as a result of resizing");
    }
    if !items(&old["status"], "nodeAllocatableResourceClaimStatuses").is_empty() {
        causes.forbidden("spec", "pods with node allocatable resource claims cannot be resized");
    }
    let (spec, old) = (&new["spec"], &old["spec"]);
    let none = json!({});
    let of = |resources: &'_ Value| if resources.is_null() { none.clone() } else { resources.clone() };
    let (whole, before) = (of(&spec["resources"]), of(&old["resources"]));
    validate_kept(&whole, &before, "spec.resources", "pod-level ", causes);
    if others(&whole) != others(&before) {
        causes.forbidden("spec", "only cpu and memory resources are mutable at pod-level");
    }
    if !validate_order(spec, old, causes) {
        return;
    }
    for list in ["initContainers", "containers"] {
        for (i, (new, old)) in items(spec, list).iter().zip(items(old, list)).enumerate() {
            let path = format!("spec.{list}[{i}]");
            validate_kept(&new["resources"], &old["resources"], &format!("{path}.resources"), "", causes);
            if others(&new["resources"]) == others(&old["resources"])
                && new["resizePolicy"] == old["resizePolicy"]
            {
                continue;
            }
            match list {
                "containers" => causes.forbidden("spec", "only cpu and memory resources are mutable"),
                _ => causes.forbidden(
                    &path,
                    "only cpu and memory resources for init or sidecar containers are mutable",
                ),
            }
        }
    }
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let restarts = items(container, "resizePolicy")
            .iter()
            .any(|policy| policy["restartPolicy"] == "RestartContainer");
        if restarts && container["restartPolicy"] != "Always" && *container != old["initContainers"][i] {
            let why =
                "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
            causes.forbidden(&format!("spec.initContainers[{i}]"), why);
        }
    }
    validate_volumes(items(spec, "volumes"), items(old, "volumes"), causes);
}

/// Whether the pod has the same containers in the same order.
fn validate_order(new: &Value, old: &Value, causes: &mut Causes) -> bool {
    let n_causes = causes.0.len();
    for list in LISTS {
        let (new, old) = (items(new, list), items(old, list));
        if new.len() != old.len() {
            causes
                .forbidden(&format!("spec.{list}"), &format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (i, _) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| new["name"] != old["name"]) {
            let why = format!("{list} may not be renamed or reordered on resize");
            causes.forbidden(&format!("spec.{list}[{i}].name"), &why);
        }
    }
    causes.0.len() == n_causes
}

/// Requests and limits cannot be taken away.
fn validate_kept(new: &Value, old: &Value, path: &str, of: &str, causes: &mut Causes) {
    for list in ["requests", "limits"] {
        let mut names = old[list].as_object().into_iter().flatten().map(|(name, _)| name);
        if names.any(|name| new[list].get(name).is_none()) {
            causes.forbidden(&format!("{path}.{list}"), &format!("{of}resource {list} cannot be removed"));
        }
    }
}

/// What a resize may not change.
fn others(resources: &Value) -> (Vec<(String, Option<Quantity>)>, &Value) {
    let lists = ["requests", "limits"].into_iter().flat_map(|list| {
        let amounts = resources[list].as_object().into_iter().flatten();
        let others = amounts.filter(|(name, _)| !RESIZABLE.contains(&name.as_str()));
        others.map(move |(name, amount)| (format!("{list}.{name}"), quantity(amount)))
    });
    let mut amounts: Vec<_> = lists.collect();
    amounts.sort_by(|a, b| a.0.cmp(&b.0));
    (amounts, &resources["claims"])
}

fn validate_volumes(new: &[Value], old: &[Value], causes: &mut Causes) {
    let path = "spec.volumes";
    if new.len() != old.len() {
        return causes.forbidden(path, "volumes may not be added or removed on resize");
    }
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        let path = format!("{path}[{i}]");
        if new["name"] != old["name"] {
            causes.forbidden(&format!("{path}.name"), "volumes may not be renamed or reordered on resize");
            continue;
        }
        let [now, before] = [new, old].map(|volume| quantity(&volume["emptyDir"]["sizeLimit"]));
        let mut same = new.clone();
        if let (Some(directory), Some(_)) =
            (same.get_mut("emptyDir").filter(|directory| directory.is_object()), old.get("emptyDir"))
        {
            take(directory, &old["emptyDir"], "sizeLimit");
        }
        let field = format!("{path}.emptyDir.sizeLimit");
        if same != *old {
            causes.forbidden(&path, "only sizeLimit of memory-backed emptyDir volumes is mutable on resize");
        } else if [now, before].map(|limit| limit.is_some_and(|limit| !limit.is_zero())) == [true, true] {
            if now != before && new["emptyDir"]["medium"] != "Memory" {
                causes.forbidden(&field, "sizeLimit is only mutable for memory-backed emptyDir volumes");
            }
        } else if now.unwrap_or_default() != before.unwrap_or_default() {
            causes.forbidden(&field, "adding or removing sizeLimit on an existing volume is not allowed");
        }
    }
}

/// Checks whether the node of a resized pod can do it: the admission plugins NodeDeclaredFeatures and PodResize.
pub fn authorize(context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
    let node = text(new, "/spec/nodeName");
    if node.is_empty() || new["spec"] == old["spec"] {
        return Ok(());
    }
    let forbidden = |why: &str| Status::forbidden(&PODS, name(new), why);
    let Some(found) = context.lookup.get(&NODES, "", node) else {
        return Err(forbidden(&format!("node {node:?} not found")));
    };
    let found = found.parsed();
    let declared = items(&found["status"], "declaredFeatures");
    let missing: Vec<&str> =
        required_features(new, old).into_iter().filter(|name| !declared.iter().any(|d| d == name)).collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        let why = format!("pod update requires features {missing} which are not available on node {node:?}");
        return Err(forbidden(&why));
    }
    let refuse = |cause_type, why: &str| Err(forbidden(why).with_cause(cause_type, "", ""));
    if let Some(os) = found["metadata"]["labels"]["kubernetes.io/os"].as_str().filter(|os| *os != "linux") {
        let why = format!("pod resize is only supported on linux nodes, node {node:?} is {os:?}");
        return refuse(CauseType::UnsupportedPlatform, &why);
    }
    let requests = pod_requests(&from_value(&new["spec"]).map_err(Status::internal)?);
    let exceeded = [("cpu", 1000), ("memory", 1)].map(|(name, scale)| {
        let requested = requests.get(name).copied().unwrap_or_default();
        let available = quantity(&found["status"]["allocatable"][name]).unwrap_or_default();
        let shown = |amount: Quantity| if scale == 1 { amount.units() } else { amount.millis() };
        (requested > available)
            .then(|| format!("{name}, requested: {}, allocatable: {}", shown(requested), shown(available)))
    });
    let exceeded: Vec<String> = exceeded.into_iter().flatten().collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    let why = format!("node didn't have enough allocatable resources: {}", exceeded.join("; "));
    refuse(CauseType::NodeCapacity, &why)
}

/// The features that the kubelet needs for a resize.
fn required_features(new: &Value, old: &Value) -> Vec<&'static str> {
    let (new, old) = (&new["spec"], &old["spec"]);
    let init = items(new, "initContainers").iter().zip(items(old, "initContainers"));
    let mut of_init = init.filter(|(new, _)| new["restartPolicy"] != "Always");
    let features = [
        ("InPlacePodLevelResourcesVerticalScaling", new["resources"] != old["resources"]),
        (
            "InPlacePodVerticalScalingInitContainers",
            of_init.any(|(new, old)| new["resources"] != old["resources"]),
        ),
        (VOLUMES, new["volumes"] != old["volumes"]),
    ];
    features.into_iter().filter(|(_, is_needed)| *is_needed).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::User;
    use crate::strategy::fake_cluster::FakeCluster;

    #[test]
    fn only_cpu_and_memory_of_containers_may_be_resized() {
        let pod = |resources: Value| {
            json!({"metadata": {"name": "p", "namespace": "n"}, "status": {"qosClass": "Burstable"}, "spec": {
                "containers": [{"name": "c", "image": "i", "resources": resources}]}})
        };
        let old = pod(
            json!({"requests": {"cpu": "1", "memory": "1Gi", "x.y/z": "1"}, "limits": {"cpu": "2", "x.y/z": "1"}}),
        );
        let limits = json!({"cpu": "2", "x.y/z": "1"});
        let (cluster, user) = (FakeCluster::default(), User::admin());
        for (resources, field, message) in [
            (json!({"requests": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"}, "limits": limits}), "", ""),
            (
                json!({"requests": {"cpu": "1", "memory": "1Gi", "x.y/z": "2"}, "limits": {"cpu": "2", "x.y/z": "2"}}),
                "spec",
                "Forbidden: only cpu and memory resources are mutable",
            ),
            (
                json!({"requests": {"cpu": "1", "x.y/z": "1"}, "limits": limits}),
                "spec.containers[0].resources.requests",
                "Forbidden: resource requests cannot be removed",
            ),
            (
                json!({"requests": {"cpu": "3", "memory": "1Gi", "x.y/z": "1"}, "limits": limits}),
                "spec.containers[0].resources.requests",
                "Invalid value: \"3\": must be less than or equal to cpu limit of 2",
            ),
            (
                json!({"requests": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"},
                    "limits": {"cpu": "2", "memory": "1Gi", "x.y/z": "1"}}),
                "spec",
                "Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing",
            ),
        ] {
            let mut new = pod(resources.clone());
            new["spec"]["nodeName"] = "elsewhere".into();
            new["metadata"]["labels"] = json!({"a": "b"});
            prepare(FeatureGates::default(), &mut new, &old);
            assert!(new["spec"]["nodeName"].is_null() && new["metadata"]["labels"].is_null());
            let mut causes = Causes::default();
            validate(&cluster.context(&user), &new, &old, &mut causes);
            let first = causes.0.first().map(|cause| (cause.field.as_str(), cause.message.as_str()));
            assert_eq!(first.unwrap_or_default(), (field, message), "{resources}");
        }
    }
}
