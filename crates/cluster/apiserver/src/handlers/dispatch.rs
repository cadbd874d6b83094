//! The handler of a request.

use berth_schema::resource::{NODE_METRICS, POD_METRICS, Storage};

use super::api::Api;
use super::reply::Reply;
use super::{binding, delete_collection, eviction, list, log, metrics, object, review, scale, token, write};
use crate::request::{ApiRequest, ApiResult, MediaType, Status, Verb};

/// Answers a request for objects; watches are answered elsewhere.
///
/// # Errors
/// The request fails; the status gives the reason.
pub async fn handle(api: &Api, request: ApiRequest) -> ApiResult<Reply> {
    let mut warnings = Vec::new();
    match answer(api, &request, &mut warnings).await {
        Ok(reply) => Ok(reply.in_media_type(MediaType::preferred(&request.headers)).with_warnings(warnings)),
        Err(status) => Err(status.with_warnings(warnings)),
    }
}

async fn answer(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let info = &request.info;
    if [&POD_METRICS, &NODE_METRICS].contains(&info.resource) {
        return metrics::metrics(api, request);
    }
    match (info.verb, info.resource.plural, info.subresource_name()) {
        (Verb::Create, "bindings", _) | (Verb::Create, "pods", "binding") => {
            binding::bind(api, request, warnings).await
        }
        (Verb::Create, "pods", "eviction") => eviction::evict(api, request, warnings).await,
        (Verb::Create, "serviceaccounts", "token") => token::token(api, request, warnings),
        (Verb::Create, ..) if info.resource.storage == Storage::None => {
            review::review(api, request, warnings)
        }
        (Verb::Get, "pods", "log") => log::log(api, request),
        (Verb::Get, _, "scale") => scale::get(api, request),
        (Verb::Get, _, "" | "approval" | "status" | "ephemeralcontainers" | "resize") => {
            object::get(api, request)
        }
        (Verb::List, ..) => list::list(api, request),
        (Verb::DeleteCollection, _, "") => delete_collection::delete_collection(api, request, warnings).await,
        (Verb::Create | Verb::Delete, _, "") | (Verb::Update | Verb::Patch, ..) => {
            write::write(api, request, warnings).await
        }
        _ => Err(Status::method_not_allowed()),
    }
}
