//! Reading objects from YAML and JSON, as `kubectl` prints them and as users write them.
//!
//! [`read_manifests`] passes on one object at a time, so it never holds a whole dump; the inventory of an input collects the kinds
//! that Berth works with as typed objects. Lists are flattened. Only the namespace is defaulted, and only types are
//! validated.
//!
//! YAML scalars have the meaning that `kubectl` gives them (YAML 1.1: `yes` is a boolean, `0644` is octal).

mod decode;
mod device;
pub mod document;
mod error;
pub mod fields;
mod integer_bounds;
mod items;
mod json;
pub mod json_text;
mod kind;
mod limits;
mod lines;
mod location;
pub mod manifest;
mod scalar;
mod value;
mod volume;
pub mod yaml;

pub use decode::explained;
pub use decode::{DecodeError, decode, decode_at};
pub use error::ReadError;
pub use integer_bounds::{pod_spec_pointer, pod_template_pointer, quote_integer_bounds};
pub use kind::Kind;
pub use limits::{MAX_DEPTH, MAX_EMPTY_DOCUMENTS, MAX_OBJECT_BYTES, MAX_YAML_BYTES};
pub use lines::FieldLines;
pub use location::SourceLocation;
pub use manifest::Manifest;
pub use value::from_json;
pub use value::{JsonError, ValueError, from_value, from_value_strictly};

use std::borrow::Cow;
use std::io::Read;

use document::{Each, Object};

/// Number of bytes that are read to distinguish JSON, YAML and binary data.
const HEAD_BYTES: u64 = 4096;

/// Reads every object of a text and passes it to `each`, in order.
///
/// `file` is the name in messages and [`SourceLocation`]s. JSON (one object, several, or one per line) is recognized by
/// its first characters and read as a stream that holds one object of a list at a time. YAML may have any number of
/// documents; its text is held, with one object at a time. Empty documents are skipped.
///
/// # Errors
/// The text is malformed, or `each` returned an error.
pub fn read_manifests<E: From<ReadError>>(
    input: impl Read,
    file: &str,
    each: &mut dyn FnMut(Manifest) -> Result<(), E>,
) -> Result<(), E> {
    read_manifests_within(input, file, yaml::MAX_ALIASED_BYTES, each)
}

fn read_manifests_within<E: From<ReadError>>(
    input: impl Read,
    file: &str,
    max_aliased_bytes: usize,
    each: &mut dyn FnMut(Manifest) -> Result<(), E>,
) -> Result<(), E> {
    read_objects(input, file, max_aliased_bytes, false, &mut |object| match object {
        Object::Manifest(manifest) => each(manifest),
        Object::Pod(..) | Object::Deleted(_) => Ok(()),
    })
}

/// Reads every object of a text. With `decodes_pods`, pods may come without their manifests.
pub fn read_objects<E: From<ReadError>>(
    mut input: impl Read,
    file: &str,
    max_aliased_bytes: usize,
    decodes_pods: bool,
    each: Each<'_, E>,
) -> Result<(), E> {
    let io_error =
        |error: std::io::Error| ReadError::Io { file: file.to_owned(), message: error.to_string() };
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(io_error)?;
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Err(ReadError::Utf16 { file: file.to_owned() }.into());
    }
    if head.contains(&0) {
        return Err(ReadError::Binary { file: file.to_owned() }.into());
    }
    let text_start = if head.starts_with("\u{feff}".as_bytes()) { 3 } else { 0 };
    if looks_like_json(&head[text_start..]) {
        return json::read(head[text_start..].chain(input), file, decodes_pods, each);
    }
    let mut bytes = head.split_off(text_start);
    read_lines(&mut input, &mut bytes, file)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        ReadError::NotUtf8 { file: file.to_owned(), line }
    })?;
    if let Some(found) = kubectl_text(&text) {
        return Err(ReadError::KubectlText { file: file.to_owned(), found }.into());
    }
    yaml::read(&without_logs(&text), file, max_aliased_bytes, each)
}

/// The first words of the lines before and after a log of a container, which `kubectl cluster-info dump` writes between documents.
const LOG: [&str; 2] = ["==== START logs for container ", "==== END logs for container "];

/// Empty lines in place of logs.
fn without_logs(text: &str) -> Cow<'_, str> {
    if !text.contains(LOG[0]) {
        return text.into();
    }
    let mut is_log = false;
    let lines = text.split_inclusive('\n').map(|line| {
        is_log |= line.starts_with(LOG[0]);
        let shown = if is_log { "\n" } else { line };
        is_log &= !line.contains(LOG[1]);
        shown
    });
    lines.collect::<String>().into()
}

/// What kubectl prints for people.
fn kubectl_text(text: &str) -> Option<&'static str> {
    let mut lines = text.lines();
    let (first, second) = (lines.next()?.trim_end(), lines.next().unwrap_or_default());
    let is_heading =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase() || b"-_()".contains(&byte));
    let is_name =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    match first.split_whitespace().next()? {
        "NAME" | "NAMESPACE" if first.split_whitespace().all(is_heading) => Some("a table"),
        "Name:" if ["Namespace:", "Roles:", "Labels:"].iter().any(|field| second.starts_with(field)) => {
            Some("a description")
        }
        _ if first.split_once('/').is_some_and(|(kind, name)| is_name(kind) && is_name(name)) => {
            Some("names")
        }
        _ => None,
    }
}

/// Reads a text to its end, unless a line has no end.
fn read_lines(input: &mut impl Read, bytes: &mut Vec<u8>, file: &str) -> Result<(), ReadError> {
    loop {
        let from = bytes.len();
        let n = input.by_ref().take(MAX_OBJECT_BYTES as u64).read_to_end(bytes);
        match n.map_err(|error| ReadError::Io { file: file.to_owned(), message: error.to_string() })? {
            0 => return Ok(()),
            MAX_OBJECT_BYTES if !bytes[from..].contains(&b'\n') => {
                return Err(ReadError::LongLine { file: file.to_owned() });
            }
            _ if bytes.len() > MAX_YAML_BYTES => return Err(ReadError::LargeYaml { file: file.to_owned() }),
            _ => {}
        }
    }
}

/// Collects the objects of a small text.
///
/// # Errors
/// The text is malformed.
pub fn collect_manifests(text: &str, file: &str) -> Result<Vec<Manifest>, ReadError> {
    collect_manifests_within(text, file, yaml::MAX_ALIASED_BYTES)
}

/// The same with a limit of the bytes that YAML aliases repeat, for texts of other users.
///
/// # Errors
/// The text is malformed, or its aliases repeat more.
pub fn collect_manifests_within(
    text: &str,
    file: &str,
    max_aliased_bytes: usize,
) -> Result<Vec<Manifest>, ReadError> {
    let mut manifests = Vec::new();
    read_manifests_within::<ReadError>(text.as_bytes(), file, max_aliased_bytes, &mut |manifest| {
        manifests.push(manifest);
        Ok(())
    })?;
    Ok(manifests)
}

/// JSON starts with `[`, `{"` or `{}`; a `{` followed by anything else is YAML's flow style.
fn looks_like_json(head: &[u8]) -> bool {
    let mut visible = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    match visible.next() {
        Some(b'[') => true,
        Some(b'{') => matches!(visible.next(), Some(b'"' | b'}') | None),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
