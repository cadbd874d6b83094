//! The selector of a workload, checked against the labels of its template.

use super::ExpandError;
use super::context::Context;
use berth_api::object::{LabelSelector, ObjectMeta, ReplicationController, StringMap, Workload};
use berth_api::read::decode_at;
use berth_rules::Selector;

/// The selector of a Deployment, ReplicaSet, StatefulSet or DaemonSet.
///
/// Without a selector, the labels of the template are used, as before `apps/v1` required one: manifests for other
/// simulators omit it.
pub(super) fn of_workload(context: Context<'_>, workload: &Workload) -> Result<LabelSelector, ExpandError> {
    const PATH: &str = "spec.template.metadata";
    let metadata = match workload.spec.template.get("metadata") {
        None => ObjectMeta::default(),
        Some(metadata) => decode_at::<Option<ObjectMeta>>(metadata, PATH, &context.entry.object)
            .map_err(|error| context.field_error(error))?
            .unwrap_or_default(),
    };
    let selector = workload.spec.selector.clone().unwrap_or_else(|| LabelSelector {
        match_labels: StringMap::clone(&metadata.labels),
        match_expressions: Vec::new(),
    });
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        let kind = context.kind().name().to_ascii_lowercase();
        return Err(context
            .invalid("spec.selector", format!("Invalid value: {{}}: empty selector is invalid for {kind}")));
    }
    check_template(context, &selector, &metadata.labels)?;
    Ok(selector)
}

/// The selector of a ReplicationController: by default the labels of its template.
pub(super) fn of_replication_controller(
    context: Context<'_>,
    controller: &ReplicationController,
    labels: &StringMap,
) -> Result<LabelSelector, ExpandError> {
    let match_labels =
        if controller.spec.selector.is_empty() { labels } else { &controller.spec.selector }.clone();
    let selector = LabelSelector { match_labels, match_expressions: Vec::new() };
    check_template(context, &selector, labels)?;
    Ok(selector)
}

/// Checks that the selector matches the labels of the template.
fn check_template(
    context: Context<'_>,
    selector: &LabelSelector,
    labels: &StringMap,
) -> Result<(), ExpandError> {
    let matches =
        Selector::parse(Some(selector)).is_ok_and(|s| s.matches(|key| labels.get(key).map(String::as_str)));
    if matches {
        return Ok(());
    }
    let written = serde_json::json!(labels);
    let message = "`selector` does not match template `labels`: change one of them";
    Err(context.invalid("spec.template.metadata.labels", format!("Invalid value: {written}: {message}")))
}
