//! Tokens to trees, after the grammar of the language's specification.
//!
//! The depth of the tree, and with it the stack of the parser, is limited.

use std::sync::Arc;

use crate::declare::overloads;
use crate::issue::Issue;
use crate::lexer::{Spanned, Token, tokens};
use crate::macros;
use crate::tree::{Id, Kind, Tree};
use crate::value::Value;

/// Limit of the depth of a tree.
pub(crate) const MAX_DEPTH: usize = 100;
/// Limit of the nodes of a tree.
const MAX_NODES: usize = 20_000;

const OPERAND_EXPECTED: &str = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, \
                                NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Words that are no names of variables.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether expressions cannot have a name because it means something else in them.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || ["true", "false", "null", "in"].contains(&name)
}

/// Whether a text can name a variable.
pub fn is_identifier(text: &str) -> bool {
    let is_letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    text.starts_with(is_letter)
        && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        && !is_reserved(text)
}

/// Binary operators with their functions and levels; a higher level binds closer.
const BINARY: [(&str, &str, u8); 12] = [
    ("<", "_<_", 1),
    ("<=", "_<=_", 1),
    (">", "_>_", 1),
    (">=", "_>=_", 1),
    ("==", "_==_", 1),
    ("!=", "_!=_", 1),
    ("in", "@in", 1),
    ("+", "_+_", 2),
    ("-", "_-_", 2),
    ("*", "_*_", 3),
    ("/", "_/_", 3),
    ("%", "_%_", 3),
];

pub(crate) fn parse(text: &str) -> Result<Tree, Issue> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0, tree: Tree::default() };
    let root = parser.expression()?;
    if *parser.peek() != Token::End {
        let token = parser.token_text();
        return Err(parser.issue(format!("Syntax error: extraneous input '{token}' expecting <EOF>")));
    }
    parser.tree.root = root;
    Ok(parser.tree)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned>,
    at: usize,
    depth: usize,
    tree: Tree,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn offset(&self) -> usize {
        self.tokens[self.at].start
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.at].token.clone();
        if token != Token::End {
            self.at += 1;
        }
        token
    }

    fn is_at(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(other) if *other == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is_at(symbol);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Issue> {
        if self.accept(symbol) {
            return Ok(());
        }
        let token = self.token_text();
        Err(self.issue(format!("Syntax error: mismatched input '{token}' expecting '{symbol}'")))
    }

    fn token_text(&self) -> &str {
        let Spanned { start, end, .. } = self.tokens[self.at];
        if start == end { "<EOF>" } else { &self.text[start..end] }
    }

    fn issue(&self, message: impl Into<String>) -> Issue {
        Issue::new(self.offset(), message)
    }

    fn add(&mut self, offset: usize, kind: Kind) -> Result<Id, Issue> {
        let id = self.tree.add(offset, kind);
        self.within_limits(offset, id)
    }

    fn within_limits(&self, offset: usize, id: Id) -> Result<Id, Issue> {
        if self.tree.nodes[id].depth > MAX_DEPTH || self.tree.nodes.len() > MAX_NODES {
            return Err(too_deep(offset));
        }
        Ok(id)
    }

    fn call(&mut self, offset: usize, function: &str, arguments: Vec<Id>) -> Result<Id, Issue> {
        self.add(offset, Kind::Call { function: function.into(), is_method: false, arguments })
    }

    fn expression(&mut self) -> Result<Id, Issue> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(self.offset()));
        }
        let condition = self.logical("||")?;
        let offset = self.offset();
        let id = if self.accept("?") {
            let then = self.logical("||")?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            self.call(offset, "_?_:_", vec![condition, then, otherwise])?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(id)
    }

    /// A chain of `||`, or of `&&`, as a balanced tree.
    fn logical(&mut self, operator: &str) -> Result<Id, Issue> {
        let (mut terms, mut offsets) = (Vec::new(), Vec::new());
        loop {
            terms.push(if operator == "||" { self.logical("&&")? } else { self.binary(1)? });
            offsets.push(self.offset());
            if !self.accept(operator) {
                break;
            }
        }
        offsets.pop();
        let function = if operator == "||" { "_||_" } else { "_&&_" };
        self.balanced(function, &terms, &offsets)
    }

    fn balanced(&mut self, function: &str, terms: &[Id], offsets: &[usize]) -> Result<Id, Issue> {
        if let [term] = terms {
            return Ok(*term);
        }
        let middle = offsets.len() / 2;
        let left = self.balanced(function, &terms[..=middle], &offsets[..middle])?;
        let right = self.balanced(function, &terms[middle + 1..], &offsets[middle + 1..])?;
        self.call(offsets[middle], function, vec![left, right])
    }

    fn binary(&mut self, level: u8) -> Result<Id, Issue> {
        let mut left = self.unary()?;
        loop {
            let Token::Symbol(symbol) = *self.peek() else { return Ok(left) };
            let operator = BINARY.iter().find(|(text, _, other)| *text == symbol && *other >= level);
            let Some((_, function, operator_level)) = operator else { return Ok(left) };
            let offset = self.offset();
            self.advance();
            let right = self.binary(operator_level + 1)?;
            left = self.call(offset, function, vec![left, right])?;
        }
    }

    /// Pairs of equal signs cancel out.
    fn unary(&mut self) -> Result<Id, Issue> {
        let offset = self.offset();
        let (sign, function) = match self.peek() {
            Token::Symbol("!") => ("!", "!_"),
            Token::Symbol("-") => ("-", "-_"),
            _ => return self.member(),
        };
        let mut is_odd = false;
        while self.accept(sign) {
            is_odd = !is_odd;
        }
        if !is_odd {
            return self.member();
        }
        let literal = match (sign, self.peek()) {
            ("-", Token::Int(number)) => Some(Value::Int(-number)),
            ("-", Token::MinInt) => Some(Value::Int(i64::MIN)),
            ("-", Token::Double(number)) => Some(Value::Double(-number)),
            _ => None,
        };
        match literal {
            Some(literal) => {
                self.advance();
                let literal = self.add(offset, Kind::Literal(literal))?;
                self.members_of(literal)
            }
            None => {
                let operand = self.member()?;
                self.call(offset, function, vec![operand])
            }
        }
    }

    fn member(&mut self) -> Result<Id, Issue> {
        let primary = self.primary()?;
        self.members_of(primary)
    }

    fn members_of(&mut self, mut operand: Id) -> Result<Id, Issue> {
        loop {
            let offset = self.offset();
            if self.accept(".") {
                if self.accept("?") {
                    let name_offset = self.offset();
                    let name = self.name()?;
                    let name = self.add(name_offset, Kind::Literal(Value::String(name)))?;
                    operand = self.call(offset, "_?._", vec![operand, name])?;
                    continue;
                }
                let name = self.name()?;
                let open = self.offset();
                operand = if self.accept("(") {
                    let arguments = self.list_until(")")?;
                    self.method(open, name, operand, arguments)?
                } else {
                    self.add(offset, Kind::Select { operand, field: name, test: false })?
                };
            } else if self.accept("[") {
                let function = if self.accept("?") { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                operand = self.call(offset, function, vec![operand, index])?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn method(&mut self, offset: usize, name: Arc<str>, target: Id, arguments: Vec<Id>) -> Result<Id, Issue> {
        if let Some(expanded) = macros::expand_method(&mut self.tree, offset, &name, target, &arguments)? {
            return self.within_limits(offset, expanded);
        }
        // A function of a library: `ip.isCanonical(text)`.
        if let Some(library) = macros::library(&self.tree, target) {
            let function = format!("{library}.{name}");
            if overloads(&function).is_some() {
                return self.call(offset, &function, arguments);
            }
        }
        let arguments = std::iter::once(target).chain(arguments).collect();
        self.add(offset, Kind::Call { function: name, is_method: true, arguments })
    }

    fn name(&mut self) -> Result<Arc<str>, Issue> {
        match self.peek() {
            Token::Name(_) => {
                let Token::Name(name) = self.advance() else { unreachable!("it was looked at") };
                Ok(name)
            }
            _ => {
                let token = self.token_text();
                Err(self.issue(format!("Syntax error: no viable alternative at input '.{token}'")))
            }
        }
    }

    /// Expressions up to a closing bracket.
    fn list_until(&mut self, close: &str) -> Result<Vec<Id>, Issue> {
        let mut list = Vec::new();
        if self.accept(close) {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if !self.accept(",") {
                self.expect(close)?;
                return Ok(list);
            }
        }
    }

    fn primary(&mut self) -> Result<Id, Issue> {
        let offset = self.offset();
        let literal = match self.peek() {
            Token::Int(number) => Value::Int(*number),
            Token::MinInt => return Err(self.issue("invalid int literal")),
            Token::Uint(number) => Value::Uint(*number),
            Token::Double(number) => Value::Double(*number),
            Token::String(text) => Value::String(text.clone()),
            Token::Bytes(bytes) => Value::Bytes(bytes.clone()),
            Token::Symbol("true") => Value::Bool(true),
            Token::Symbol("false") => Value::Bool(false),
            Token::Symbol("null") => Value::Null,
            _ => return self.structured(offset),
        };
        self.advance();
        self.add(offset, Kind::Literal(literal))
    }

    fn structured(&mut self, offset: usize) -> Result<Id, Issue> {
        if self.accept("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.accept("[") {
            let mut elements = Vec::new();
            while !self.accept("]") {
                let is_optional = self.accept("?");
                elements.push((self.expression()?, is_optional));
                if !self.accept(",") {
                    self.expect("]")?;
                    break;
                }
            }
            return self.add(offset, Kind::List(elements));
        }
        if self.accept("{") {
            let mut entries = Vec::new();
            while !self.accept("}") {
                let is_optional = self.accept("?");
                let key = self.expression()?;
                self.expect(":")?;
                entries.push((key, self.expression()?, is_optional));
                if !self.accept(",") {
                    self.expect("}")?;
                    break;
                }
            }
            return self.add(offset, Kind::Map(entries));
        }
        self.accept(".");
        let Token::Name(name) = self.peek().clone() else {
            let token = self.token_text();
            return Err(self.issue(format!("Syntax error: mismatched input '{token}' {OPERAND_EXPECTED}")));
        };
        if RESERVED.contains(&&*name) {
            return Err(self.issue(format!("reserved identifier: {name}")));
        }
        self.advance();
        let open = self.offset();
        if self.accept("(") {
            let arguments = self.list_until(")")?;
            if let Some(expanded) = macros::expand_function(&mut self.tree, open, &name, &arguments)? {
                return Ok(expanded);
            }
            return self.call(open, &name, arguments);
        }
        self.add(offset, Kind::Ident(name))
    }
}

fn too_deep(offset: usize) -> Issue {
    Issue::new(offset, "the expression is nested too deeply")
}
