//! Texts of expressions to tokens.

use std::sync::Arc;

use crate::issue::Issue;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Int(i64),
    /// 2⁶³, which is a literal after a minus sign only.
    MinInt,
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Name(Arc<str>),
    /// Operators, brackets, and the words `true`, `false`, `null` and `in`.
    Symbol(&'static str),
    End,
}

/// A token with the byte offsets of its text.
#[derive(Clone, Debug)]
pub(crate) struct Spanned {
    pub token: Token,
    pub start: usize,
    pub end: usize,
}

/// Longer symbols before their beginnings.
const SYMBOLS: [&str; 26] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=", "|",
];
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Reads all tokens; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, Issue> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let start = lexer.at;
        let token = lexer.next()?;
        let is_end = token == Token::End;
        tokens.push(Spanned { token, start, end: lexer.at });
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("//") {
                return;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
    }

    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().take_while(|byte| is_part(*byte)).count();
        self.at += len;
        &rest[..len]
    }

    fn next(&mut self) -> Result<Token, Issue> {
        let rest = self.rest();
        let mut bytes = rest.bytes();
        let Some(first) = bytes.next() else { return Ok(Token::End) };
        let second = bytes.next().unwrap_or_default();
        if first.is_ascii_digit() || (first == b'.' && second.is_ascii_digit()) {
            return self.number();
        }
        if let Some(literal) = self.quoted()? {
            return Ok(literal);
        }
        if first.is_ascii_alphabetic() || first == b'_' {
            let name = self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let word = WORDS.iter().find(|word| **word == name);
            return Ok(word.map_or_else(|| Token::Name(name.into()), |word| Token::Symbol(word)));
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol @ (&"=" | &"|")) => Err(self.unknown(symbol)),
            Some(symbol) => {
                self.at += symbol.len();
                Ok(Token::Symbol(symbol))
            }
            None => Err(self.unknown(&rest[..rest.chars().next().map_or(0, char::len_utf8)])),
        }
    }

    fn unknown(&self, text: &str) -> Issue {
        Issue::new(self.at, format!("Syntax error: token recognition error at: '{text}'"))
    }

    fn number(&mut self) -> Result<Token, Issue> {
        let start = self.at;
        if self.rest().starts_with("0x") && self.rest()[2..].starts_with(|c: char| c.is_ascii_hexdigit()) {
            self.at += 2;
            let digits = self.take_while(|byte| byte.is_ascii_hexdigit());
            return self.whole(start, digits, 16);
        }
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let mut is_double = false;
        let mut rest = self.rest().bytes();
        if rest.next() == Some(b'.') && rest.next().is_some_and(|byte| byte.is_ascii_digit()) {
            is_double = true;
            self.at += 1;
            self.take_while(|byte| byte.is_ascii_digit());
        }
        if let Some(exponent) = self.rest().strip_prefix(['e', 'E']) {
            let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if unsigned.starts_with(|c: char| c.is_ascii_digit()) {
                is_double = true;
                self.at = self.text.len() - unsigned.len();
                self.take_while(|byte| byte.is_ascii_digit());
            }
        }
        if !is_double {
            return self.whole(start, digits, 10);
        }
        match self.text[start..self.at].parse() {
            Ok(double) => Ok(Token::Double(double)),
            Err(_) => Err(Issue::new(start, "invalid double literal")),
        }
    }

    fn whole(&mut self, start: usize, digits: &str, radix: u32) -> Result<Token, Issue> {
        let number = u64::from_str_radix(digits, radix);
        if self.rest().starts_with(['u', 'U']) {
            self.at += 1;
            return number.map(Token::Uint).map_err(|_| Issue::new(start, "invalid uint literal"));
        }
        match number.map(|number| (number, i64::try_from(number))) {
            Ok((_, Ok(number))) => Ok(Token::Int(number)),
            Ok((number, _)) if number == 1 << 63 => Ok(Token::MinInt),
            _ => Err(Issue::new(start, "invalid int literal")),
        }
    }

    /// A string or bytes, if there is one.
    fn quoted(&mut self) -> Result<Option<Token>, Issue> {
        let start = self.at;
        let (mut is_raw, mut is_bytes) = (false, false);
        let mut rest = self.rest();
        loop {
            match rest.bytes().next() {
                Some(b'r' | b'R') if !is_raw => is_raw = true,
                Some(b'b' | b'B') if !is_bytes => is_bytes = true,
                Some(b'\'' | b'"') => break,
                _ => return Ok(None),
            }
            rest = &rest[1..];
        }
        let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| rest.starts_with(quote));
        let Some(quote) = quote else { return Ok(None) };
        let body = &rest[quote.len()..];
        let unfinished = || {
            let text: String = self.text[start..].chars().take(40).collect();
            Issue::new(start, format!("Syntax error: token recognition error at: '{text}'"))
        };
        let mut len = 0;
        loop {
            let left = &body[len..];
            if left.starts_with(quote) {
                break;
            }
            let mut chars = left.chars();
            match chars.next() {
                None => return Err(unfinished()),
                Some('\n' | '\r') if quote.len() == 1 => return Err(unfinished()),
                Some('\\') if !is_raw => {
                    len += 1 + chars.next().map_or(0, char::len_utf8);
                }
                Some(other) => len += other.len_utf8(),
            }
        }
        self.at = self.text.len() - body.len() + len + quote.len();
        let body = &body[..len];
        if is_bytes {
            let bytes = if is_raw { Some(body.as_bytes().to_vec()) } else { unescape_bytes(body) };
            let bytes = bytes.ok_or_else(|| Issue::new(start, "invalid bytes literal"))?;
            return Ok(Some(Token::Bytes(bytes.into())));
        }
        let string = if is_raw { Some(body.to_owned()) } else { unescape(body) };
        let string = string.ok_or_else(|| Issue::new(start, "invalid string literal"))?;
        Ok(Some(Token::String(string.into())))
    }
}

enum Escape {
    Char(char),
    /// `\x` and octal sequences: a byte in bytes, a code point in strings.
    Code(u8),
}

/// Reads an escape sequence after its backslash.
fn escape(chars: &mut std::str::Chars<'_>) -> Option<Escape> {
    let kind = chars.next()?;
    let mut number = |start: u32, radix: u32, len: usize| {
        (0..len).try_fold(start, |value, _| Some(value * radix + chars.next()?.to_digit(radix)?))
    };
    Some(match kind {
        '0'..='3' => Escape::Code(u8::try_from(number(kind.to_digit(8)?, 8, 2)?).ok()?),
        'x' | 'X' => Escape::Code(u8::try_from(number(0, 16, 2)?).ok()?),
        'u' => Escape::Char(char::from_u32(number(0, 16, 4)?)?),
        'U' => Escape::Char(char::from_u32(number(0, 16, 7)?.checked_mul(16)? + number(0, 16, 1)?)?),
        'a' => Escape::Char('\u{7}'),
        'b' => Escape::Char('\u{8}'),
        'f' => Escape::Char('\u{c}'),
        'n' => Escape::Char('\n'),
        'r' => Escape::Char('\r'),
        't' => Escape::Char('\t'),
        'v' => Escape::Char('\u{b}'),
        '\\' | '\'' | '"' | '`' | '?' => Escape::Char(kind),
        _ => return None,
    })
}

fn unescape(body: &str) -> Option<String> {
    let mut text = String::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(next) = chars.next() {
        text.push(match next {
            '\\' => match escape(&mut chars)? {
                Escape::Char(char) => char,
                Escape::Code(code) => char::from(code),
            },
            other => other,
        });
    }
    Some(text)
}

fn unescape_bytes(body: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(next) = chars.next() {
        let char = match next {
            '\\' => match escape(&mut chars)? {
                Escape::Char(char) => char,
                Escape::Code(code) => {
                    bytes.push(code);
                    continue;
                }
            },
            other => other,
        };
        bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(bytes)
}
