//! Namespaced names.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The namespace and the name of an object, as in controller-runtime.
///
/// It takes one allocation and 24 bytes. The order is by namespace, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NamespacedName {
    /// `NAMESPACE/NAME`; the name alone for a cluster-scoped object.
    text: Box<str>,
    name_at: u32,
}

impl NamespacedName {
    /// The name of an object; `namespace` is empty for a cluster-scoped one.
    pub fn new(namespace: &str, name: &str) -> NamespacedName {
        match namespace {
            "" => NamespacedName { text: name.into(), name_at: 0 },
            _ => NamespacedName {
                text: [namespace, "/", name].concat().into(),
                name_at: namespace.len() as u32 + 1,
            },
        }
    }

    /// The namespace; empty for a cluster-scoped object.
    pub fn namespace(&self) -> &str {
        &self.text[..(self.name_at as usize).saturating_sub(1)]
    }

    pub fn name(&self) -> &str {
        &self.text[self.name_at as usize..]
    }
}

/// `NAMESPACE/NAME`, or the name alone for a cluster-scoped object.
impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// As it is displayed.
impl Serialize for NamespacedName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for NamespacedName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NamespacedName, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let (namespace, name) = text.split_once('/').unwrap_or(("", &text));
        Ok(NamespacedName::new(namespace, name))
    }
}

impl Ord for NamespacedName {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
}

impl PartialOrd for NamespacedName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_stay_apart() {
        for (namespace, name, text) in
            [("a", "b", "a/b"), ("", "b", "b"), ("a/b", "c", "a/b/c"), ("a", "", "a/")]
        {
            let object = NamespacedName::new(namespace, name);
            assert_eq!((object.namespace(), object.name(), &*object.to_string()), (namespace, name, text));
        }
        assert_ne!(NamespacedName::new("a/b", "c"), NamespacedName::new("a", "b/c"));
    }

    #[test]
    fn the_namespace_orders_first() {
        let (short, long) = (NamespacedName::new("a", "x"), NamespacedName::new("a-b", "a"));
        assert!(short < long, "although '/' comes after '-'");
        assert!(NamespacedName::new("", "z") < short);
    }
}
