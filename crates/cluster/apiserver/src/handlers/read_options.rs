//! Options of the requests that read objects.

use crate::request::{ApiResult, CauseType, Query, Reason, RequestInfo, Status, not_a_number};
use crate::store::{Filter, Store};
use crate::table::IncludeObject;

/// Requirements times objects of a list with a long selector.
const MAX_COMPARISONS: usize = 5_000_000;
/// Selectors with fewer requirements are allowed for any number of objects.
const FEW_REQUIREMENTS: usize = 16;

/// The filter of a list or watch. A name in the path counts as a field selector.
pub fn filter(store: &Store, info: &RequestInfo, query: &Query) -> ApiResult<Filter> {
    let namespace = Some(info.namespace.as_str()).filter(|n| !n.is_empty());
    let filter =
        Filter::parse(info.resource, namespace, query.get("labelSelector"), query.get("fieldSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
    let n_objects = info.resource.stored().map_or(0, |stored| store.count(stored));
    let n_requirements = filter.n_requirements();
    if n_requirements > FEW_REQUIREMENTS && n_requirements * n_objects > MAX_COMPARISONS {
        let message = format!(
            "labelSelector, fieldSelector: {n_requirements} requirements on {n_objects} {} are more than \
             {MAX_COMPARISONS} comparisons: use fewer requirements",
            info.resource.group_resource()
        );
        return Err(Status::new(Reason::RequestEntityTooLarge, message));
    }
    Ok(filter)
}

/// Reads a resource version; `None` if there is none.
pub fn resource_version(query: &Query) -> ApiResult<Option<u64>> {
    match query.get("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|error| {
            let why = not_a_number("ParseUint", text, &error);
            let what = "invalid resource version: resourceVersion";
            Status::bad_request(format!("{what}: Invalid value: {text:?}: {why}"))
        }),
    }
}

/// The store has not reached the requested version.
pub fn too_large(requested: u64, current: u64) -> Box<Status> {
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    let status = Status::new(Reason::Timeout, message);
    let mut status = status.with_cause(CauseType::ResourceVersionTooLarge, "", "Too large resource version");
    status.details.retry_after_seconds = 1;
    status
}

/// The part of the object that table rows include.
pub fn include_object(query: &Query) -> ApiResult<IncludeObject> {
    let value = query.get("includeObject");
    IncludeObject::parse(value).ok_or_else(|| {
        Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {value:?}: must be 'Metadata', 'Object', \
             'None', or empty"
        ))
    })
}
