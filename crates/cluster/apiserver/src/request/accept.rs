//! Content negotiation: the response format that a client accepts.

use http::{HeaderMap, header};

use super::status::{ApiResult, Reason, Status};
use berth_schema::resource::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    PartialMetadata,
    PartialMetadataList,
    Table,
}

/// Chooses the first form in the header `Accept` that is served.
pub fn choose(headers: &HeaderMap) -> ApiResult<Form> {
    let mut said_something = false;
    for value in headers.get_all(header::ACCEPT) {
        for range in value.to_str().unwrap_or_default().split(',').filter(|range| !range.trim().is_empty()) {
            said_something = true;
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            if !matches!(media_type.as_str(), "application/json" | "application/*" | "*/*") {
                continue;
            }
            let as_kind = parts.find_map(|parameter| parameter.strip_prefix("as=")).unwrap_or_default();
            match as_kind {
                "" => return Ok(Form::Plain),
                "PartialObjectMetadata" => return Ok(Form::PartialMetadata),
                "PartialObjectMetadataList" => return Ok(Form::PartialMetadataList),
                "Table" => return Ok(Form::Table),
                _ => {}
            }
        }
    }
    if said_something {
        Err(Status::of_router(
            Reason::NotAcceptable,
            "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
             application/vnd.kubernetes.protobuf, application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch",
        ))
    } else {
        Ok(Form::Plain)
    }
}

/// The client wants metadata of one object, and asks for a list, or the other way round.
pub fn wrong_form(resource: &Resource, is_list: bool) -> Box<Status> {
    let package = match resource.group {
        _ if resource.custom.is_some() => "unstructured",
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    let kind = if resource.custom.is_some() { "Unstructured" } else { resource.kind };
    let (form, is, list) = if is_list { ("", "is", "List") } else { ("List", "is not", "") };
    let message = format!(
        "you requested PartialObjectMetadata{form}, but the requested object {is} a list (*{package}.{kind}{list})"
    );
    Status::new(Reason::NotAcceptable, message)
}

/// Whether the client accepts bodies that are compressed with gzip.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !matches!(parameters.trim(), "q=0" | "q=0.0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_served_form_is_chosen() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        for (accept, wanted) in [
            ("", Some(Form::Plain)),
            (table, Some(Form::Table)),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some(Form::PartialMetadataList),
            ),
            ("application/vnd.kubernetes.protobuf, application/json", Some(Form::Plain)),
            ("application/vnd.kubernetes.protobuf,*/*;q=0.5", Some(Form::Plain)),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/html", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(choose(&headers).ok(), wanted, "{accept}");
        }
    }
}
