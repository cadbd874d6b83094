//! `metadata.uid` in 24 bytes.

use std::fmt;

use uuid::Uuid;

/// A uid. API servers use UUIDs, which need no allocation; any other text is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Uid {
    Uuid(Uuid),
    Other(Box<str>),
}

impl From<&str> for Uid {
    fn from(text: &str) -> Uid {
        match Uuid::try_parse(text) {
            Ok(uuid) if *text == *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) => {
                Uid::Uuid(uuid)
            }
            _ => Uid::Other(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Uid::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uid_reads_as_it_was_written() {
        for text in ["01234567-89ab-cdef-0123-456789abcdef", "01234567-89AB-CDEF-0123-456789ABCDEF", "u", ""]
        {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(size_of::<Uid>() <= 24);
    }
}
