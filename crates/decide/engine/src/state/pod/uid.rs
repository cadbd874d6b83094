//! Unique identifiers of objects, kept small: nearly all are UUIDs, whose 36 characters say 16 bytes.

use std::fmt;

/// The places of the hyphens in a UUID's text.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const TEXT_LEN: usize = 36;

/// `metadata.uid`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Uid {
    /// One whose text is in the usual form, in small letters.
    Uuid([u8; 16]),
    /// Any other; empty for a pod that does not come from an API server.
    Text(Box<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Uid {
        parse(text.as_bytes()).map_or_else(|| Uid::Text(text.into()), Uid::Uuid)
    }
}

impl Default for Uid {
    fn default() -> Uid {
        Uid::Text(Box::default())
    }
}

fn parse(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != TEXT_LEN || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    let digits = text.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at));
    for (i, (_, digit)) in digits.enumerate() {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        bytes[i / 2] = bytes[i / 2] << 4 | value;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Text(text) => f.write_str(text),
            Uid::Uuid(bytes) => {
                for (i, byte) in bytes.iter().enumerate() {
                    let hyphen = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{hyphen}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn every_text_comes_back_as_it_was() {
        for (text, is_small) in [
            ("0b7e5f3a-00ff-4c21-9d0e-a1b2c3d4e5f6", true),
            ("0B7E5F3A-00FF-4C21-9D0E-A1B2C3D4E5F6", false),
            ("0b7e5f3a-00ff-4c21-9d0e+a1b2c3d4e5f6", false),
            ("0b7e5f3a-00ff-4c21-9d0e-a1b2c3d4e5fg", false),
            ("default/web-0", false),
            ("", false),
        ] {
            let uid = Uid::new(text);
            assert_eq!((uid.to_string().as_str(), matches!(uid, Uid::Uuid(_))), (text, is_small));
        }
    }
}
