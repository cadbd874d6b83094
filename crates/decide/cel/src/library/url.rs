//! Functions of URLs.

use std::collections::BTreeMap;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::opaque::url::{Url, check_escapes};
use crate::value::{Key, Map, Value};

pub(crate) const ROWS: &[Row] = &[
    ("url", "s:U", Cost::Text(0), url),
    ("isURL", "s:b", Cost::One, |args, _| Ok(Value::Bool(parse(args)?.is_ok()))),
    ("getScheme", "U.:s", Cost::One, |args, _| part(args, |url| url.scheme.clone())),
    ("getHost", "U.:s", Cost::One, |args, _| part(args, |url| url.host.clone())),
    ("getHostname", "U.:s", Cost::One, |args, _| part(args, |url| url.host_and_port().0.to_owned())),
    ("getPort", "U.:s", Cost::One, |args, _| part(args, |url| url.host_and_port().1.to_owned())),
    ("getEscapedPath", "U.:s", Cost::One, escaped_path),
    ("getQuery", "U.:{s[s]}", Cost::One, query),
];

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

fn parse(arguments: &[Value]) -> Result<Result<Url, String>, Failure> {
    match arguments {
        [Value::String(text)] => Ok(Url::parse(text)),
        _ => Err("no such overload".into()),
    }
}

fn url(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Url(Arc::new(parse(arguments)??)))
}

fn part(arguments: &[Value], part: impl Fn(&Url) -> String) -> Outcome {
    match arguments {
        [Value::Url(url)] => Ok(Value::string(part(url))),
        _ => Err("no such overload".into()),
    }
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
