//! Prices of node types.

use berth_api::object::Node;
use serde::{Serialize, Serializer};

/// The annotation of a node type with its price. With it on all types, the cheapest sum is the answer, and otherwise the
/// first type that is enough.
pub const PRICE_ANNOTATION: &str = "capacity.berth.dev/price";

/// Prices have at least cents, and at most this many digits after the point.
const MAX_DIGITS: usize = 9;

/// A price of nodes, with as many digits after the point as that of one node, at least two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    sum: f64,
    n_digits: usize,
}

impl Price {
    /// The price in the annotation of a node type; the text if it is none.
    pub(super) fn parse(node: &Node) -> Result<Option<Price>, String> {
        let Some(text) = node.metadata.annotation(PRICE_ANNOTATION) else { return Ok(None) };
        let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        let is_decimal = is_digits(text.split('.').next().unwrap_or_default())
            && (!text.contains('.') || is_digits(fraction))
            && fraction.len() <= MAX_DIGITS;
        let sum = text.parse().ok().filter(|_| is_decimal && text.len() <= 15);
        let sum = sum.ok_or_else(|| text.to_owned())?;
        Ok(Some(Price { sum, n_digits: fraction.len().max(2) }))
    }

    /// The price of this many nodes, rounded to its digits.
    pub(super) fn times(self, n_nodes: usize) -> Price {
        let unit = 10_f64.powi(self.n_digits as i32);
        Price { sum: (self.sum * n_nodes as f64 * unit).round() / unit, ..self }
    }

    /// The number.
    pub fn sum(self) -> f64 {
        self.sum
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.*}", self.n_digits, self.sum)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.sum)
    }
}
