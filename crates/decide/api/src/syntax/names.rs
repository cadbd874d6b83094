//! The syntax of names, labels and ports, with the messages of the API server.
//!
//! Each function returns the problems of a text; none for a valid text.

const LABEL_KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
     validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Names of objects and ports have a length in characters, those of labels in bytes, as the two libraries of Kubernetes say it. Only
/// ASCII is valid in either.
fn too_long(max: usize, unit: &str) -> String {
    format!("must be no more than {max} {unit}")
}

/// A label key (qualified name): an optional DNS subdomain and `/`, then a name.
pub fn label_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {LABEL_KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            problems.extend(subdomain(prefix, "bytes").into_iter().map(|p| format!("prefix part {p}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !is_label_name(name) {
        problems.push(format!("name part {LABEL_KEY}"));
    }
    problems
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(too_long(63, "bytes"));
    }
    if !value.is_empty() && !is_label_name(value) {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

/// A DNS label: the name of a namespace or a container.
pub fn dns_label(name: &str) -> Vec<String> {
    label(name, "characters")
}

/// A DNS label, as the newer library says it: the name of a template of a group.
pub fn short_name(name: &str) -> Vec<String> {
    label(name, "bytes")
}

fn label(name: &str, unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63, unit));
    }
    if !is_dns_label(name) {
        let problem = if is_dns_subdomain(name) { "must not contain dots" } else { DNS_LABEL };
        problems.push(problem.to_owned());
    }
    problems
}

/// A DNS label that begins with a letter: the names of a custom resource.
pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63, "characters"));
    }
    if !is_dns_label(name) || name.starts_with(|c: char| c.is_ascii_digit()) {
        problems.push(DNS_1035_LABEL.to_owned());
    }
    problems
}

/// A DNS subdomain: the name of most objects.
pub fn dns_subdomain(name: &str) -> Vec<String> {
    subdomain(name, "characters")
}

/// A DNS subdomain, as rules that types declare say it.
pub fn declared_subdomain(name: &str) -> Vec<String> {
    subdomain(name, "bytes")
}

fn subdomain(name: &str, unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253, unit));
    }
    if !is_dns_subdomain(name) {
        problems.push(DNS_SUBDOMAIN.to_owned());
    }
    problems
}

/// The name of a container port.
pub fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push(too_long(15, "characters"));
    }
    let mut problem = |when: bool, text: &str| {
        if when {
            problems.push(text.to_owned());
        }
    };
    let charset = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    problem(
        name.is_empty() || !name.bytes().all(charset),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    problem(!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    problem(name.contains("--"), "must not contain consecutive hyphens");
    problem(name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen");
    problems
}

pub fn port_number(port: i32) -> Vec<String> {
    if (1..=65535).contains(&port) {
        vec![]
    } else {
        vec!["must be between 1 and 65535, inclusive".to_owned()]
    }
}

fn is_label_name(name: &str) -> bool {
    begins_and_ends(name, |b| b.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    begins_and_ends(name, alphanumeric) && name.bytes().all(|b| alphanumeric(b) || b == b'-')
}

fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn begins_and_ends(name: &str, accepts: impl Fn(u8) -> bool) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|b| accepts(*b)) && bytes.last().is_some_and(|b| accepts(*b))
}

/// The problems of a name that is one segment of a path.
pub fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let wrong = ['/', '%'].into_iter().filter(|c| name.contains(*c));
    wrong.map(|c| format!("may not contain '{c}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys() {
        let long = "a".repeat(64);
        let long_prefix = format!("{}/a", "a".repeat(254));
        for (key, starts) in [
            ("a", &[][..]),
            ("example.com/My_Name.1", &[]),
            ("", &["name part must be non-empty", "name part must consist"]),
            ("a b", &["name part must consist"]),
            ("-a", &["name part must consist"]),
            ("/a", &["prefix part must be non-empty"]),
            ("a/", &["name part must be non-empty", "name part must consist"]),
            (
                "/",
                &["prefix part must be non-empty", "name part must be non-empty", "name part must consist"],
            ),
            ("Example/a", &["prefix part a lowercase RFC 1123 subdomain"]),
            ("a/b/c", &["a valid label key must consist"]),
            (&long, &["name part must be no more than 63 bytes"]),
            (&long_prefix, &["prefix part must be no more than 253 bytes"]),
            ("größe", &["name part must consist"]),
        ] {
            let problems = label_key(key);
            assert_eq!(problems.len(), starts.len(), "{key}: {problems:?}");
            assert!(problems.iter().zip(starts).all(|(p, s)| p.starts_with(s)), "{key}: {problems:?}");
        }
    }

    #[test]
    fn names() {
        assert!(label_value("").is_empty());
        assert_eq!(label_value(&"-".repeat(64)).len(), 2);
        assert!(dns_label("0-a").is_empty());
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert!(dns_label("")[0].starts_with("a lowercase RFC 1123 label"));
        assert!(dns_subdomain("a.b-c.d").is_empty());
        assert!(dns_subdomain("a..b")[0].starts_with("a lowercase RFC 1123 subdomain"));
        assert!(port_name("http-2").is_empty());
        assert_eq!(port_name("-1--").len(), 3);
        assert_eq!(port_number(65536), ["must be between 1 and 65535, inclusive"]);
    }
}
