//! Errors of reading.

/// Why a text could not be read as Kubernetes objects.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input could not be read at all.
    #[error("{file}: {message}")]
    Io {
        file: String,
        /// The error of the operating system.
        message: String,
    },
    #[error("{file}: more than {} empty documents: remove them", super::MAX_EMPTY_DOCUMENTS)]
    EmptyDocuments { file: String },
    #[error("{place}: metadata.{field} has a control character, such as the end of a line: {value:?}")]
    ControlCharacter {
        place: super::SourceLocation,
        /// The field of the metadata.
        field: &'static str,
        value: String,
    },
    /// Not YAML, or not JSON.
    #[error("{file}:{line}:{column}: invalid {format}: {message}")]
    Syntax {
        file: String,
        line: usize,
        column: usize,
        /// `YAML` or `JSON`.
        format: &'static str,
        /// The message of the parser.
        message: String,
    },
    #[error(
        "{file}:{line}:{column}: nested deeper than {} levels: no Kubernetes object is",
        super::MAX_DEPTH
    )]
    TooDeep { file: String, line: usize, column: usize },
    #[error(
        "{file}:{line}:{column}: YAML aliases of a file repeat more than {limit_kib} KiB of data: write the repeated parts out"
    )]
    AliasBomb { file: String, line: usize, column: usize, limit_kib: usize },
    #[error("{place}: an object of more than {} MiB: no API server accepts it; remove or split it", super::MAX_OBJECT_BYTES >> 20)]
    LargeObject { place: super::SourceLocation },
    #[error("{file}: YAML of more than {} MiB: give JSON, which is not held as a whole", super::MAX_YAML_BYTES >> 20)]
    LargeYaml { file: String },
    #[error("{file}: a line of more than {} MiB: give YAML or JSON, optionally compressed with gzip", super::MAX_OBJECT_BYTES >> 20)]
    LongLine { file: String },
    #[error("{file}: line {line} is not UTF-8 text: give YAML or JSON, optionally compressed with gzip")]
    NotUtf8 { file: String, line: usize },
    #[error("{file}: binary data, not text: give YAML or JSON, optionally compressed with gzip")]
    Binary { file: String },
    #[error("{file}: {found} that kubectl printed for people: save the objects with `-o yaml` or `-o json`")]
    KubectlText {
        file: String,
        /// `a table`, `a description` or `names`.
        found: &'static str,
    },
    #[error("{file}: UTF-16 text: save it as UTF-8")]
    Utf16 { file: String },
    #[error("{place}: {found}, not a Kubernetes object: it must have apiVersion, kind and metadata")]
    NotAnObject {
        place: super::SourceLocation,
        /// The type of the value.
        found: &'static str,
    },
    #[error("{place}: a Helm chart, not a Kubernetes object: render it first with `helm template`")]
    HelmChart { place: super::SourceLocation },
    #[error("{place}: {field} is missing: add it, such as `{example}`")]
    MissingField {
        place: super::SourceLocation,
        /// `kind` or `apiVersion`.
        field: &'static str,
        /// A hint about the file.
        example: &'static str,
    },
    #[error("{place}: kind {kind:?} has items but is not a list: use kind List")]
    ItemsOutsideList { place: super::SourceLocation, kind: String },
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
