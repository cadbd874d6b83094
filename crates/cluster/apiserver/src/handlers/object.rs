//! One object: finding it, and answering it.

use std::sync::Arc;

use berth_schema::resource::Resource;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use super::api::Api;
use super::convert;
use super::read_options::{include_object, resource_version, too_large};
use super::reply::Reply;
use crate::kinds;
use crate::request::{ApiRequest, ApiResult, Form, RequestInfo, Status, choose, wrong_form};
use crate::store::Object;
use crate::table;

/// The resource in whose collection a request's objects are.
pub fn stored(info: &RequestInfo) -> ApiResult<&'static Resource> {
    info.resource.stored().ok_or_else(Status::method_not_allowed)
}

pub fn find(api: &Api, info: &RequestInfo) -> ApiResult<Arc<Object>> {
    let resource = stored(info)?;
    let found = api.store.get(resource, &info.namespace, &info.name);
    found.ok_or_else(|| Status::not_found(info.resource, &info.name))
}

pub fn get(api: &Api, request: &ApiRequest) -> ApiResult<Reply> {
    let current = api.store.revision();
    if let Some(requested) = resource_version(&request.query)?.filter(|requested| *requested > current) {
        return Err(too_large(requested, current));
    }
    let object = find(api, &request.info)?;
    answer_object(request, StatusCode::OK, &object)
}

/// An object in the form the client accepts.
pub fn answer_object(request: &ApiRequest, code: StatusCode, object: &Object) -> ApiResult<Reply> {
    let resource = request.info.resource;
    let bytes = match choose(&request.headers, resource)?.0 {
        Form::Plain => convert::shown(resource, object),
        Form::PartialMetadata => object.partial(),
        Form::PartialMetadataList => return Err(wrong_form(resource, false)),
        Form::Table => {
            let value = convert::row_value(resource, object);
            let included = convert::included(resource, object, include_object(&request.query)?);
            Bytes::from(table::table(kinds::columns(resource), &value, &included, true, Timestamp::now()))
        }
    };
    Ok(Reply::object(code, bytes))
}
