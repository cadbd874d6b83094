//! LimitRanger: the limit ranges of a namespace give containers default requests and limits, and bound those of containers,
//! pods and claims. `berth_control` has the rules.

use std::sync::OnceLock;

use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{LimitRange, Pod};
use berth_api::read::from_value;
use berth_control::limits;
use berth_schema::resource::{LIMIT_RANGES, PERSISTENT_VOLUME_CLAIMS, PODS, Resource};
use serde_json::{Value, json};

use crate::kinds::write_resources;
use crate::request::{ApiResult, Status};
use crate::strategy::fields::{items, object, text, typed_pod};
use crate::strategy::{Context, metadata};

/// The limit ranges of the namespace of an object, in the order of their names.
fn ranges(context: &Context<'_>, value: &Value) -> Vec<LimitRange> {
    let ranges = context.lookup.list(&LIMIT_RANGES, Some(text(value, "/metadata/namespace")));
    ranges.iter().map(|range| from_value(&range.parsed()).unwrap_or_default()).collect()
}

/// Sets requests and limits that the containers of a new pod lack.
pub(super) fn set_defaults(context: &Context<'_>, resource: &Resource, pod: &mut Value) {
    if *resource != PODS {
        return;
    }
    let ranges = ranges(context, pod);
    if ranges.is_empty() {
        return;
    }
    // What cannot be read is refused when it is validated.
    let Ok(mut outline) = from_value::<Pod>(&outline(&pod["spec"])) else { return };
    if let Some(report) = limits::set_defaults(&ranges, &mut outline) {
        write_resources(&mut pod["spec"], &outline.spec);
        if let Some(annotations) = object(&mut pod["metadata"], "annotations") {
            annotations.insert(limits::ANNOTATION.to_owned(), report.into());
        }
    }
}

/// A pod with nothing but the resources of its containers: no more of it is read before webhooks have seen it.
fn outline(spec: &Value) -> Value {
    let [containers, init_containers] = ["containers", "initContainers"].map(|list| {
        let outline = |c: &Value| json!({"name": c["name"], "resources": c["resources"]});
        items(spec, list).iter().map(outline).collect::<Value>()
    });
    json!({"spec": {"containers": containers, "initContainers": init_containers}})
}

/// Refuses a pod or a claim beyond the limits of its namespace.
pub(super) fn check(context: &Context<'_>, resource: &Resource, value: &Value) -> ApiResult {
    let is_pod = *resource == PODS;
    if !is_pod && *resource != PERSISTENT_VOLUME_CLAIMS {
        return Ok(());
    }
    let ranges = ranges(context, value);
    if ranges.is_empty() {
        return Ok(());
    }
    let admitted = context.admitted.and_then(OnceLock::get).filter(|_| is_pod);
    let checked = if let Some(pod) = admitted {
        limits::check(&ranges, pod)
    } else if is_pod {
        limits::check(&ranges, &typed_pod(value).map_err(Status::internal)?)
    } else {
        let claim = from_value::<PersistentVolumeClaim>(value).map_err(Status::internal)?;
        limits::check_claim(&ranges, &claim)
    };
    checked.map_err(|why| Status::forbidden(resource, metadata::name(value), &why))
}
