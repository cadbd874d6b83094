//! Splits Rust source into the few kinds of tokens that imports consist of.

use proc_macro2::{Delimiter, LexError, Spacing, TokenStream, TokenTree};

/// A token with the line it begins on, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    /// Whether the token is a name or a keyword.
    pub fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The names, `::` and punctuation of a source. Comments, literals and items under `#[cfg(test)]` are left out.
pub fn tokens(source: &str) -> Result<Vec<Token>, LexError> {
    let mut tokens = Vec::new();
    add(source.parse()?, &mut tokens);
    Ok(tokens)
}

fn add(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        let line = tree.span().start().line;
        let mut push = |text: &str| tokens.push(Token { text: text.to_owned(), line });
        match tree {
            TokenTree::Literal(_) => {}
            TokenTree::Ident(name) => push(&name.to_string()),
            TokenTree::Punct(sign) => match (sign.as_char(), trees.peek()) {
                (':', Some(TokenTree::Punct(next)))
                    if sign.spacing() == Spacing::Joint && next.as_char() == ':' =>
                {
                    trees.next();
                    push("::");
                }
                // The name of a lifetime.
                ('\'', _) => _ = trees.next(),
                ('#', Some(attribute)) if attribute.to_string().replace(' ', "") == "[cfg(test)]" => {
                    trees.next();
                    trees.by_ref().find(ends_item);
                }
                (sign, _) => push(&sign.to_string()),
            },
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::None => ("", ""),
                };
                push(open);
                add(group.stream(), tokens);
                let line = group.span_close().start().line;
                tokens.push(Token { text: close.to_owned(), line });
            }
        }
    }
}

fn ends_item(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Punct(sign) => sign.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        tokens(source).expect("the source is well-formed").into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let source = r##"a::b /* c /* d */ */ "e \" f" r#"g "h" i"# b"j" '\'' 'k' '\u{41}' &'l m // n
            o"##;
        assert_eq!(texts(source), ["a", "::", "b", "&", "m", "o"]);
        assert_eq!(tokens(source).expect("well-formed").last().map(|token| token.line), Some(2));
    }

    #[test]
    fn tests_are_left_out() {
        let source =
            "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"x\"]\nmod more { fn f() { g() } }\nuse a;";
        assert_eq!(texts(source), ["use", "a", ";"]);
    }
}
