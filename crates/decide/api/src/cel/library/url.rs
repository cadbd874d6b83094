//! URLs: absolute URIs and absolute paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::super::budget::Budget;
use super::super::declare::{Cost, Failure, Outcome, Row};
use super::super::value::{Key, Map, Value};

pub(in super::super) const ROWS: &[Row] = &[
    ("url", "s:U", Cost::Text(0), url),
    ("isURL", "s:b", Cost::One, is_url),
    ("getScheme", "U.:s", Cost::One, scheme),
    ("getHost", "U.:s", Cost::One, host),
    ("getHostname", "U.:s", Cost::One, hostname),
    ("getPort", "U.:s", Cost::One, port),
    ("getEscapedPath", "U.:s", Cost::One, escaped_path),
    ("getQuery", "U.:{s[s]}", Cost::One, query),
];

/// A URL in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    user: String,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

/// Characters of a path that stay as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@')
    .remove(b'!')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'%');

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// The reason, as the reference words it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let problem =
            |reason: &str| format!("URL parse error during conversion from string: parse {text:?}: {reason}");
        if text.is_empty() {
            return Err(problem("empty url"));
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(problem("net/url: invalid control character in URL"));
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = match rest.split_once(':') {
            Some(("", _)) => return Err(problem("missing protocol scheme")),
            Some((scheme, after)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), after),
            _ => (String::new(), rest),
        };
        if !rest.starts_with('/') && scheme.is_empty() {
            return Err(problem("invalid URI for request"));
        }
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                rest.split_at(rest.find('/').unwrap_or(rest.len()))
            }
            _ => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        check_host(host).map_err(|reason| problem(&reason))?;
        check_escapes(path).map_err(|reason| problem(&reason))?;
        let owned = str::to_owned;
        Ok(Url {
            scheme,
            user: owned(user),
            host: owned(host),
            path: owned(path),
            query: owned(query),
            fragment: owned(fragment),
        })
    }

    /// The host, and the port without its colon.
    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (&*self.host, ""),
        };
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (inner.unwrap_or(host), port)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if let Some(address) = host.strip_prefix('[') {
        let Some((_, port)) = address.rsplit_once(']') else { return Err("missing ']' in host".to_owned()) };
        port
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let digits = port.strip_prefix(':').unwrap_or("");
    if !port.is_empty() && (!port.starts_with(':') || !digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!("invalid port {port:?} after host"));
    }
    if host.contains(' ') {
        return Err("invalid character \" \" in host name".to_owned());
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for part in text.split('%').skip(1) {
        let is_valid = part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
        if !is_valid {
            let escape: String = part.chars().take(2).collect();
            return Err(format!("invalid URL escape \"%{escape}\""));
        }
    }
    Ok(())
}

fn parse(arguments: &[Value]) -> Result<Result<Url, String>, Failure> {
    match arguments {
        [Value::String(text)] => Ok(Url::parse(text)),
        _ => Err("no such overload".into()),
    }
}

fn url(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Url(Arc::new(parse(arguments)??)))
}

fn is_url(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Bool(parse(arguments)?.is_ok()))
}

fn part(arguments: &[Value], part: impl Fn(&Url) -> String) -> Outcome {
    match arguments {
        [Value::Url(url)] => Ok(Value::string(part(url))),
        _ => Err("no such overload".into()),
    }
}

fn scheme(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |url| url.scheme.clone())
}

fn host(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |url| url.host.clone())
}

fn hostname(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |url| url.host_and_port().0.to_owned())
}

fn port(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |url| url.host_and_port().1.to_owned())
}

fn escaped_path(arguments: &[Value], budget: &mut Budget) -> Outcome {
    if let [Value::Url(url)] = arguments {
        budget.make(url.path.len().saturating_mul(3))?;
    }
    part(arguments, |url| utf8_percent_encode(&url.path, PATH).to_string())
}

fn query(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::Url(url)] = arguments else { return Err("no such overload".into()) };
    budget.make(url.query.len())?;
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().ok().map(|text| text.into_owned())
    };
    let mut values = BTreeMap::<String, Vec<String>>::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if check_escapes(pair).is_err() {
            continue;
        }
        if let (Some(name), Some(value)) = (decoded(name), decoded(value)) {
            values.entry(name).or_default().push(value);
        }
    }
    let entries = values.into_iter().map(|(name, values)| (Key::String(name.into()), Value::strings(values)));
    Ok(Value::Map(Arc::new(Map { entries: entries.collect(), has_default: false })))
}
