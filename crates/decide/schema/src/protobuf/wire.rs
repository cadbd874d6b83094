//! The wire format of protobuf: numbered fields, each a number or some bytes.

use super::error::ProtobufError;

/// The value of a field in the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
}

const WRONG: ProtobufError = ProtobufError::Malformed("a field has another type than its message says");
const SHORT: ProtobufError = ProtobufError::Malformed("it ends early");

impl<'b> Wire<'b> {
    pub(super) fn bytes(self) -> Result<&'b [u8], ProtobufError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG),
        }
    }

    pub(super) fn text(self) -> Result<&'b str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Malformed("a text is not UTF-8"))
    }

    pub(super) fn integer(self) -> Result<i64, ProtobufError> {
        match self {
            Wire::Varint(value) => Ok(value.cast_signed()),
            _ => Err(WRONG),
        }
    }

    pub(super) fn float(self) -> Result<f64, ProtobufError> {
        match self {
            Wire::Fixed64(bits) => Ok(f64::from_bits(bits)),
            Wire::Fixed32(bits) => Ok(f64::from(f32::from_bits(bits))),
            _ => Err(WRONG),
        }
    }
}

/// Reads the fields of a message.
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    /// Of the bytes of a message.
    pub fn new(message: &'b [u8]) -> Reader<'b> {
        Reader(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next field with its number; `None` at the end.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn next_field(&mut self) -> Result<Option<(u32, Wire<'b>)>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed("a field number"))?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(*self.0.first_chunk().ok_or(SHORT)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| SHORT)?;
                Wire::Bytes(self.0.get(..length).ok_or(SHORT)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(*self.0.first_chunk().ok_or(SHORT)?)),
            _ => return Err(ProtobufError::Malformed("a wire type that is not used")),
        };
        self.0 = match value {
            Wire::Varint(_) => self.0,
            Wire::Fixed64(_) => &self.0[8..],
            Wire::Fixed32(_) => &self.0[4..],
            Wire::Bytes(bytes) => &self.0[bytes.len()..],
        };
        Ok(Some((number, value)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first().ok_or(SHORT)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).wrapping_shl(7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Malformed("a number is too long"))
    }
}
