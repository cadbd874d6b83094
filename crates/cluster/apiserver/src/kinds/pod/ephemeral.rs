//! The subresource `ephemeralcontainers` of pods: containers are added, and stay as they are.

use std::collections::{HashMap, HashSet};

use berth_api::syntax;

use super::containers;
use crate::kinds::prelude::*;
use crate::strategy::metadata::kept;
use crate::strategy::template;

const FIELD: &str = "ephemeralContainers";
/// What a container that serves nobody has no use for.
const NOT_FOR_THEM: [&str; 8] = [
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
];
const MAY_NOT: &str = "cannot be set for an Ephemeral Container";

/// Keeps everything of a pod but its ephemeral containers.
pub fn prepare(new: &mut Value, old: &Value) {
    let mut kept = kept(new, old);
    if let (Some(spec), Some(sent)) = (kept["spec"].as_object_mut(), new["spec"].as_object()) {
        match sent.get(FIELD).filter(|sent| !sent.is_null()) {
            Some(sent) => spec.insert(FIELD.to_owned(), sent.clone()),
            None => spec.remove(FIELD),
        };
    }
    *new = kept;
    template::default_spec(&mut new["spec"]);
}

/// Validates a change. Rules and messages are those of kube-apiserver 1.36 (`ValidatePodEphemeralContainersUpdate`), without the
/// difference between the containers, which it prints.
pub fn validate(new: &Value, old: &Value, causes: &mut Causes) {
    if old["metadata"]["annotations"].get(super::MIRROR).is_some() {
        causes.forbidden("", "static pods do not support ephemeral containers");
        return;
    }
    let spec = &new["spec"];
    let path = format!("spec.{FIELD}");
    let mut names: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(spec, list))
        .map(|c| text(c, "/name"))
        .collect();
    let of_pod = names.clone();
    for (i, container) in items(spec, FIELD).iter().enumerate() {
        let path = format!("{path}[{i}]");
        let (name, target) = (text(container, "/name"), text(container, "/targetContainerName"));
        if text(container, "/image").trim() != text(container, "/image") {
            let why = "must not have leading or trailing whitespace";
            causes.invalid(&format!("{path}.image"), &container["image"], why);
        } else if text(container, "/image").is_empty() {
            causes.required(&format!("{path}.image"), "");
        }
        match name {
            "" => causes.required(&format!("{path}.name"), ""),
            _ => causes.problems(&format!("{path}.name"), &container["name"], syntax::dns_label(name)),
        }
        containers::validate_common(container, &path, causes);
        if !names.insert(name) {
            causes.duplicate(&format!("{path}.name"), &container["name"]);
        }
        if !target.is_empty() && !of_pod.contains(target) {
            let message = format!("Not found: {target:?}");
            causes.push(CauseType::FieldValueNotFound, &format!("{path}.targetContainerName"), message);
        }
        for field in
            NOT_FOR_THEM.iter().filter(|field| container.get(**field).is_some_and(|value| !is_empty(value)))
        {
            causes.forbidden(&format!("{path}.{field}"), MAY_NOT);
        }
        for (j, mount) in items(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"]
                .iter()
                .filter(|field| !text(mount, &format!("/{field}")).is_empty())
            {
                causes.forbidden(&format!("{path}.volumeMounts[{j}].{field}"), MAY_NOT);
            }
        }
    }
    let sent: HashMap<&str, &Value> =
        items(spec, FIELD).iter().map(|container| (text(container, "/name"), container)).collect();
    for before in items(&old["spec"], FIELD) {
        let name = text(before, "/name");
        match sent.get(name) {
            None => causes
                .forbidden(&path, &format!("existing ephemeral containers {name:?} may not be removed\n")),
            Some(now) if *now != before => {
                causes.forbidden(
                    &path,
                    &format!("existing ephemeral containers {name:?} may not be changed\n"),
                );
            }
            Some(_) => {}
        }
    }
}
