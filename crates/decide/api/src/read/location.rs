//! Where an object stands in an input.

use std::fmt;
use std::sync::Arc;

/// Where an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLocation {
    /// Name of the input.
    pub file: Arc<str>,
    /// Document in the input, from 1.
    pub document: usize,
    /// Item in the list that the document is, from 0.
    pub item: Option<usize>,
    /// Line, from 1; unknown for JSON.
    pub line: Option<usize>,
}

impl SourceLocation {
    /// The first document of `file`.
    pub fn file(file: &str) -> Self {
        SourceLocation { file: file.into(), document: 1, item: None, line: None }
    }
}

impl fmt::Display for SourceLocation {
    /// `pods.yaml:12`, or `pods.json: document 2: items[3]` where lines are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            return write!(f, ":{line}");
        }
        if self.document > 1 || self.item.is_none() {
            write!(f, ": document {}", self.document)?;
        }
        self.item.map_or(Ok(()), |item| write!(f, ": items[{item}]"))
    }
}
