//! Lists: all at once, or page by page at the version of the first page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use berth_schema::protobuf;
use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::Api;
use super::body::{Around, CHUNK_BYTES, yaml};
use super::object::stored;
use super::read_options::{filter, include_object, resource_version, too_large};
use super::reply::Reply;
use super::{body, convert};
use crate::kinds;
use crate::request::{
    ApiRequest, ApiResult, Cause, Form, MediaType, Query, RequestInfo, Status, choose, wrong_form,
};
use crate::store::{Filter, Object, Page, Position};
use crate::table;

/// Continue token: where a list goes on, in kube-apiserver's form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Continue {
    /// The version of the list; `None` for whatever is present, after an earlier version was forgotten.
    revision: Option<u64>,
    /// The last object before.
    after: Position,
    /// How many objects follow, if that is known.
    remaining: Option<u64>,
    /// The rows of the page before, in a table whose pages grow.
    rows: Option<u64>,
    /// The list that it continues; `None` in a token of another server.
    of: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ContinueText {
    v: String,
    rv: i64,
    start: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    of: Option<String>,
}

/// From this limit on, kubectl's own, each page of a table has more rows than the one before. kubectl limits itself to five
/// requests per second, with which 150,000 rows would take a minute; servers are free to ignore limits.
const GROWING_ROWS: u64 = 500;
const GROWTH: u64 = 4;
const MAX_ROWS: u64 = 20_000;

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";

impl Continue {
    fn encode(&self) -> String {
        let (namespace, name) = &self.after;
        let slash = if namespace.is_empty() { "" } else { "/" };
        let text = ContinueText {
            v: CONTINUE_VERSION.to_owned(),
            rv: self.revision.map_or(-1, |revision| i64::try_from(revision).unwrap_or(i64::MAX)),
            start: format!("{namespace}{slash}{name}\0"),
            remaining: self.remaining,
            rows: self.rows,
            of: self.of.clone(),
        };
        // Strings and numbers serialize without failing.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&text).unwrap_or_default())
    }

    /// Reads a token, for a list of a resource in a namespace.
    fn decode(token: &str, info: &RequestInfo) -> ApiResult<Continue> {
        let read = || {
            let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).ok()?;
            let text: ContinueText = serde_json::from_slice(&bytes).ok()?;
            let start = text.start.strip_suffix('\0')?;
            let (namespace, name) = start.split_once('/').unwrap_or(("", start));
            let revision = u64::try_from(text.rv).ok();
            let is_here = if info.namespace.is_empty() {
                namespace.is_empty() != info.resource.namespaced
            } else {
                namespace == info.namespace
            };
            let is_own = text.of.as_ref().is_none_or(|of| *of == list_name(info));
            let is_known = text.v == CONTINUE_VERSION && text.rv != 0 && is_here && is_own;
            let after = (namespace.into(), name.into());
            let token = Continue { revision, after, remaining: text.remaining, rows: text.rows, of: text.of };
            is_known.then_some(token)
        };
        read().ok_or_else(|| {
            let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).unwrap_or_default();
            let why = match bytes.first() {
                Some(first) if *first != b'{' => {
                    format!(": invalid character {:?} looking for beginning of value", char::from(*first))
                }
                _ => String::new(),
            };
            Status::bad_request(format!("invalid continue token: continue key is not valid{why}"))
        })
    }
}

/// The name of a list: two lists of the same objects have the same name.
fn list_name(info: &RequestInfo) -> String {
    format!("{}/{}", info.namespace, info.resource.group_resource())
}

/// The version of a continue token has been forgotten. The status has another token, that goes on with what is present.
fn too_old(token: Continue) -> Box<Status> {
    let mut status = Status::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
         results. Continuing with the provided token results in an inconsistent list - objects that were created, \
         modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    status.list_continue = Continue { revision: None, remaining: None, ..token }.encode();
    status
}

pub fn list(api: &Api, request: &ApiRequest) -> ApiResult<Reply> {
    let (info, query) = (&request.info, &request.query);
    let resource = info.resource;
    let (form, _) = choose(&request.headers, resource)?;
    let filter = filter(&api.store, info, query)?;
    let (page, next) = page(api, info, query, &filter, form)?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = next {
        metadata["continue"] = Value::from(next.encode());
        if let Some(remaining) = next.remaining {
            metadata["remainingItemCount"] = Value::from(remaining);
        }
    } else if resource.custom.is_some() && form == Form::Plain {
        metadata["continue"] = "".into();
    }
    answer(request, &metadata, page.objects)
}

/// A list in the form and the media type that the client accepts.
pub fn answer(request: &ApiRequest, metadata: &Value, objects: Vec<Arc<Object>>) -> ApiResult<Reply> {
    let resource = request.info.resource;
    let (form, media_type) = choose(&request.headers, resource)?;
    let include = include_object(&request.query)?;
    let (api_version, kind) = match form {
        Form::PartialMetadata => return Err(wrong_form(resource, true)),
        Form::PartialMetadataList => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
        Form::Plain | Form::Table => (resource.api_version(), resource.kind),
    };
    let list_kind = if form == Form::Plain { resource.list_kind() } else { format!("{kind}List") };
    let head = match form {
        Form::Table => table::head(kinds::columns(resource), metadata),
        _ => {
            format!(r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{metadata},"items":["#)
        }
    };
    let (items, columns, now) = (convert::Items::new(resource), kinds::columns(resource), Timestamp::now());
    let write = move |object: &Arc<Object>, out: &mut Vec<u8>| match form {
        Form::Plain => items.write(object, out),
        Form::PartialMetadata | Form::PartialMetadataList => object.write_partial(out),
        Form::Table => {
            let included = convert::included(resource, object, include);
            table::write_row(out, columns, &convert::row_value(resource, object), &included, now);
        }
    };
    let body = match media_type {
        MediaType::Json => body::list(Around::json(head), objects, write),
        MediaType::Yaml => {
            let around = Around::yaml(&head, objects.is_empty());
            body::list(around, objects, move |object, out| write_yaml_item(&write, object, out))
        }
        MediaType::Protobuf => {
            let (mut pieces, mut json) = (vec![Vec::new()], Vec::new());
            let items = protobuf::Items::new(&api_version, kind).ok_or_else(unwritable)?;
            for object in &objects {
                json.clear();
                write(object, &mut json);
                if pieces.last().is_none_or(|piece: &Vec<u8>| piece.len() >= CHUNK_BYTES) {
                    pieces.push(Vec::new());
                }
                if let Some(piece) = pieces.last_mut() {
                    items.push(&json, piece).ok_or_else(unwritable)?;
                }
            }
            let n_bytes = pieces.iter().map(Vec::len).sum();
            let head = protobuf::list_head(&api_version, &list_kind, &metadata.to_string(), n_bytes);
            pieces.insert(0, head.ok_or_else(unwritable)?);
            body::pieces(pieces)
        }
    };
    let content_type = media_type.content_type();
    Ok(Reply { content_type, ..Reply::json(StatusCode::OK, body) })
}

fn unwritable() -> Box<Status> {
    Status::internal("an object has no protobuf form")
}

/// An item of a list in YAML, indented.
fn write_yaml_item(write: impl Fn(&Arc<Object>, &mut Vec<u8>), object: &Arc<Object>, out: &mut Vec<u8>) {
    let mut json = Vec::new();
    write(object, &mut json);
    let text = yaml(serde_json::from_slice(&json).unwrap_or_default());
    let mut indent = &b"- "[..];
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line != b"\n" {
            out.extend_from_slice(std::mem::replace(&mut indent, b"  "));
        }
        out.extend_from_slice(line);
    }
}

/// The page that a request asks for, and where the list goes on after it.
fn page(
    api: &Api,
    info: &RequestInfo,
    query: &Query,
    filter: &Filter,
    form: Form,
) -> ApiResult<(Page, Option<Continue>)> {
    let resource = stored(info)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let requested = resource_version(query)?;
    // As the cache of kube-apiserver, which answers with all.
    let limit = limit.filter(|_| requested != Some(0) || !query.get("continue").is_empty());
    query.number("timeoutSeconds")?;
    if query.flag("sendInitialEvents") == Some(true) {
        let cause = Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list");
        return Err(Status::invalid_options("ListOptions", vec![cause]));
    }
    let current = api.store.revision();
    if !query.get("continue").is_empty() && !query.get("resourceVersionMatch").is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        return Err(Status::invalid_options(
            "ListOptions",
            vec![Cause::forbidden("resourceVersionMatch", why)],
        ));
    }
    let token = match query.get("continue") {
        "" => None,
        token => Some(Continue::decode(token, info)?),
    };
    let grows = form == Form::Table && limit.is_some_and(|limit| limit >= GROWING_ROWS);
    let earlier_rows = token.as_ref().and_then(|token| token.rows).filter(|_| grows);
    let grown = earlier_rows.map(|rows| rows.saturating_mul(GROWTH).min(MAX_ROWS));
    let limit = limit.max(grown).map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let (page, remaining) = if let Some(token) = token {
        if requested.is_some_and(|requested| requested != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        // A version from the future is one of another server.
        if token.revision.is_some_and(|revision| revision > current) {
            return Err(too_old(token));
        }
        match api.store.page(resource, filter, token.revision, Some(&token.after), limit) {
            Ok(page) => (page, token.remaining),
            Err(_) => return Err(too_old(token)),
        }
    } else {
        let version_match = query.get("resourceVersionMatch");
        check_version_match(version_match, requested)?;
        if let Some(requested) = requested.filter(|requested| *requested > current) {
            return Err(too_large(requested, current));
        }
        let exact = requested.filter(|_| version_match == "Exact");
        let page = api.store.page(resource, filter, exact, None, limit).map_err(|error| {
            Status::expired(format!(
                "The provided resource version {} is no longer available",
                error.requested
            ))
        })?;
        let total = exact.is_none().then_some(page.total as u64);
        (page, total)
    };
    let n_sent = page.objects.len() as u64;
    let next = page.next.clone().map(|after| Continue {
        revision: Some(page.revision),
        after,
        // As upstream: absent in lists with selectors, where kube-apiserver does not know it.
        remaining: remaining
            .filter(|_| filter.is_everything())
            .map(|remaining| remaining.saturating_sub(n_sent)),
        rows: grows.then_some(n_sent),
        of: Some(list_name(info)),
    });
    Ok((page, next))
}

fn check_version_match(version_match: &str, requested: Option<u64>) -> ApiResult {
    let field = "resourceVersionMatch";
    let no_version = "resourceVersionMatch is forbidden unless resourceVersion is provided";
    let refuse = |causes| Err(Status::invalid_options("ListOptions", causes));
    match (version_match, requested) {
        ("", _) | ("NotOlderThan", Some(_)) => Ok(()),
        ("Exact", Some(0)) => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            refuse(vec![Cause::forbidden(field, why)])
        }
        ("Exact", Some(_)) => Ok(()),
        ("Exact" | "NotOlderThan", None) => refuse(vec![Cause::forbidden(field, no_version)]),
        (other, requested) => {
            let forbidden = requested.is_none().then(|| Cause::forbidden(field, no_version));
            let supported = "\"Exact\", \"NotOlderThan\", \"\"";
            let unknown = Cause::not_supported(field, format!("{other:?}"), supported);
            refuse(forbidden.into_iter().chain([unknown]).collect())
        }
    }
}
