//! The table of all functions, made of the rows of the libraries.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::function::{Cost, Function, Overload};
use crate::library;
use crate::types::Type;

/// The overloads of a function; none if there is no such function.
pub(crate) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static FUNCTIONS: LazyLock<HashMap<&str, Vec<Overload>>> = LazyLock::new(|| {
        let mut functions: HashMap<&str, Vec<Overload>> = HashMap::new();
        for (name, signature, cost, function) in library::rows() {
            let expanded = expand(signature);
            let overloads = expanded.iter().map(|signature| overload(signature, *cost, *function));
            functions.entry(*name).or_default().extend(overloads);
        }
        functions
    });
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// The signatures that one with alternatives, or with a letter for several types, stands for.
fn expand(signature: &str) -> Vec<String> {
    const CLASSES: [(char, &[&str]); 4] = [
        ('O', &["i", "u", "d", "b", "D", "T", "s", "y"]),
        ('M', &["i", "u", "d"]),
        ('N', &["i", "u", "d", "D"]),
        ('P', &["id", "iu", "ui", "ud", "di", "du"]),
    ];
    let expanded = |signature: &str| match CLASSES.iter().find(|(class, _)| signature.contains(*class)) {
        Some((class, types)) => types.iter().map(|types| signature.replace(*class, types)).collect(),
        None => vec![signature.to_owned()],
    };
    signature.split('|').flat_map(expanded).collect()
}

fn overload(signature: &str, cost: Cost, function: Function) -> Overload {
    let mut letters = signature.chars().peekable();
    let (mut parameters, mut is_method) = (Vec::new(), false);
    loop {
        match letters.peek() {
            Some('.') => is_method = true,
            Some(':') => break,
            _ => {
                parameters.push(read_type(&mut letters));
                continue;
            }
        }
        letters.next();
    }
    letters.next();
    let result = read_type(&mut letters);
    let n_type_parameters = usize::from(signature.contains('A')) + usize::from(signature.contains('B'));
    Overload { is_method, parameters, result, n_type_parameters, cost, function }
}

fn read_type(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Type {
    match letters.next().expect("the rows have complete signatures") {
        'b' => Type::Bool,
        'i' => Type::Int,
        'u' => Type::Uint,
        'd' => Type::Double,
        's' => Type::String,
        'y' => Type::Bytes,
        't' => Type::type_of(Type::Param(0)),
        'D' => Type::Duration,
        'T' => Type::Timestamp,
        'Q' => Type::QUANTITY,
        'V' => Type::SEMVER,
        'I' => Type::IP,
        'C' => Type::CIDR,
        'U' => Type::URL,
        'F' => Type::NAMED_FORMAT,
        '*' => Type::Dyn,
        'A' => Type::Param(0),
        'B' => Type::Param(1),
        '?' => Type::optional(read_type(letters)),
        '[' => {
            let element = read_type(letters);
            letters.next();
            Type::list(element)
        }
        '{' => {
            let key = read_type(letters);
            let value = read_type(letters);
            letters.next();
            Type::map(key, value)
        }
        other => unreachable!("no type has the letter {other}"),
    }
}
