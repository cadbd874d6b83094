//! Splits Rust source into the few kinds of tokens that imports consist of.

/// A token with the line it begins on, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

impl Token<'_> {
    /// Whether the token is a name or a keyword.
    pub fn is_name(&self) -> bool {
        self.text.starts_with(is_name_start)
    }
}

/// The names, `::` and punctuation of a source. Comments, literals and items under `#[cfg(test)]` are left out.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(length) = text_literal(rest) {
            length
        } else if is_name_start(c) {
            rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else if c == '\'' {
            quote(rest)
        } else {
            c.len_utf8()
        };
        let text = &rest[..length];
        if (is_name_start(c) && !text.contains('"'))
            || text == "::"
            || (c.is_ascii_punctuation() && length == 1)
        {
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = &rest[length..];
    }
    without_tests(tokens)
}

/// The length of a literal of text that begins here, raw ones included.
fn text_literal(rest: &str) -> Option<usize> {
    let prefix = rest.find(|c| !matches!(c, 'b' | 'c' | 'r'))?;
    let (prefix, rest) = rest.split_at(prefix);
    if prefix.len() > 2 {
        return None;
    }
    let hashes = rest.find(|c| c != '#')?;
    if !rest[hashes..].starts_with('"') || (hashes > 0 && !prefix.contains('r')) {
        return None;
    }
    let body = &rest[hashes + 1..];
    let length = if prefix.contains('r') {
        let end = format!("\"{}", &rest[..hashes]);
        body.find(&end).map_or(body.len(), |i| i + end.len())
    } else {
        let mut escaped = false;
        let end = body.find(|c| {
            let is_end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            is_end
        });
        end.map_or(body.len(), |i| i + 1)
    };
    Some(prefix.len() + hashes + 1 + length)
}

/// The length of a character or of a lifetime.
fn quote(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((i, c))) => {
            let from = i + c.len_utf8();
            rest[from..].find('\'').map_or(rest.len(), |end| from + end + 1)
        }
        (Some(_), Some((i, '\''))) => i + 1,
        _ => rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |i| i + 1),
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut i = 0;
    while i < rest.len() {
        if rest[i..].starts_with("/*") {
            depth += 1;
            i += 2;
        } else if rest[i..].starts_with("*/") {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += rest[i..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Leaves out each item that follows `#[cfg(test)]`.
fn without_tests(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut i = 0;
    while i < tokens.len() {
        let is_mark =
            tokens[i..].len() >= MARK.len() && tokens[i..].iter().zip(MARK).all(|(t, m)| t.text == m);
        if is_mark {
            i = end_of_item(&tokens, i + MARK.len());
        } else {
            kept.push(tokens[i]);
            i += 1;
        }
    }
    kept
}

/// The index after the item that begins at `from`: after its `;`, or after its braces.
fn end_of_item(tokens: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return i + 1;
                }
            }
            ")" | "]" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let source = r##"a::b /* c /* d */ */ "e \" f" r#"g "h" i"# b"j" '\'' 'k' '\u{41}' &'l m // n
            o"##;
        assert_eq!(texts(source), ["a", "::", "b", "&", "m", "o"]);
        assert_eq!(tokens(source).last().map(|token| token.line), Some(2));
    }

    #[test]
    fn tests_are_left_out() {
        let source =
            "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x\"]\nmod more { fn f() { g() } }\nuse a;";
        assert_eq!(texts(source), ["use", "a", ";"]);
    }
}
