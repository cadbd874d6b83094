//! Why bytes are not an object.

/// Why bytes are not an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the object does not begin with the bytes of the protobuf form")]
    NoEnvelope,
    /// The bytes are truncated or are not protobuf.
    #[error("malformed protobuf: {0}")]
    Malformed(&'static str),
    #[error("no kind {kind:?} is known in version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}
