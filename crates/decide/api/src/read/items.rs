//! Items of a list in JSON, several at once and on several threads.
//!
//! Each further thread begins where an item seems to begin. Its items count only if those before them end exactly there, so
//! that the result is the same as that of parsing from the beginning. What is not an object, is malformed or continues after the text is
//! left to the caller.

use std::{str, thread};

use memchr::{memchr, memmem};
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Value};

use crate::object::Pod;

/// An item of a list.
pub(super) enum Item {
    /// An object of any kind.
    Value(Value),
    /// A pod of `v1`, decoded from its text.
    Pod(Box<Pod>),
}

/// Shorter texts are parsed on one thread.
const MIN_BYTES: usize = 64 << 10;
const MAX_THREADS: usize = 4;

/// Number of threads that parse at once.
pub(super) fn n_threads() -> usize {
    // There are none on WebAssembly, which is an error here.
    thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS))
}

/// The items at the begin of a text, and the number of their bytes. `decodes_pods` tells whether pods may be decoded from their
/// text.
pub(super) fn items(text: &[u8], n_threads: usize, decodes_pods: bool) -> (Vec<Item>, usize) {
    let n_parts = n_threads.min(text.len() / MIN_BYTES).max(1);
    let mut starts = vec![0];
    for part in 1..n_parts {
        let start = likely_item(text, text.len() / n_parts * part);
        starts.extend(start.filter(|start| starts.last() < Some(start)));
    }
    let ends: Vec<usize> = starts[1..].iter().copied().chain([text.len()]).collect();
    thread::scope(|scope| {
        let part = |(start, end): (usize, usize)| Part::parse(&text[start..], end - start, decodes_pods);
        let mut bounds = starts.iter().copied().zip(ends);
        let first = bounds.next();
        let others: Vec<_> = bounds.map(|bounds| (bounds.0, scope.spawn(move || part(bounds)))).collect();
        let Part { mut items, mut n_bytes, mut next } = first.map(part).unwrap_or_default();
        for (start, part) in others {
            let Ok(part) = part.join() else { break };
            if next != Some(start) {
                break;
            }
            items.extend(part.items);
            n_bytes = start + part.n_bytes;
            next = part.next.map(|next| start + next);
        }
        (items, n_bytes)
    })
}

/// Consecutive items.
#[derive(Default)]
struct Part {
    items: Vec<Item>,
    /// Where the last one ends.
    n_bytes: usize,
    /// Where the next one begins.
    next: Option<usize>,
}

impl Part {
    /// Parses the items that begin before `end`.
    fn parse(text: &[u8], end: usize, decodes_pods: bool) -> Part {
        let mut part = Part { next: Some(0), ..Part::default() };
        while let Some(start) = part.next.filter(|start| *start < end)
            && let Some((item, n_bytes)) = item(&text[start..], decodes_pods)
        {
            part.items.push(item);
            part.n_bytes = start + n_bytes;
            let rest = &text[part.n_bytes..];
            let rest = after(rest, &[b","]).filter(|rest| rest.starts_with(b"{"));
            part.next = rest.map(|rest| text.len() - rest.len());
        }
        part
    }
}

/// The item that a text begins with.
fn item(text: &[u8], decodes_pods: bool) -> Option<(Item, usize)> {
    if !text.starts_with(b"{") {
        return None;
    }
    if decodes_pods
        && after(text, &[b"{", br#""apiVersion""#, b":", br#""v1""#, b",", br#""kind""#, b":", br#""Pod""#])
            .is_some()
        && let Some((pod, n_bytes)) = parse(text)
        // The rest of this is checked where it is read.
        && str::from_utf8(&text[..n_bytes]).is_ok()
    {
        return Some((Item::Pod(pod), n_bytes));
    }
    let (value, n_bytes) = parse(text)?;
    Some((Item::Value(value), n_bytes))
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Option<(T, usize)> {
    let mut values = Deserializer::from_slice(text).into_iter();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// What follows these tokens and the white space around them.
fn after<'t>(text: &'t [u8], tokens: &[&[u8]]) -> Option<&'t [u8]> {
    tokens.iter().try_fold(trim(text), |text, token| text.strip_prefix(*token).map(trim))
}

/// Without the white space of JSON at the begin.
fn trim(text: &[u8]) -> &[u8] {
    let n_bytes = text.iter().position(|byte| !b" \t\n\r".contains(byte));
    &text[n_bytes.unwrap_or(text.len())..]
}

/// Where an item seems to begin, at or after a place: an object after a comma that begins with its version and kind.
fn likely_item(text: &[u8], from: usize) -> Option<usize> {
    const FIRST: &[u8] = br#""apiVersion""#;
    memmem::find_iter(&text[from..], FIRST).find_map(|at| {
        let before = text[..from + at].trim_ascii_end().strip_suffix(b"{")?;
        let value = after(&text[from + at..], &[FIRST, b":", b"\""])?;
        let end = memchr(b'"', value)?;
        after(&value[end..], &[b"\"", b",", br#""kind""#])?;
        before.trim_ascii_end().ends_with(b",").then_some(before.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(item: Item) -> String {
        match item {
            Item::Value(value) => value["metadata"]["name"].to_string(),
            Item::Pod(pod) => format!("\"{}\"", pod.metadata.name),
        }
    }

    #[test]
    fn several_threads_find_the_items_that_one_finds() {
        for part in ["", r#"{"a": 1}, {"apiVersion": "v1", "kind": "Pod", "b": ["]", "\\\""]}"#] {
            let item = |i: usize| {
                let kind = if i.is_multiple_of(3) { "Node" } else { "Pod" };
                format!(
                    r#"{{"apiVersion": "v1", "kind": "{kind}", "x": [{part}], "metadata": {{"name": "{i}"}}}}"#
                )
            };
            let texts: Vec<String> = (0..4000).map(item).collect();
            let names: Vec<String> = (0..4000).map(|i| format!("\"{i}\"")).collect();
            let text = texts.join(" ,\n ") + "\n, {\"apiVersion\": ]";
            for (n_threads, decodes_pods) in [(1, false), (2, true), (3, false), (4, true)] {
                let (mut found, mut at, mut n_rounds) = (Vec::new(), 0, 0);
                loop {
                    let (items, n_bytes) = items(&text.as_bytes()[at..], n_threads, decodes_pods);
                    if items.is_empty() {
                        break;
                    }
                    found.extend(items.into_iter().map(name));
                    at += n_bytes;
                    at = text.len() - after(&text.as_bytes()[at..], &[b","]).unwrap_or_default().len();
                    n_rounds += 1;
                }
                assert_eq!(found, names, "{n_threads} {part}");
                // An object in an item can look like one; then the items behind it are parsed again.
                assert!(n_rounds == 1 || !part.is_empty() && n_threads > 1, "{n_threads} {part}");
            }
        }
    }
}
