//! Lists: all at once, or page by page from a snapshot.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::convert;
use crate::server::body::{Body, Items, ListBody};
use crate::server::status::{Cause, Status};
use crate::server::{ApiRequest, Form, Query, Reply, RequestInfo, Shared, choose};
use crate::store::{Filter, Object};
use crate::table::{self, IncludeObject};

/// The filter of a list or watch. A name in the path counts as a field selector.
pub fn filter(info: &RequestInfo, query: &Query) -> Result<Filter, Box<Status>> {
    let namespace = Some(info.namespace.as_str()).filter(|n| !n.is_empty());
    Filter::parse(info.resource, namespace, query.get("labelSelector"), query.get("fieldSelector"))
        .map_err(|error| Status::bad_request(error.to_string()))
}

/// Reads a resource version; `None` if there is none.
pub fn resource_version(query: &Query) -> Result<Option<u64>, Box<Status>> {
    match query.get("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Status::bad_request(format!("Invalid value: {text:?}: resourceVersion: not a number"))
        }),
    }
}

/// The store has not reached the requested version.
pub fn too_large(asked: u64, current: u64) -> Box<Status> {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let mut status = Status::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
    status.details.causes = vec![Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    }];
    status.details.retry_after_seconds = 1;
    status
}

/// Continue token: a page's position in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Continue {
    revision: u64,
    start: usize,
}

impl Continue {
    fn encode(self) -> String {
        let value = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start});
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn decode(token: &str) -> Result<Continue, Box<Status>> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
            let value: Value = serde_json::from_slice(&bytes).ok()?;
            let start = usize::try_from(value["start"].as_u64()?).ok()?;
            Some(Continue { revision: value["rv"].as_u64()?, start })
        };
        read().ok_or_else(|| Status::bad_request("continue key is not valid"))
    }
}

struct Page {
    revision: u64,
    objects: Arc<Vec<Arc<Object>>>,
    range: std::ops::Range<usize>,
    next: Option<Continue>,
}

/// Answers a list.
pub fn list(shared: &Shared, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let (info, query) = (&request.info, &request.query);
    let form = choose(&request.headers)?;
    let include = include_object(query)?;
    let filter = filter(info, query)?;
    let page = page(shared, info, query, &filter)?;
    let kind = match form {
        Form::PartialMetadata => "PartialObjectMetadataList".to_owned(),
        Form::Plain | Form::Table => info.resource.list_kind(),
    };
    let api_version = match form {
        Form::PartialMetadata => "meta.k8s.io/v1".to_owned(),
        Form::Plain | Form::Table => info.resource.api_version(),
    };
    let metadata = list_metadata(&page, &filter);
    let head = match form {
        Form::Table => table::head(info.resource, &metadata),
        _ => format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#),
    };
    let selected = &page.objects[page.range.clone()];
    let items = match form {
        Form::PartialMetadata => Items::Made(selected.iter().map(|o| o.partial()).collect()),
        Form::Table => {
            let now = Timestamp::now();
            let row = |object: &Arc<Object>| {
                let value = convert::shown_value(info.resource, object.value());
                Bytes::from(table::row(info.resource, &value, include, now).to_string())
            };
            Items::Made(selected.iter().map(row).collect())
        }
        Form::Plain if convert::is_stored_form(info.resource) => {
            Items::Stored(page.objects.clone(), page.range.clone())
        }
        Form::Plain => Items::Made(selected.iter().map(|o| convert::shown(info.resource, o)).collect()),
    };
    Ok(Reply::json(StatusCode::OK, Body::List(ListBody::new(Bytes::from(head), items))))
}

/// The part of the object that table rows include.
///
/// # Errors
/// The parameter has an unknown value.
pub fn include_object(query: &Query) -> Result<IncludeObject, Box<Status>> {
    let asked = query.get("includeObject");
    IncludeObject::parse(asked).ok_or_else(|| {
        Status::bad_request(format!(
            "includeObject: Unsupported value: {asked:?}: supported values: \"None\", \"Metadata\", \"Object\""
        ))
    })
}

fn list_metadata(page: &Page, filter: &Filter) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = page.next {
        metadata["continue"] = Value::from(next.encode());
        // As upstream: absent in lists with selectors, where kube-apiserver does not know it.
        if filter.is_everything() {
            metadata["remainingItemCount"] = Value::from(page.objects.len() - page.range.end);
        }
    }
    metadata
}

fn page(shared: &Shared, info: &RequestInfo, query: &Query, filter: &Filter) -> Result<Page, Box<Status>> {
    let resource = super::stored(info)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let asked = resource_version(query)?;
    let expired = || {
        Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter.",
        )
    };
    let token = query.get("continue");
    let version_match = query.get("resourceVersionMatch");
    let (revision, objects, start) = if token.is_empty() {
        check_version_match(version_match, asked)?;
        let current = shared.store.revision();
        if let Some(asked) = asked.filter(|asked| *asked > current) {
            return Err(too_large(asked, current));
        }
        let (revision, objects) = shared.store.list(resource, filter);
        match asked {
            Some(asked) if version_match == "Exact" && asked != revision => {
                let kept = shared.store.snapshots.get(info.resource.index(), asked, filter, Instant::now());
                let too_old = || {
                    Status::expired(format!("The provided resource version {asked} is no longer available"))
                };
                // The resource has not changed since that version, so the current objects are correct.
                let unchanged = || {
                    let (_, events) = shared.store.events_for(resource, &Filter::default(), asked, 1).ok()?;
                    events.is_empty().then(|| Arc::new(objects))
                };
                (asked, kept.or_else(unchanged).ok_or_else(too_old)?, 0)
            }
            _ => (revision, Arc::new(objects), 0),
        }
    } else {
        if asked.is_some_and(|asked| asked != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let Continue { revision, start } = Continue::decode(token)?;
        let objects = shared
            .store
            .snapshots
            .get(info.resource.index(), revision, filter, Instant::now())
            .ok_or_else(expired)?;
        (revision, objects, start)
    };
    if start > objects.len() {
        return Err(Status::bad_request("continue key is not valid"));
    }
    let end = limit.map_or(objects.len(), |limit| start.saturating_add(limit).min(objects.len()));
    let next = (end < objects.len()).then_some(Continue { revision, start: end });
    if next.is_some() && token.is_empty() {
        shared.store.snapshots.keep(info.resource.index(), revision, filter, objects.clone(), Instant::now());
    }
    Ok(Page { revision, objects, range: start..end, next })
}

fn check_version_match(version_match: &str, asked: Option<u64>) -> Result<(), Box<Status>> {
    let forbidden = |why: &str| {
        let cause = Cause {
            reason: "FieldValueForbidden".to_owned(),
            message: format!("Forbidden: {why}"),
            field: "resourceVersionMatch".to_owned(),
        };
        Err(Status::invalid_kind("meta.k8s.io", "ListOptions", "", vec![cause]))
    };
    match (version_match, asked) {
        ("", _) | ("NotOlderThan", Some(_)) => Ok(()),
        ("Exact", Some(0)) => {
            forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
        }
        ("Exact", Some(_)) => Ok(()),
        ("Exact" | "NotOlderThan", None) => {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        (other, _) => Err(Status::bad_request(format!("resourceVersionMatch: Unsupported value: {other:?}"))),
    }
}
