//! The words of a line.

use berth_api::object::StringMap;
use berth_api::syntax::quantity::Quantity;

pub fn bad(line: &str, problem: &str) -> ! {
    panic!("line {line:?} {problem}")
}

/// The words of a line after the kind, split at spaces that are not in parentheses.
pub fn name_and_words(line: &str) -> (String, Vec<String>) {
    let mut words: Vec<String> = vec![String::new()];
    let mut depth = 0;
    for c in line.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match words.last_mut() {
            Some(word) if depth > 0 || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    let mut words = words.into_iter().filter(|w| !w.is_empty()).skip(1);
    let name = words.next().unwrap_or_else(|| bad(line, "has no name"));
    (name, words.collect())
}

pub fn named_pairs(line: &str) -> (String, StringMap) {
    let (name, words) = name_and_words(line);
    (name, words.iter().map(|word| pair(line, word)).collect())
}

pub fn pair(line: &str, word: &str) -> (String, String) {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => (key.to_owned(), value.to_owned()),
        _ => bad(line, &format!("has {word:?}, which is not key=value")),
    }
}

pub fn key(line: &str, name: &str) -> (String, String) {
    match name.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => bad(line, "has a name without namespace"),
    }
}

pub fn quantity(line: &str, text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|e| bad(line, &e.to_string()))
}
