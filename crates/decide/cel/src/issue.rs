//! What is wrong with an expression, and where.

/// A problem at a byte offset of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issue {
    pub offset: usize,
    pub message: String,
}

impl Issue {
    pub fn new(offset: usize, message: impl Into<String>) -> Self {
        Issue { offset, message: message.into() }
    }

    /// The message as cel-go prints it, with the line and a mark below the column.
    fn show(&self, text: &str) -> String {
        let message = &self.message;
        if text.is_empty() {
            return format!("ERROR: <input>:1:0: {message}");
        }
        let before = text.get(..self.offset).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let snippet = text.split('\n').nth(line - 1).unwrap_or_default().replace('\t', " ");
        format!("ERROR: <input>:{line}:{}: {message}\n | {snippet}\n | {}^", column + 1, ".".repeat(column))
    }
}

/// The text of several problems, in the order of their positions. Long lists are cut.
pub(crate) fn show_issues(issues: &mut [Issue], text: &str) -> String {
    const MAX_BYTES: usize = 16 << 10;
    issues.sort_by_key(|issue| issue.offset);
    let mut shown = String::new();
    for issue in issues.iter() {
        if shown.len() > MAX_BYTES {
            break;
        }
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&issue.show(text));
    }
    shown
}
