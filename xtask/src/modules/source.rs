//! One source file: the items that it defines, what it imports, and the paths that it names.

use std::collections::BTreeSet;

use proc_macro2::LexError;

use super::lex::{Token, tokens};

/// A path as written, `crate::state::Pod`, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub path: Vec<String>,
    pub line: usize,
}

/// One name that a `use` statement brings into scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub named: Named,
    /// The name in this file; none for `*`.
    pub name: Option<String>,
    /// Whether the statement hands the name on (`pub use`).
    pub is_reexport: bool,
}

/// Keywords before the name of an item.
const ITEMS: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];

#[derive(Debug, Default)]
pub struct Source {
    /// Modules in separate files.
    pub children: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths with at least two names, outside of `use`.
    pub paths: Vec<Named>,
    /// Items that stand here.
    pub defines: BTreeSet<String>,
    /// Names outside of `use` that stand alone.
    pub names: BTreeSet<String>,
}

impl Source {
    pub fn parse(text: &str) -> Result<Source, LexError> {
        let tokens = tokens(text)?;
        let mut source = Source::default();
        // The depth of braces at which each inline module ends.
        let mut inline = Vec::new();
        let (mut i, mut depth) = (0, 0);
        while i < tokens.len() {
            let next = |n: usize| tokens.get(i + n).map_or("", |token| token.text.as_str());
            match tokens[i].text.as_str() {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    inline.pop_if(|end| *end == depth);
                }
                "mod" if next(2) == ";" => {
                    source.children.insert(next(1).to_owned());
                    i += 2;
                }
                "mod" if next(2) == "{" => {
                    inline.push(depth);
                    depth += 1;
                    i += 2;
                }
                "use" => {
                    let is_reexport = i > 0 && matches!(tokens[i - 1].text.as_str(), "pub" | ")");
                    i = source.add_use(&tokens, i + 1, inline.len(), is_reexport);
                }
                _ if tokens[i].is_name() && (i == 0 || tokens[i - 1].text != "::") => {
                    let mut path = vec![tokens[i].text.clone()];
                    let line = tokens[i].line;
                    while i + 2 < tokens.len() && tokens[i + 1].text == "::" && tokens[i + 2].is_name() {
                        i += 2;
                        path.push(tokens[i].text.clone());
                    }
                    outward(&mut path, inline.len());
                    match &path[..] {
                        [keyword] if ITEMS.contains(&keyword.as_str()) => {
                            source.defines.extend(tokens.get(i + 1).map(|t| t.text.clone()));
                        }
                        [name] => {
                            source.names.insert(name.clone());
                        }
                        _ => source.paths.push(Named { path, line }),
                    }
                }
                _ => {}
            }
            i += 1;
        }
        Ok(source)
    }

    /// Adds the tree of a `use` statement, and returns the index of its end.
    fn add_use(&mut self, tokens: &[Token], from: usize, inline: usize, is_reexport: bool) -> usize {
        // The paths before each open brace.
        let mut prefixes: Vec<Vec<String>> = Vec::new();
        let mut path: Vec<String> = Vec::new();
        let mut alias: Option<String> = None;
        let mut i = from;
        while i < tokens.len() {
            let token = &tokens[i];
            match token.text.as_str() {
                "{" => prefixes.push(path.clone()),
                "as" => {
                    i += 1;
                    alias = tokens.get(i).map(|t| t.text.clone());
                }
                "," | "}" | ";" => {
                    if path
                        .last()
                        .is_some_and(|last| prefixes.last().map_or(0, Vec::len) < path.len() || last == "*")
                    {
                        self.import(path.clone(), alias.take(), token.line, inline, is_reexport);
                    }
                    if token.text == "}" {
                        prefixes.pop();
                    }
                    // What closes is no name by itself.
                    path = prefixes.last().cloned().unwrap_or_default();
                    if token.text == ";" {
                        return i;
                    }
                }
                "::" => {}
                name => path.push(name.to_owned()),
            }
            i += 1;
        }
        i
    }

    fn import(
        &mut self,
        mut path: Vec<String>,
        alias: Option<String>,
        line: usize,
        inline: usize,
        is_reexport: bool,
    ) {
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = match path.last().map(String::as_str) {
            None => return,
            Some("*") => {
                path.pop();
                None
            }
            Some(last) => Some(alias.unwrap_or_else(|| last.to_owned())),
        };
        outward(&mut path, inline);
        self.imports.push(Import { named: Named { path, line }, name, is_reexport });
    }
}

/// A path of an inline module as the file would write it: each `super` leaves one inline module.
fn outward(path: &mut Vec<String>, inline: usize) {
    let n = path.iter().take(inline).take_while(|name| *name == "super").count();
    if n > 0 {
        path.drain(..n);
        if path.first().is_none_or(|first| first != "super") {
            path.insert(0, "self".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<(String, Option<String>, bool)> {
        let imports = Source::parse(text).expect("the source is well-formed").imports.into_iter();
        imports.map(|i| (i.named.path.join("::"), i.name, i.is_reexport)).collect()
    }

    #[test]
    fn trees_of_use_become_paths() {
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(
            imports("pub(crate) use a::{self, b::{C, D as E}, f::*};\nuse super::G;\n"),
            [
                ("a".to_owned(), name("a"), true),
                ("a::b::C".to_owned(), name("C"), true),
                ("a::b::D".to_owned(), name("E"), true),
                ("a::f".to_owned(), None, true),
                ("super::G".to_owned(), name("G"), false),
            ]
        );
    }

    #[test]
    fn super_of_an_inline_module_is_the_file() {
        let source = Source::parse(
            "mod a;\nmod inner { fn f() { super::super::g(); super::h::i() } }\nfn x() { a::y() }",
        )
        .expect("the source is well-formed");
        let paths: Vec<String> = source.paths.iter().map(|p| p.path.join("::")).collect();
        assert_eq!(paths, ["super::g", "self::h::i", "a::y"]);
        assert_eq!(source.children.iter().collect::<Vec<_>>(), ["a"]);
    }
}
