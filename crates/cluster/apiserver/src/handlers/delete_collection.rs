//! Deletion of a collection: one object after another, each as by itself.

use serde_json::json;

use super::api::Api;
use super::object::stored;
use super::reply::Reply;
use super::write::{WriteRequest, Written};
use super::{list, read_options};
use crate::request::{ApiRequest, ApiResult, Reason, RequestInfo};

/// Answers the deletion of all selected objects.
///
/// # Errors
/// An object may not be deleted. The objects before it are deleted.
pub async fn delete_collection(
    api: &Api,
    request: &ApiRequest,
    warnings: &mut Vec<String>,
) -> ApiResult<Reply> {
    let mut write = WriteRequest::read(request, warnings)?;
    let info = &request.info;
    let filter = read_options::filter(&api.store, info, &request.query)?;
    let (revision, objects) = api.store.list(stored(info)?, &filter);
    let mut deleted = Vec::new();
    for object in objects {
        let (namespace, name) = (object.facts.namespace().to_owned(), object.facts.name().to_owned());
        write.target = RequestInfo { namespace, name, ..info.clone() };
        match write.carry_out(api, warnings).await {
            Ok(Written { object, .. }) => deleted.push(object),
            Err(status) if status.reason == Reason::NotFound => {}
            Err(status) => return Err(status),
        }
    }
    list::answer(request, &json!({"resourceVersion": revision.to_string()}), deleted)
}
