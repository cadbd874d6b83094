//! Errors in one line.

/// An error with all its sources, each once, without those that only name a type of the client library.
pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        let text = text.strip_prefix("ServiceError: ").unwrap_or(&text);
        if !text.starts_with("client error (") && !texts.iter().any(|known| known.contains(text)) {
            texts.push(text.to_owned());
        }
        next = error.source();
    }
    if texts.is_empty() { error.to_string() } else { texts.join(": ") }
}
