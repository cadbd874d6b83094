//! Content negotiation: the response format that a client accepts.

use http::{HeaderMap, header};

use super::status::{ApiResult, Reason, Status};
use berth_schema::protobuf::is_encodable;
use berth_schema::resource::Resource;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Plain,
    PartialMetadata,
    PartialMetadataList,
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    Json,
    Yaml,
    Protobuf,
}

impl MediaType {
    /// The media type of a range of `Accept`, without its parameters.
    fn named(range: &str) -> Option<MediaType> {
        match range.to_ascii_lowercase().as_str() {
            "application/json" | "application/*" | "*/*" => Some(MediaType::Json),
            "application/yaml" => Some(MediaType::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(MediaType::Protobuf),
            _ => None,
        }
    }

    /// The first one in `Accept`, whatever the resource; JSON by default.
    pub fn preferred(headers: &HeaderMap) -> MediaType {
        ranges(headers).find_map(|(name, _)| MediaType::named(name)).unwrap_or(MediaType::Json)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            MediaType::Json => "application/json",
            MediaType::Yaml => "application/yaml",
            MediaType::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// The ranges of `Accept`: their names, and in which form objects are wanted.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all(header::ACCEPT).into_iter();
    let ranges = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    ranges.filter(|range| !range.trim().is_empty()).map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        (name, parts.find_map(|parameter| parameter.strip_prefix("as=")).unwrap_or_default())
    })
}

/// Chooses the first form and media type in the header `Accept` in which objects of a resource are served.
pub fn choose(headers: &HeaderMap, resource: &Resource) -> ApiResult<(Form, MediaType)> {
    let mut accepts_anything = true;
    for (name, as_kind) in ranges(headers) {
        accepts_anything = false;
        let form = match as_kind {
            "" => Form::Plain,
            "PartialObjectMetadata" => Form::PartialMetadata,
            "PartialObjectMetadataList" => Form::PartialMetadataList,
            "Table" => Form::Table,
            _ => continue,
        };
        match MediaType::named(name) {
            Some(MediaType::Yaml | MediaType::Protobuf) if form == Form::Table => {}
            Some(MediaType::Protobuf) if !is_encodable(&resource.api_version(), resource.kind) => {}
            Some(media_type) => return Ok((form, media_type)),
            None => {}
        }
    }
    if accepts_anything { Ok((Form::Plain, MediaType::Json)) } else { Err(not_acceptable()) }
}

/// The client accepts no form that is served.
pub fn not_acceptable() -> Box<Status> {
    Status::of_router(
        Reason::NotAcceptable,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf, application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch",
    )
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
    use berth_schema::resource::{CUSTOM_RESOURCE_DEFINITIONS, PODS};

    use super::*;

    #[test]
    fn the_first_served_form_is_chosen() {
        use MediaType::{Json, Protobuf, Yaml};
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        for (accept, wanted) in [
            ("", Some((Form::Plain, Json))),
            (table, Some((Form::Table, Json))),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Some((Form::PartialMetadataList, Json)),
            ),
            ("application/vnd.kubernetes.protobuf, application/json", Some((Form::Plain, Protobuf))),
            (
                "application/vnd.kubernetes.protobuf;as=Table, application/json;as=Table",
                Some((Form::Table, Json)),
            ),
            ("text/html, application/yaml", Some((Form::Plain, Yaml))),
            ("text/html, */*;q=0.5", Some((Form::Plain, Json))),
            ("text/html", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(choose(&headers, &PODS).ok(), wanted, "{accept}");
        }
        let accept = "application/vnd.kubernetes.protobuf,application/json".parse().unwrap();
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept)]);
        assert_eq!(choose(&headers, &CUSTOM_RESOURCE_DEFINITIONS).ok(), Some((Form::Plain, Json)));
    }
}
