//! The handler of a request.

use berth_schema::resource::{NODE_METRICS, POD_METRICS, Storage};

use super::api::Api;
use super::reply::Reply;
use super::{binding, delete, eviction, list, log, metrics, object, review, scale, token, write};
use crate::request::{ApiRequest, Status, Verb};

/// Answers a request for objects; watches are answered elsewhere.
///
/// # Errors
/// The request fails; the status gives the reason.
pub async fn handle(api: &Api, request: ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    if [&POD_METRICS, &NODE_METRICS].contains(&info.resource) {
        return metrics::metrics(api, &request);
    }
    match (info.verb, info.resource.plural, info.subresource_name()) {
        (Verb::Create, "bindings", _) | (Verb::Create, "pods", "binding") => {
            binding::bind(api, &request).await
        }
        (Verb::Create, "pods", "eviction") => eviction::evict(api, &request).await,
        (Verb::Create, "serviceaccounts", "token") => token::token(api, &request),
        (Verb::Create, ..) if info.resource.storage == Storage::None => review::review(api, &request),
        (Verb::Get, "pods", "log") => log::log(api, &request),
        (Verb::Get, _, "scale") => scale::get(api, &request),
        (Verb::Update | Verb::Patch, _, "scale") => scale::change(api, &request).await,
        (Verb::Get, _, "" | "approval" | "status" | "ephemeralcontainers" | "resize") => {
            object::get(api, &request)
        }
        (Verb::List, ..) => list::list(api, &request),
        (Verb::Create, _, "") => write::create(api, &request).await,
        (Verb::Update | Verb::Patch, ..) => write::change(api, &request).await,
        (Verb::Delete, _, "") => delete::delete(api, &request).await,
        (Verb::DeleteCollection, _, "") => delete::delete_collection(api, &request).await,
        _ => Err(Status::method_not_allowed()),
    }
}
