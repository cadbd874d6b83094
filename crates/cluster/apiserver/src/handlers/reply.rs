//! A response before its conversion to HTTP.

use std::collections::HashSet;

use berth_schema::protobuf;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::body::Body;
use crate::request::{MediaType, Status};

pub struct Reply {
    pub code: StatusCode,
    pub body: Body,
    pub content_type: &'static str,
    pub warnings: Vec<String>,
    /// `Retry-After` in seconds; 0 omits it.
    pub retry_after: u32,
}

/// Warnings may have this many characters together, as in kube-apiserver. If they have more, each is cut, and those
/// beyond the limit are not sent.
const MAX_WARNING_CHARS: usize = 4096;
/// Characters of a cut warning.
const CUT_WARNING_CHARS: usize = 256;

impl Reply {
    pub fn json(code: StatusCode, body: Body) -> Reply {
        Reply {
            code,
            body,
            content_type: MediaType::Json.content_type(),
            warnings: Vec::new(),
            retry_after: 0,
        }
    }

    pub fn object(code: StatusCode, bytes: Bytes) -> Reply {
        Reply::json(code, Body::Full(bytes))
    }

    pub fn value(code: StatusCode, value: &Value) -> Reply {
        Reply::object(code, Bytes::from(value.to_string()))
    }

    pub fn text(code: StatusCode, text: String) -> Reply {
        Reply { content_type: "text/plain; charset=utf-8", ..Reply::object(code, Bytes::from(text)) }
    }

    pub fn with_warnings(mut self, warnings: Vec<String>) -> Reply {
        self.warnings = warnings;
        self
    }

    /// The reply with a whole JSON body in another media type, unless the object has no such form.
    pub fn in_media_type(mut self, media_type: MediaType) -> Reply {
        let Body::Full(json) = &self.body else { return self };
        if self.content_type != MediaType::Json.content_type() {
            return self;
        }
        let encoded = match media_type {
            MediaType::Json => None,
            MediaType::Yaml => yaml(json),
            MediaType::Protobuf => protobuf::encode(json),
        };
        if let Some(encoded) = encoded {
            self.body = Body::Full(encoded.into());
            self.content_type = media_type.content_type();
        }
        self
    }

    /// As HTTP; a long body is compressed if the client accepts it.
    pub fn into_response(self, accepts_gzip: bool) -> Response<Body> {
        let (body, is_compressed) = if accepts_gzip { self.body.compressed() } else { (self.body, false) };
        let mut response = Response::new(body);
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        if is_compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for warning in bounded(&self.warnings) {
            if let Ok(value) = HeaderValue::from_str(&warning_header(&warning)) {
                headers.append(header::WARNING, value);
            }
        }
        if self.retry_after > 0 {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after));
        }
        response
    }
}

impl From<Box<Status>> for Reply {
    fn from(status: Box<Status>) -> Self {
        let mut reply = Reply::value(status.code, &status.to_value());
        reply.retry_after = status.details.retry_after_seconds;
        reply.warnings = status.warnings;
        reply
    }
}

/// A JSON text as YAML.
pub fn yaml(json: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(json).ok()?;
    // As kube-apiserver writes them.
    value.sort_all_objects();
    serde_saphyr::to_string(&value).ok().map(String::into_bytes)
}

/// The warnings that are sent, each once.
fn bounded(warnings: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let warnings: Vec<&String> = warnings.iter().filter(|warning| seen.insert(*warning)).collect();
    let total: usize = warnings.iter().map(|warning| warning.len()).sum();
    let longest = if total > MAX_WARNING_CHARS { CUT_WARNING_CHARS } else { usize::MAX };
    let mut left = MAX_WARNING_CHARS;
    let cut = warnings.into_iter().map(|warning| warning.chars().take(longest).collect::<String>());
    cut.take_while(|warning| {
        let fits = warning.len() <= left;
        left = left.saturating_sub(warning.len());
        fits
    })
    .collect()
}

/// The header's form: a code, no agent, quoted text without control characters.
fn warning_header(text: &str) -> String {
    let mut header = String::from("299 - \"");
    for c in text.chars() {
        match c {
            '"' | '\\' => header.extend(['\\', c]),
            c if c.is_ascii_graphic() || c == ' ' => header.push(c),
            c if c.is_control() => header.push(' '),
            _ => header.push('?'),
        }
    }
    header.push('"');
    header
}
