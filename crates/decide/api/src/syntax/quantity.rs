//! Kubernetes quantities (`100m`, `1.5Gi`, `1e3`), read and rounded as the API server does.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An exact quantity in units of 10⁻⁹.
///
/// As in `k8s.io/apimachinery/pkg/api/resource`, finer fractions are rounded away from zero, and the magnitude is capped
/// at 2⁶³−1. The suffix family of the text only decides how the quantity is printed: `1024Mi` equals `1073741824`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffix family of a quantity's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Format {
    /// `m`, `k`, `M`, ...
    #[default]
    Decimal,
    /// `Ki`, `Mi`, ...
    Binary,
    /// `e3`, `e6`, ...
    Exponent,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a quantity: write a number with an optional suffix, such as 100m, 0.5, 2, 1e3, 128Mi or 1.5Gi"
)]
pub struct QuantityError {
    text: String,
}

const NANOS: i128 = 1_000_000_000;
const MAX_NANOS: i128 = i64::MAX as i128 * NANOS;

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::Decimal };

    /// A whole number of units.
    pub fn from_units(units: i64) -> Self {
        Quantity { nanos: units as i128 * NANOS, format: Format::Decimal }
    }

    /// A whole number of units that is written with a binary suffix, such as `Ki`.
    pub fn from_binary_units(units: i64) -> Self {
        Quantity { nanos: units as i128 * NANOS, format: Format::Binary }
    }

    /// A number of thousandths, such as milli-CPU.
    pub fn from_millis(millis: i64) -> Self {
        Quantity { nanos: millis as i128 * (NANOS / 1000), format: Format::Decimal }
    }

    /// Written with the suffixes of another quantity.
    pub fn in_format_of(self, other: Quantity) -> Self {
        Quantity { format: other.format, ..self }
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// The text is not a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse_nanos(text)
            .map(|(nanos, format)| Quantity { nanos, format })
            .ok_or_else(|| QuantityError { text: text.chars().take(64).collect() })
    }

    /// As [`parse`](Self::parse), for a value of JSON or YAML: Kubernetes drops the spaces around it (1.36.3 to 1.38).
    ///
    /// # Errors
    /// The text is no quantity.
    pub fn read(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text.trim_matches(|c: char| c.is_whitespace() && !c.is_control()))
    }

    /// Whole units (bytes, pods, CPUs), rounded up.
    pub fn units(self) -> i64 {
        self.scaled(NANOS)
    }

    /// Thousandths (milli-CPU), rounded up.
    pub fn millis(self) -> i64 {
        self.scaled(NANOS / 1000)
    }

    /// The nearest double.
    pub fn approximate(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// Whether the quantity is below zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the quantity is a whole number.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// Thousandths, if it is a number of them that an `i64` holds.
    pub fn exact_millis(self) -> Option<i64> {
        const MILLI: i128 = NANOS / 1000;
        i64::try_from(self.nanos / MILLI).ok().filter(|_| self.nanos % MILLI == 0)
    }

    /// The quantity rounded away from zero to thousandths, as the API server stores resource lists.
    pub fn rounded_to_millis(self) -> Self {
        const MILLI: i128 = NANOS / 1000;
        let away = if self.nanos % MILLI == 0 { 0 } else { self.nanos.signum() };
        Quantity { nanos: (self.nanos / MILLI + away) * MILLI, ..self }
    }

    fn scaled(self, unit: i128) -> i64 {
        let up = if self.nanos % unit > 0 { 1 } else { 0 };
        (self.nanos / unit + up).clamp(i64::MIN as i128, i64::MAX as i128) as i64
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl std::ops::Add for Quantity {
    type Output = Quantity;
    fn add(self, other: Quantity) -> Quantity {
        let format = if self.is_zero() { other.format } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(other.nanos), format }
    }
}

impl std::ops::Sub for Quantity {
    type Output = Quantity;
    fn sub(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }
}

/// Exact but for fractions finer than 10⁻⁹, which are rounded away from zero; capped as all quantities are.
impl std::ops::Mul for Quantity {
    type Output = Quantity;
    fn mul(self, other: Quantity) -> Quantity {
        let whole = (self.nanos / NANOS).saturating_mul(other.nanos);
        let fraction = (self.nanos % NANOS).saturating_mul(other.nanos);
        let away = if fraction % NANOS == 0 { 0 } else { fraction.signum() };
        let nanos = whole.saturating_add(fraction / NANOS + away).clamp(-MAX_NANOS, MAX_NANOS);
        Quantity { nanos, ..self }
    }
}

impl std::ops::AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}

fn parse_nanos(text: &str) -> Option<(i128, Format)> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_len = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = unsigned.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let scale = Scale::parse(suffix)?;

    // digits × 10^exponent × binary, in units of 10⁻⁹.
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let exponent = i64::from(scale.decimal_exponent) - fraction.len() as i64 + 9;
    let mut nanos: i128 = 0;
    let mut capped = false;
    for digit in digits.bytes() {
        match nanos.checked_mul(10).and_then(|n| n.checked_add(i128::from(digit - b'0'))) {
            Some(n) if n <= i128::MAX >> 70 || n <= MAX_NANOS * 1_000_000 => nanos = n,
            _ => {
                // Either far above the cap, or a long fraction whose tail only rounds the result up.
                return Some((sign(negative, long_number(digits, exponent, scale.binary)), scale.format));
            }
        }
    }
    for _ in 0..exponent.max(0) {
        if nanos == 0 {
            break;
        }
        nanos = nanos.saturating_mul(10);
        if nanos > MAX_NANOS {
            capped = true;
            break;
        }
    }
    nanos = if capped { MAX_NANOS } else { nanos.saturating_mul(scale.binary) };
    for _ in 0..(-exponent).max(0) {
        if nanos <= 1 {
            break;
        }
        nanos = nanos / 10 + i128::from(nanos % 10 > 0);
    }
    Some((sign(negative, nanos.min(MAX_NANOS)), scale.format))
}

/// The value of a number with more digits than an `i128` holds.
fn long_number(digits: &str, exponent: i64, binary: i128) -> i128 {
    // Keep 25 digits (more than the 19 + 9 that the cap leaves room for once scaled) and round up.
    let kept = &digits[..25.min(digits.len())];
    let dropped = (digits.len() - kept.len()) as i64;
    let mut nanos = kept.bytes().fold(0i128, |n, d| n * 10 + i128::from(d - b'0'));
    if digits.as_bytes()[kept.len()..].iter().any(|d| *d != b'0') {
        nanos += 1;
    }
    let mut exponent = exponent + dropped;
    while exponent > 0 && nanos <= MAX_NANOS {
        nanos = nanos.saturating_mul(10);
        exponent -= 1;
    }
    if exponent > 0 {
        return MAX_NANOS;
    }
    nanos = nanos.saturating_mul(binary);
    while exponent < 0 && nanos > 1 {
        nanos = nanos / 10 + i128::from(nanos % 10 > 0);
        exponent += 1;
    }
    nanos.min(MAX_NANOS)
}

fn sign(negative: bool, nanos: i128) -> i128 {
    if negative { -nanos } else { nanos }
}

struct Scale {
    decimal_exponent: i32,
    binary: i128,
    format: Format,
}

impl Scale {
    fn parse(suffix: &str) -> Option<Scale> {
        let decimal = |decimal_exponent| Some(Scale { decimal_exponent, binary: 1, format: Format::Decimal });
        let binary =
            |bits: u32| Some(Scale { decimal_exponent: 0, binary: 1 << bits, format: Format::Binary });
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return None;
                }
                // Kubernetes reads the exponent as an int32.
                let decimal_exponent = exponent.parse::<i32>().ok()?;
                Some(Scale { decimal_exponent, binary: 1, format: Format::Exponent })
            }
        }
    }
}

impl fmt::Display for Quantity {
    /// The API server's canonical form: a whole number with the largest suffix of the family it was
    /// written with (`1500m`, `1Gi`, `2k`, `1e3`). Quantities that binary suffixes cannot show exactly, and those below
    /// 1024, get decimal suffixes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.format == Format::Binary && self.is_whole() && self.nanos.abs() >= 1024 * NANOS {
            let mut number = self.nanos / NANOS;
            let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter();
            let mut suffix = suffixes.next();
            while number % 1024 == 0 {
                number /= 1024;
                suffix = suffixes.next();
            }
            return write!(f, "{number}{}", suffix.unwrap_or(&""));
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 {
            number /= 1000;
            exponent += 3;
        }
        match (self.format, exponent) {
            (_, 0) => write!(f, "{number}"),
            (Format::Exponent, _) => write!(f, "{number}e{exponent}"),
            _ => {
                const SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
                let suffix = usize::try_from((exponent + 9) / 3).ok().and_then(|i| SUFFIXES.get(i));
                write!(f, "{number}{}", suffix.unwrap_or(&""))
            }
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;
        impl Visitor<'_> for QuantityVisitor {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, such as 100m or 1Gi")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Quantity::read(text).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Quantity, E> {
                Ok(Quantity::from_units(n))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Quantity, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Quantity, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
                Ok(Quantity::ZERO)
            }
        }
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// An amount of a resource as users write it. `amount` is in milli-CPU for `cpu`, otherwise in units (bytes, pods);
/// bytes are shown with the largest binary suffix that divides them.
pub fn with_unit(resource: &str, amount: i64) -> String {
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" => {
            let units = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
            let unit = units.into_iter().find(|(size, _)| amount % size == 0 && amount != 0);
            let (size, suffix) = unit.unwrap_or((1, ""));
            format!("{}{suffix}", amount / size)
        }
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_suffix_and_rounds_up() {
        for (text, millis, units) in [
            ("0", 0, 0),
            ("1e3", 1_000_000, 1000),
            ("1E3", 1_000_000, 1000),
            ("1e-3", 1, 1),
            ("0.5", 500, 1),
            (".5", 500, 1),
            ("5.", 5000, 5),
            ("100m", 100, 1),
            ("1Ki", 1_024_000, 1024),
            ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
            ("1n", 1, 1),
            ("-1", -1000, -1),
            ("+2", 2000, 2),
            ("1E", 1_000_000_000_000_000_000i64.saturating_mul(1000), 1_000_000_000_000_000_000),
            ("100E", i64::MAX, i64::MAX),
            ("0.0000000001", 1, 1),
            ("0.00000000000000000000000000000000000000000000001", 1, 1),
            ("1.000000000000000000000000000000000000000000000000001", 1001, 2),
            ("99999999999999999999999999999999999999999999999999", i64::MAX, i64::MAX),
            ("1e2000000000", i64::MAX, i64::MAX),
            ("0e2000000000", 0, 0),
        ] {
            let quantity = Quantity::parse(text).expect(text);
            assert_eq!((quantity.millis(), quantity.units()), (millis, units), "{text}");
        }
    }

    #[test]
    fn products_are_exact_and_capped() {
        for (a, b, product) in [
            ("4", "2", "8"),
            ("3", "500m", "1500m"),
            ("1500m", "2Gi", "3221225472"),
            ("1n", "500m", "1n"),
            ("-3", "2", "-6"),
            ("0", "2Gi", "0"),
            ("9E", "9E", "9223372036854775807"),
        ] {
            let of = |text| Quantity::parse(text).unwrap();
            assert_eq!(of(a) * of(b), of(product), "{a} * {b}");
        }
    }

    #[test]
    fn prints_the_canonical_form() {
        for (text, canonical) in [
            ("0", "0"),
            ("0Mi", "0"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1025Ki", "1025Ki"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("0.1Mi", "104857600m"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("128974848", "128974848"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000m", "1"),
            ("100000m", "100"),
            ("1e3", "1e3"),
            ("1500e-3", "1500e-3"),
            ("12e4", "120e3"),
            ("-1", "-1"),
            ("-2Gi", "-2Gi"),
            ("1u", "1u"),
            ("1n", "1n"),
            ("1Ei", "1Ei"),
        ] {
            assert_eq!(Quantity::parse(text).expect(text).to_string(), canonical, "{text}");
        }
        let sum = Quantity::ZERO + Quantity::parse("1Gi").expect("1Gi");
        assert_eq!(sum.to_string(), "1Gi", "zero takes the suffix family of the other operand");
    }

    #[test]
    fn rounds_away_from_zero_to_thousandths() {
        for (text, rounded) in [("1u", "1m"), ("-1u", "-1m"), ("1100u", "2m"), ("2", "2"), ("0", "0")] {
            assert_eq!(Quantity::parse(text).expect(text).rounded_to_millis().to_string(), rounded, "{text}");
        }
    }

    #[test]
    fn texts_that_are_not_quantities_are_errors() {
        for text in [
            "",
            "abc",
            "1.2.3",
            "Ki",
            "1 Gi",
            "1GB",
            "--1",
            "1e",
            "1e+",
            "1ee3",
            ".",
            "0x10",
            "1e99999999999",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
