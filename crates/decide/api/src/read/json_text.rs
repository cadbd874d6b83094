//! JSON as it is written: members of objects and elements of arrays as texts, without decoding them.
//!
//! A text is indexed before it is read, 64 bytes at a time and without a branch on what they are. Then the end of a value is
//! found without a look at the bytes in between. Brackets and strings have to be closed; the rest is not checked.

use wide::u8x16;

/// The text is not JSON, or not what was expected there.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an object or a list is not JSON, or is something else")]
pub struct Malformed;

impl From<Malformed> for serde_json::Error {
    fn from(malformed: Malformed) -> serde_json::Error {
        serde::de::Error::custom(malformed)
    }
}

/// Bytes per block.
const BLOCK: usize = 64;

/// The bytes of a block that give a text its structure, as bits.
struct Block {
    /// Quotes that begin or end strings.
    quotes: u64,
    /// Opening and closing brackets that are not in strings.
    opening: u64,
    closing: u64,
}

/// The index of a text; it is kept for its capacity.
#[derive(Default)]
pub struct Index(Vec<Block>);

impl Index {
    fn fill(&mut self, text: &[u8]) {
        self.0.clear();
        // Of the block before: whether it ends with a backslash that escapes, and, as a mask, whether it ends in a string.
        let (mut escapes, mut in_string) = (false, 0);
        let (blocks, rest) = text.as_chunks();
        self.0.reserve(blocks.len() + 1);
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        for bytes in blocks.iter().chain([&last]) {
            let backslashes = positions(bytes, 0, b'\\');
            let mut escaped = u64::from(std::mem::take(&mut escapes));
            let mut rest = backslashes & !escaped;
            while rest != 0 {
                let backslash = rest & rest.wrapping_neg();
                escaped |= backslash << 1;
                escapes = backslash >> (BLOCK - 1) == 1;
                rest &= !(backslash | backslash << 1);
            }
            let quotes = positions(bytes, 0, b'"') & !escaped;
            // From each opening quote up to its closing one.
            let mut inside = quotes;
            for shift in [1, 2, 4, 8, 16, 32] {
                inside ^= inside << shift;
            }
            inside ^= in_string;
            in_string = if inside >> (BLOCK - 1) == 1 { u64::MAX } else { 0 };
            // Square and curly brackets differ in this bit.
            let brackets = |bracket| positions(bytes, b'[' ^ b'{', bracket) & !inside;
            self.0.push(Block { quotes, opening: brackets(b'{'), closing: brackets(b'}') });
        }
    }
}

/// Where a byte is in a block, with some bits set in all bytes.
fn positions(block: &[u8; BLOCK], set: u8, byte: u8) -> u64 {
    let (vectors, _) = block.as_chunks();
    let bits = |vector: &[u8; 16]| {
        (u8x16::new(*vector) | u8x16::splat(set)).simd_eq(u8x16::splat(byte)).to_bitmask()
    };
    vectors.iter().rev().fold(0, |all, vector| all << 16 | u64::from(bits(vector)))
}

/// A text that is read from its begin.
pub struct JsonText<'a, 'i> {
    text: &'a [u8],
    index: &'i [Block],
    at: usize,
}

/// An object or an array that is being read.
pub struct Items {
    /// The closing bracket; none for `null`, which has no items.
    close: Option<u8>,
    is_first: bool,
}

impl Items {
    pub fn is_null(&self) -> bool {
        self.close.is_none()
    }
}

impl<'a, 'i> JsonText<'a, 'i> {
    /// A text at its begin. The index is only kept for its capacity.
    pub fn new(text: &'a [u8], index: &'i mut Index) -> JsonText<'a, 'i> {
        index.fill(text);
        JsonText { text, index: &index.0, at: 0 }
    }

    /// Where the reading is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Begins an object, whose members are read with [`JsonText::next_key`]. `null` has none.
    ///
    /// # Errors
    /// What comes next is neither.
    pub fn object(&mut self) -> Result<Items, Malformed> {
        self.begin(b'{', b'}')
    }

    /// Begins an array, whose elements are read with [`JsonText::has_next`]. `null` has none.
    ///
    /// # Errors
    /// What comes next is neither.
    pub fn array(&mut self) -> Result<Items, Malformed> {
        self.begin(b'[', b']')
    }

    fn begin(&mut self, open: u8, close: u8) -> Result<Items, Malformed> {
        let close = match self.peek()? {
            b'n' if self.value()? == b"null" => None,
            first if first == open => {
                self.at += 1;
                Some(close)
            }
            _ => return Err(Malformed),
        };
        Ok(Items { close, is_first: true })
    }

    /// The next key as it is written between its quotes, none at the end of the object. Its value has to be read next.
    ///
    /// # Errors
    /// What comes next is neither a key nor the end.
    pub fn next_key(&mut self, members: &mut Items) -> Result<Option<&'a [u8]>, Malformed> {
        if !self.has_next(members)? {
            return Ok(None);
        }
        let [b'"', key @ .., b'"'] = self.value()? else { return Err(Malformed) };
        if self.peek()? != b':' {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether there is one more element, which has to be read next.
    ///
    /// # Errors
    /// What comes next is neither a comma nor the end.
    pub fn has_next(&mut self, items: &mut Items) -> Result<bool, Malformed> {
        let Some(close) = items.close else { return Ok(false) };
        let next = self.peek()?;
        if next == close {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::replace(&mut items.is_first, false) {
            if next != b',' {
                return Err(Malformed);
            }
            self.at += 1;
        }
        Ok(true)
    }

    /// The values of these members of an object; empty texts for those that it does not have.
    ///
    /// # Errors
    /// What comes next is neither an object nor `null`.
    pub fn members<const N: usize>(&mut self, names: [&str; N]) -> Result<[&'a [u8]; N], Malformed> {
        let (mut members, mut values) = (self.object()?, [&self.text[..0]; N]);
        while let Some(key) = self.next_key(&mut members)? {
            let value = self.value()?;
            if let Some(i) = names.iter().position(|name| name.as_bytes() == key) {
                values[i] = value;
            }
        }
        Ok(values)
    }

    /// The value that comes next.
    ///
    /// # Errors
    /// There is none, or it does not end.
    pub fn value(&mut self) -> Result<&'a [u8], Malformed> {
        let first = self.peek()?;
        let begin = self.at;
        self.at = match first {
            b'"' => self.end_of_string().ok_or(Malformed)?,
            b'{' | b'[' => self.end_of_brackets().ok_or(Malformed)?,
            _ => {
                let is_scalar = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                let text = &self.text[begin..];
                begin + text.iter().position(|byte| !is_scalar(byte)).unwrap_or(text.len())
            }
        };
        if self.at > begin { Ok(&self.text[begin..self.at]) } else { Err(Malformed) }
    }

    /// Where the string ends that begins here.
    fn end_of_string(&self) -> Option<usize> {
        let mut after = !1 << (self.at % BLOCK);
        for (i, block) in self.index.iter().enumerate().skip(self.at / BLOCK) {
            let quotes = block.quotes & std::mem::replace(&mut after, u64::MAX);
            if quotes != 0 {
                return Some(i * BLOCK + quotes.trailing_zeros() as usize + 1);
            }
        }
        None
    }

    /// Where the object or array ends that begins here.
    fn end_of_brackets(&self) -> Option<usize> {
        let (mut from, mut depth) = (u64::MAX << (self.at % BLOCK), 0);
        for (i, block) in self.index.iter().enumerate().skip(self.at / BLOCK) {
            let from = std::mem::replace(&mut from, u64::MAX);
            let (opening, mut closing) = (block.opening & from, block.closing & from);
            let mut n_closed = 0;
            while closing != 0 {
                let bracket = closing & closing.wrapping_neg();
                n_closed += 1;
                if depth + (opening & (bracket - 1)).count_ones() == n_closed {
                    return Some(i * BLOCK + bracket.trailing_zeros() as usize + 1);
                }
                closing ^= bracket;
            }
            depth = depth + opening.count_ones() - n_closed;
        }
        None
    }

    /// Whether nothing but space is left.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_err()
    }

    /// The next byte that is not space.
    fn peek(&mut self) -> Result<u8, Malformed> {
        loop {
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(byte) => return Ok(*byte),
                None => return Err(Malformed),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, Malformed> {
        let (mut index, mut found) = (Index::default(), Vec::new());
        let mut json = JsonText::new(text.as_bytes(), &mut index);
        let text = |bytes| str::from_utf8(bytes).unwrap().to_owned();
        if json.peek()? == b'[' {
            let mut elements = json.array()?;
            while json.has_next(&mut elements)? {
                found.push((String::new(), text(json.value()?)));
            }
        } else {
            let mut members = json.object()?;
            while let Some(key) = json.next_key(&mut members)? {
                found.push((text(key), text(json.value()?)));
            }
        }
        if json.is_at_end() { Ok(found) } else { Err(Malformed) }
    }

    #[test]
    fn items_are_texts() {
        for (text, expected) in [
            ("{}", vec![]),
            ("[ ]", vec![]),
            ("null", vec![]),
            (
                r#"{"a":1,"b":{"c":["}",{}]},"":null}"#,
                vec![("a", "1"), ("b", r#"{"c":["}",{}]}"#), ("", "null")],
            ),
            (" [-1.5e+3 ,\t\"a\\\"]\" , [[]]\n] ", vec![("", "-1.5e+3"), ("", r#""a\"]""#), ("", "[[]]")]),
            (r#"{ "a\"b\\" : "x" }"#, vec![(r#"a\"b\\"#, r#""x""#)]),
        ] {
            let expected = expected.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(read(text).unwrap(), expected.collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn malformed_texts_are_found() {
        for text in [
            "",
            "{}}",
            "[] 1",
            "nul",
            "5",
            "\"a\"",
            "{",
            "[",
            "{\"a",
            "{\"a\\\"",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{a:1}",
            "{\"a\" 1}",
            "[1 2]",
            "[,]",
            "[1",
            "[[1]",
            "{\"a\":1,}",
            "[\"\\",
        ] {
            assert_eq!(read(text), Err(Malformed), "{text}");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn texts_of_items_are_those_that_serde_reads(
            members in prop::collection::btree_map(any::<String>(), json(), 0..4),
            pretty: bool,
        ) {
            let text = if pretty { serde_json::to_string_pretty(&members) } else { serde_json::to_string(&members) };
            let text = text.unwrap();
            let found = read(&text).unwrap().into_iter().map(|(key, value)| {
                let key: String = serde_json::from_str(&format!("\"{key}\"")).unwrap();
                (key, serde_json::from_str::<Value>(&value).unwrap())
            });
            // Floating-point numbers may be read as others than were written; they are compared as they are read.
            let expected: std::collections::BTreeMap<String, Value> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(found.collect::<std::collections::BTreeMap<_, _>>(), expected);
        }

        #[test]
        fn no_text_panics(text: Vec<u8>) {
            let mut index = Index::default();
            let _ = JsonText::new(&text, &mut index).members(["a"]);
            let _ = JsonText::new(&text, &mut index).value();
        }
    }
}
