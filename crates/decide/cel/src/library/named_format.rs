//! Named formats of strings, such as labels of DNS.

use std::sync::Arc;

use super::time::parse_timestamp;
use crate::budget::Budget;
use crate::function::{Cost, Outcome, Row};
use crate::opaque::url::Url;
use crate::value::Value;
use berth_api::syntax::{dns_label, dns_subdomain, label_key, label_value};

pub(crate) const ROWS: &[Row] = &[
    ("format.named", "s:?F", Cost::One, named),
    ("validate", "F.s:?[s]", Cost::Text(1), validate),
    ("format.dns1123Label", ":F", Cost::One, |_, _| format("dns1123Label")),
    ("format.dns1123Subdomain", ":F", Cost::One, |_, _| format("dns1123Subdomain")),
    ("format.dns1035Label", ":F", Cost::One, |_, _| format("dns1035Label")),
    ("format.qualifiedName", ":F", Cost::One, |_, _| format("qualifiedName")),
    ("format.dns1123LabelPrefix", ":F", Cost::One, |_, _| format("dns1123LabelPrefix")),
    ("format.dns1123SubdomainPrefix", ":F", Cost::One, |_, _| format("dns1123SubdomainPrefix")),
    ("format.dns1035LabelPrefix", ":F", Cost::One, |_, _| format("dns1035LabelPrefix")),
    ("format.labelValue", ":F", Cost::One, |_, _| format("labelValue")),
    ("format.uri", ":F", Cost::One, |_, _| format("uri")),
    ("format.uuid", ":F", Cost::One, |_, _| format("uuid")),
    ("format.byte", ":F", Cost::One, |_, _| format("byte")),
    ("format.date", ":F", Cost::One, |_, _| format("date")),
    ("format.datetime", ":F", Cost::One, |_, _| format("datetime")),
];

fn format(name: &'static str) -> Outcome {
    Ok(Value::NamedFormat(name))
}

fn named(arguments: &[Value], _: &mut Budget) -> Outcome {
    let [Value::String(wanted)] = arguments else { return Err("no such overload".into()) };
    let names = ROWS
        .iter()
        .filter_map(|(name, signature, ..)| name.strip_prefix("format.").filter(|_| *signature == ":F"));
    let found = names.into_iter().find(|name| *name == &**wanted);
    Ok(Value::Optional(found.map(|name| Arc::new(Value::NamedFormat(name)))))
}

/// The problems of a text; none if it has the format.
fn validate(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::NamedFormat(name), Value::String(text)] = arguments else {
        return Err("no such overload".into());
    };
    budget.make(text.len())?;
    let problems = problems(name, text);
    Ok(Value::Optional((!problems.is_empty()).then(|| Arc::new(Value::strings(problems)))))
}

fn problems(name: &str, text: &str) -> Vec<String> {
    let only_if = |is_valid: bool, problem: &str| {
        if is_valid { Vec::new() } else { vec![problem.to_owned()] }
    };
    match name {
        "dns1123Label" => dns_label(text),
        "dns1123LabelPrefix" => dns_label(&prefix(text)),
        "dns1123Subdomain" => dns_subdomain(text),
        "dns1123SubdomainPrefix" => dns_subdomain(&prefix(text)),
        "dns1035Label" => dns1035_label(text),
        "dns1035LabelPrefix" => dns1035_label(&prefix(text)),
        "qualifiedName" => label_key(text),
        "labelValue" => label_value(text),
        "uri" => Url::parse(text).err().into_iter().collect(),
        "uuid" => only_if(is_uuid(text), "does not match the UUID format"),
        "byte" => only_if(is_base64(text), "invalid base64"),
        "date" => only_if(text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(), "invalid date"),
        _ => only_if(parse_timestamp(text).is_some(), "invalid datetime"),
    }
}

/// A prefix of a name may end with a dash.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(start) if !start.is_empty() => format!("{start}a"),
        _ => text.to_owned(),
    }
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(is_inner)
        && !text.ends_with('-');
    if !is_label {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

fn is_uuid(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-');
    let dashes_fit =
        text.len() == 32 || text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-');
    dashes_fit && digits.clone().count() == 32 && digits.into_iter().all(|byte| byte.is_ascii_hexdigit())
}

fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}
