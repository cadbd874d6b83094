//! The order of a list that was merged from two.

use std::collections::HashMap;

use serde_json::Value;

/// The identity of an item: the merge key's value, or the item itself. `None` where the key is
/// missing.
pub(super) fn identity(item: &Value, merge_key: Option<&str>) -> Option<String> {
    match merge_key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    }
}

/// The index of each item in a list, by identity; the first index counts.
pub(super) fn positions(list: &[Value], merge_key: Option<&str>) -> HashMap<String, usize> {
    let mut positions = HashMap::with_capacity(list.len());
    for (position, item) in list.iter().enumerate() {
        if let Some(id) = identity(item, merge_key) {
            positions.entry(id).or_insert(position);
        }
    }
    positions
}

/// Orders a merged list. Items that `order` names stand as they do there, the others as they did in
/// `original`. Where one of each is next, they keep the order of `original` if both were in it; otherwise the
/// named one comes first.
pub(super) fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    original: &[Value],
    merge_key: Option<&str>,
) -> Vec<Value> {
    let in_order = positions(order, merge_key);
    let in_original = positions(original, merge_key);
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let id = identity(&item, merge_key).unwrap_or_default();
        let before = in_original.get(&id).copied();
        match in_order.get(&id) {
            Some(&position) => named.push((position, before, item)),
            None => others.push((before, item)),
        }
    }
    named.sort_by_key(|(position, ..)| *position);
    others.sort_by_key(|(before, _)| before.unwrap_or(usize::MAX));

    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, before, item) in named {
        while let Some((Some(other), _)) = others.peek()
            && before.is_some_and(|before| *other < before)
        {
            arranged.extend(others.next().map(|(_, item)| item));
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    arranged
}
