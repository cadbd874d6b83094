//! Discovery of groups, versions and resources, plain and aggregated.
//!
//! Everything follows from the table of resources and from the custom ones.

mod aggregated;
mod plain;
mod served;

use berth_api::feature_gates::FeatureGates;
use berth_schema::resource::Resource;
use bytes::Bytes;
use serde_json::Value;

use served::Served;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub content_type: &'static str,
    /// JSON.
    pub body: Bytes,
}

const JSON: &str = "application/json";

/// The answer to `GET` of a discovery path: `/api`, `/api/v1`, `/apis`, `/apis/GROUP` and
/// `/apis/GROUP/VERSION`. `None` if there is no such group or version, or the path is none of these.
///
/// `accept` is the request's header: it selects aggregated discovery at `/api` and `/apis`.
/// `address` is where the server is reached (`127.0.0.1:6443`), `gates` decide which resources exist,
/// `custom` are the custom ones.
pub fn document(
    path: &str,
    accept: Option<&str>,
    address: &str,
    gates: FeatureGates,
    custom: &[&'static Resource],
) -> Option<Document> {
    let all = Served { gates, custom };
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["api"] => Some(match aggregated::DiscoveryForm::requested(accept) {
            Some(form) => aggregated_document(form, true, all),
            None => json(&plain::api_versions(address)),
        }),
        ["apis"] => Some(match aggregated::DiscoveryForm::requested(accept) {
            Some(form) => aggregated_document(form, false, all),
            None => json(&plain::api_group_list(all)),
        }),
        ["api", version] => plain::api_resource_list("", version, all).as_ref().map(json),
        ["apis", group] if !group.is_empty() => plain::api_group(group, all).as_ref().map(json),
        ["apis", group, version] if !group.is_empty() => {
            plain::api_resource_list(group, version, all).as_ref().map(json)
        }
        _ => None,
    }
}

fn aggregated_document(form: aggregated::DiscoveryForm, core: bool, all: Served<'_>) -> Document {
    let body = aggregated::group_discovery_list(form, core, all).to_string().into();
    Document { content_type: form.content_type(), body }
}

impl Document {
    pub fn json(body: Bytes) -> Document {
        Document { content_type: JSON, body }
    }
}

fn json(value: &Value) -> Document {
    Document::json(value.to_string().into())
}

#[cfg(test)]
mod tests;
