//! The request of a page, and the response.

use std::borrow::Cow;

/// A request for a page. Who may send it is checked before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The path, such as `/pods/default/web-0`.
    pub path: &'a str,
    /// The query after `?`.
    pub query: &'a str,
    /// The fields of a form (`application/x-www-form-urlencoded`); none for `GET`.
    pub form: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// The segments of the path, decoded.
    pub fn segments(&self) -> Vec<Cow<'a, str>> {
        let path = self.path.trim_matches('/');
        let decoded = |segment: &'a str| percent_encoding::percent_decode_str(segment).decode_utf8_lossy();
        if path.is_empty() { Vec::new() } else { path.split('/').map(decoded).collect() }
    }

    /// The parameters of the query, then those of the form.
    pub fn parameters(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> {
        let pairs = |text: &'a str| form_urlencoded::parse(text.as_bytes());
        pairs(self.query).chain(pairs(self.form.unwrap_or_default()))
    }

    /// The last value of a parameter that is not empty.
    pub fn parameter(&self, name: &str) -> Option<Cow<'a, str>> {
        self.parameters()
            .filter(|(key, value)| key == name && !value.is_empty())
            .last()
            .map(|(_, value)| value)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: String,
}

impl Response {
    pub fn html(status: u16, body: String) -> Response {
        Response { status, content_type: "text/html; charset=utf-8", body }
    }
}
