//! Errors of reading.

/// Why a text could not be read as Kubernetes objects.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input could not be read at all.
    #[error("{file}: {message}")]
    Io {
        /// Name of the input.
        file: String,
        /// The error of the operating system.
        message: String,
    },
    /// More documents without an object than [`super::MAX_EMPTY_DOCUMENTS`].
    #[error("{file}: more than {} empty documents: remove them", super::MAX_EMPTY_DOCUMENTS)]
    EmptyDocuments {
        /// Name of the input.
        file: String,
    },
    /// A name that would look like more than one in a text.
    #[error("{place}: metadata.{field} has a control character, such as the end of a line: {value:?}")]
    ControlCharacter {
        /// Where.
        place: super::SourceLocation,
        /// The field of the metadata.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// Not YAML, or not JSON.
    #[error("{file}:{line}:{column}: invalid {format}: {message}")]
    Syntax {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// `YAML` or `JSON`.
        format: &'static str,
        /// The message of the parser.
        message: String,
    },
    /// Nested deeper than [`super::MAX_DEPTH`].
    #[error(
        "{file}:{line}:{column}: nested deeper than {} levels: no Kubernetes object is",
        super::MAX_DEPTH
    )]
    TooDeep {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// YAML aliases that expand to too much data.
    #[error(
        "{file}:{line}:{column}: YAML aliases of a file repeat more than {limit_kib} KiB of data: write the repeated parts out"
    )]
    AliasBomb {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The limit, in KiB.
        limit_kib: usize,
    },
    /// An object with more text than [`super::MAX_OBJECT_BYTES`].
    #[error("{place}: an object of more than {} MiB: no API server accepts it; remove or split it", super::MAX_OBJECT_BYTES >> 20)]
    LargeObject {
        /// Where.
        place: super::SourceLocation,
    },
    /// A YAML text with more than [`super::MAX_YAML_BYTES`].
    #[error("{file}: YAML of more than {} MiB: give JSON, which is not held as a whole", super::MAX_YAML_BYTES >> 20)]
    LargeYaml {
        /// Name of the input.
        file: String,
    },
    /// A line with more text than an object may have.
    #[error("{file}: a line of more than {} MiB: give YAML or JSON, optionally compressed with gzip", super::MAX_OBJECT_BYTES >> 20)]
    LongLine {
        /// Name of the input.
        file: String,
    },
    /// Bytes that are not UTF-8.
    #[error("{file}: line {line} is not UTF-8 text: give YAML or JSON, optionally compressed with gzip")]
    NotUtf8 {
        /// Name of the input.
        file: String,
        /// Line, from 1.
        line: usize,
    },
    /// Binary data.
    #[error("{file}: binary data, not text: give YAML or JSON, optionally compressed with gzip")]
    Binary {
        /// Name of the input.
        file: String,
    },
    /// UTF-16, as some shells redirect output.
    #[error("{file}: UTF-16 text: save it as UTF-8")]
    Utf16 {
        /// Name of the input.
        file: String,
    },
    /// A document or list item that is not an object.
    #[error("{place}: {found}, not a Kubernetes object: it must have apiVersion, kind and metadata")]
    NotAnObject {
        /// Where.
        place: super::SourceLocation,
        /// The type of the value.
        found: &'static str,
    },
    /// The description of a Helm chart.
    #[error("{place}: a Helm chart, not a Kubernetes object: render it first with `helm template`")]
    HelmChart {
        /// Where.
        place: super::SourceLocation,
    },
    /// An object without `kind` or `apiVersion`.
    #[error("{place}: {field} is missing: add it, such as `{example}`")]
    MissingField {
        /// Where.
        place: super::SourceLocation,
        /// `kind` or `apiVersion`.
        field: &'static str,
        /// A hint about the file.
        example: &'static str,
    },
    /// An object whose kind is not a list, with objects as its `items`.
    #[error("{place}: kind {kind:?} has items but is not a list: use kind List")]
    ItemsOutsideList {
        /// Where.
        place: super::SourceLocation,
        /// The kind.
        kind: String,
    },
}

/// The type of a JSON value, for messages.
pub(super) fn describe(value: &serde_json::Value) -> &'static str {
    use serde_json::Value;
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A parser's message, shortened where it repeats the input.
pub(super) fn shortened(message: &str) -> String {
    const MOST: usize = 200;
    if message.chars().count() <= MOST {
        return message.to_owned();
    }
    message.chars().take(MOST).chain(std::iter::once('…')).collect()
}
