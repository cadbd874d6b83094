//! Request handlers, by verb and subresource.

mod admission;
mod autoscaler;
mod binding;
mod convert;
mod delete;
mod eviction;
mod fields;
pub use admission::Admission;
pub use binding::add_topology_labels;
pub use convert::stored_value;
pub use delete::DeleteOptions;
mod list;
mod log;
pub mod paths;
mod review;
mod scale;
mod sent;
mod strict_json;
mod token;
pub mod watch;
mod write;

use std::sync::Arc;

use berth_schema::resource::{Resource, Storage};
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use crate::kinds;
use crate::server::status::Status;
use crate::server::{ApiRequest, Form, Reply, RequestInfo, Shared, Verb, choose};
use crate::store::{Object, WriteError};
use crate::table;

/// Answers a request for objects; watches are answered elsewhere.
///
/// # Errors
/// The request fails; the status gives the reason.
pub async fn handle(shared: &Arc<Shared>, request: ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    match (info.verb, info.resource.plural, info.subresource_name()) {
        (Verb::Create, "bindings", _) | (Verb::Create, "pods", "binding") => {
            binding::bind(shared, &request).await
        }
        (Verb::Create, "pods", "eviction") => eviction::evict(shared, &request).await,
        (Verb::Create, "serviceaccounts", "token") => token::token(shared, &request),
        (Verb::Create, ..) if info.resource.storage == Storage::None => review::review(shared, &request),
        (Verb::Get, "pods", "log") => log::log(shared, &request),
        (Verb::Get, _, "scale") => scale::get(shared, &request),
        (Verb::Update | Verb::Patch, _, "scale") => scale::change(shared, &request).await,
        (Verb::Get, _, "" | "approval" | "status" | "ephemeralcontainers" | "resize") => {
            get(shared, &request)
        }
        (Verb::List, ..) => list::list(shared, &request),
        (Verb::Create, _, "") => write::create(shared, &request).await,
        (Verb::Update | Verb::Patch, ..) => write::change(shared, &request).await,
        (Verb::Delete, _, "") => delete::delete(shared, &request).await,
        (Verb::DeleteCollection, _, "") => delete::delete_collection(shared, &request).await,
        _ => Err(Status::method_not_allowed()),
    }
}

/// The resource in whose collection a request's objects are.
fn stored(info: &RequestInfo) -> Result<&'static Resource, Box<Status>> {
    info.resource.stored().ok_or_else(Status::method_not_allowed)
}

fn find(shared: &Shared, info: &RequestInfo) -> Result<Arc<Object>, Box<Status>> {
    let resource = stored(info)?;
    shared
        .store
        .get(resource, &info.namespace, &info.name)
        .ok_or_else(|| Status::not_found(info.resource, &info.name))
}

fn get(shared: &Shared, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let current = shared.store.revision();
    if let Some(asked) = list::resource_version(&request.query)?.filter(|asked| *asked > current) {
        return Err(list::too_large(asked, current));
    }
    let object = find(shared, &request.info)?;
    answer_object(request, StatusCode::OK, &object)
}

/// An object in the form the client accepts.
fn answer_object(request: &ApiRequest, code: StatusCode, object: &Object) -> Result<Reply, Box<Status>> {
    let resource = request.info.resource;
    let bytes = match choose(&request.headers)? {
        Form::Plain => convert::shown(resource, object),
        Form::PartialMetadata => object.partial(),
        Form::Table => {
            let value = convert::row_value(resource, object);
            let included = convert::included(resource, object, list::include_object(&request.query)?);
            Bytes::from(table::table(kinds::columns(resource), &value, &included, true, Timestamp::now()))
        }
    };
    Ok(Reply::object(code, bytes))
}

/// Converts a failed write into the client's status.
fn write_failed(resource: &Resource, name: &str, error: WriteError) -> Box<Status> {
    match error {
        WriteError::AlreadyExists => Status::already_exists(resource, name),
        WriteError::NotFound => Status::not_found(resource, name),
        WriteError::Modified => Status::modified(resource, name),
        WriteError::Storage(why) => Status::internal(format!("the write may not have been kept: {why}")),
    }
}
