//! Paths and queries: percent encoding, and the options requests carry in the query.

use std::borrow::Cow;
use std::num::{IntErrorKind, ParseIntError};

use percent_encoding::percent_decode_str;

use super::status::{ApiResult, Status};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> ApiResult<Query> {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let malformed = || Status::bad_request(format!("malformed query parameter {key:?}"));
            Ok((decode(key, true).ok_or_else(malformed)?, decode(value, true).ok_or_else(malformed)?))
        };
        text.split('&').filter(|part| !part.is_empty()).map(pair).collect::<Result<_, _>>().map(Query)
    }

    /// The first value of a parameter; empty if it is absent.
    pub fn get(&self, key: &str) -> &str {
        self.0.iter().find(|(k, _)| k == key).map_or("", |(_, value)| value)
    }

    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k == key)
    }

    /// A boolean parameter: true but for `0` and `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key) {
            "" => None,
            text => Some(text != "0" && !text.eq_ignore_ascii_case("false")),
        }
    }

    /// A number; those below 0 count as 0.
    pub fn number(&self, key: &str) -> ApiResult<Option<u64>> {
        match self.get(key) {
            "" => Ok(None),
            text => match text.parse::<i64>() {
                Ok(number) => Ok(Some(u64::try_from(number).unwrap_or(0))),
                Err(error) => Err(Status::bad_request(not_a_number("ParseInt", text, &error))),
            },
        }
    }
}

/// Go's message.
pub fn not_a_number(function: &str, text: &str, error: &ParseIntError) -> String {
    let why = match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    };
    format!("strconv.{function}: parsing {text:?}: {why}")
}

/// Decodes percent escapes, and `+` as a space in queries; `None` if an escape is malformed or the result is no text.
pub fn decode(text: &str, in_query: bool) -> Option<String> {
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let spaced = if in_query { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decode_str(&spaced).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query =
            Query::parse("labelSelector=a+in+%28b%2Cc%29&watch=1&dryRun=All&dryRun=&limit=x").unwrap();
        assert_eq!(query.get("labelSelector"), "a in (b,c)");
        assert_eq!(query.flag("watch"), Some(true));
        assert_eq!(query.flag("absent"), None);
        assert_eq!(query.all("dryRun").count(), 2);
        assert!(query.number("limit").is_err());
        assert_eq!(query.flag("dryRun"), Some(true));
        for bad in ["a=%", "a=%f", "a=%zz", "a=%ff"] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
    }
}
