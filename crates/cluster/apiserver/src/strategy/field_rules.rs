//! Rules of fields as tables, applied in the order of the table, as kube-apiserver does.

use std::net::IpAddr;

use berth_api::syntax;
use serde_json::{Map, Value};

use super::fields::{Causes, is_empty, quantity, text, validate_label_selector};

/// Fields of an object with their rules. The rules of the field `""` see the object itself.
pub type Fields = &'static [(&'static str, &'static [Rule])];

#[derive(Clone, Copy)]
pub enum Rule {
    /// Neither absent nor empty; with a detail.
    Required(&'static str),
    /// Not absent; it may be empty.
    Present,
    /// One of these texts, if it is set.
    OneOf(&'static [&'static str]),
    /// One of these texts; an absent one is empty.
    Enum(&'static [&'static str]),
    /// A number between two, if it is set; with what is said of others.
    Number(i64, i64, &'static str),
    /// A quantity that is not negative.
    NotNegative,
    /// A text, which may be empty or absent.
    Text(fn(&str) -> Vec<String>),
    /// A text that is neither absent nor empty.
    Name(fn(&str) -> Vec<String>),
    /// A text that is not absent.
    Given(fn(&str) -> Vec<String>),
    /// An object, if it is set.
    Fields(Fields),
    /// An object; an absent one is empty.
    Part(Fields),
    /// Each item of a list.
    Each(&'static [Rule]),
    Check(fn(&Value, &str, &mut Causes)),
}

use Rule::{Each, Name, Number, Required};

pub const REQUIRED: Rule = Required("");
/// A user or a group.
pub const ID: Rule = Number(0, i32::MAX as i64, "must be between 0 and 2147483647, inclusive");
pub const NOT_NEGATIVE: Rule = Number(0, i64::MAX, "must be greater than or equal to 0");
pub const LABEL_SELECTOR: Rule =
    Rule::Check(|selector, path, causes| validate_label_selector(path, selector, causes));
/// Permissions of files.
pub const MODE: Rule = Number(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive");

pub fn apply(object: &Value, path: &str, fields: Fields, causes: &mut Causes) {
    for (field, rules) in fields {
        let (value, path) = match *field {
            "" => (object, path.to_owned()),
            field => (&object[field], format!("{path}.{field}")),
        };
        check(value, &path, rules, causes);
    }
}

/// Applies the rules of one field.
pub fn check(value: &Value, path: &str, rules: &[Rule], causes: &mut Causes) {
    for rule in rules {
        match rule {
            Required(detail) if is_empty(value) => causes.required(path, detail),
            Rule::Present if value.is_null() => causes.required(path, ""),
            Rule::OneOf(all) if !value.is_null() => causes.one_of(path, value, all),
            Rule::Enum(all) => causes.one_of(path, value, all),
            Number(least, most, why) if value.as_i64().is_some_and(|n| !(*least..=*most).contains(&n)) => {
                causes.invalid(path, value, why);
            }
            Rule::NotNegative if quantity(value).is_some_and(|amount| amount.is_negative()) => {
                causes.invalid(path, value, "must be greater than or equal to 0");
            }
            Rule::Text(problems) => {
                let given = value.as_str().unwrap_or_default();
                causes.problems(path, &given.into(), problems(given));
            }
            Name(problems) if !is_empty(value) => causes.problems(path, value, problems(text(value, ""))),
            Rule::Given(problems) if !value.is_null() => {
                causes.problems(path, value, problems(text(value, "")));
            }
            Rule::Fields(fields) if value.is_object() => apply(value, path, fields, causes),
            Rule::Part(fields) => apply(value, path, fields, causes),
            Each(rules) => {
                let empty = Value::Object(Map::new());
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    let item = if item.is_null() { &empty } else { item };
                    check(item, &format!("{path}[{i}]"), rules, causes);
                }
            }
            Rule::Check(function) if !value.is_null() => function(value, path, causes),
            _ => {}
        }
    }
}

/// A member of which one is set: its field, its name in paths, and its rules.
pub type Member = (&'static str, &'static str, Fields);

/// Of several members, the first that is set counts, and there are no others.
pub fn one_member(value: &Value, path: &str, members: &[Member], what: &str, causes: &mut Causes) {
    let mut set = members.iter().filter(|(field, ..)| !value[field].is_null());
    match set.next() {
        Some((field, name, rules)) => apply(&value[field], &format!("{path}.{name}"), rules, causes),
        None => causes.required(path, &format!("must specify a {what}")),
    }
    for (field, ..) in set {
        causes.forbidden(&format!("{path}.{field}"), &format!("may not specify more than 1 {what}"));
    }
}

/// A path that stays in its directory.
pub fn no_backsteps(path: &str) -> Vec<String> {
    let is_wrong = path.split('/').any(|part| part == "..");
    is_wrong.then(|| "must not contain '..'".to_owned()).into_iter().collect()
}

pub fn relative_path(path: &str) -> Vec<String> {
    let absolute = path.starts_with('/').then(|| "must be a relative path".to_owned());
    absolute.into_iter().chain(no_backsteps(path)).collect()
}

/// A relative path that is no name that kubelets use themselves.
pub fn file_path(path: &str) -> Vec<String> {
    let mut problems = relative_path(path);
    if path.starts_with("..") && !path.starts_with("../") {
        problems.push("must not start with '..'".to_owned());
    }
    problems
}

pub fn absolute_path(path: &str) -> Vec<String> {
    let is_wrong = !path.starts_with('/');
    is_wrong.then(|| "must be an absolute path".to_owned()).into_iter().collect()
}

pub fn ip_address(address: &str) -> Vec<String> {
    let why = match address.parse() {
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return Vec::new(),
    };
    vec![why.to_owned()]
}

/// A range of addresses: one of them, and how many of its bits are those of all.
#[derive(Clone, Copy)]
pub struct AddressRange {
    pub address: IpAddr,
    n_bits: u8,
}

impl AddressRange {
    pub fn parse(text: &str) -> Option<AddressRange> {
        let (address, n_bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let is_number = n_bits.bytes().all(|b| b.is_ascii_digit());
        let n_bits = n_bits.parse().ok().filter(|_| is_number)?;
        (n_bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(AddressRange { address, n_bits })
    }

    /// The first bits of an address, and those that follow.
    fn split(self, n_bits: u8) -> (u128, u128) {
        let (bits, width) = match self.address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let first = bits.checked_shr(u32::from(width - n_bits)).unwrap_or(0);
        (first, bits ^ first.checked_shl(u32::from(width - n_bits)).unwrap_or(0))
    }

    pub fn is_within(self, other: AddressRange) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.n_bits > other.n_bits
            && self.split(other.n_bits).0 == other.split(other.n_bits).0
    }
}

pub fn address_range(text: &str) -> Vec<String> {
    let why = match AddressRange::parse(text) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(range) if range.split(range.n_bits).1 != 0 => "must not have bits set beyond the prefix length",
        Some(_) => return Vec::new(),
    };
    vec![why.to_owned()]
}

/// The key of an entry of a ConfigMap or Secret.
pub fn config_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        let why = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                   'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        problems.push(why.to_owned());
    }
    match key {
        "." => problems.push("must not be '.'".to_owned()),
        ".." => problems.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

pub fn variable_name(name: &str) -> Vec<String> {
    let why =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let is_wrong = name.bytes().any(|b| !(b' '..=b'~').contains(&b) || b == b'=');
    is_wrong.then(|| why.to_owned()).into_iter().collect()
}

/// A port by number or name.
pub fn port(value: &Value, path: &str, causes: &mut Causes) {
    let problems = match value.as_str() {
        Some(name) => syntax::port_name(name),
        None => syntax::port_number(value.as_i64().and_then(|port| port.try_into().ok()).unwrap_or(0)),
    };
    causes.problems(path, value, problems);
}
