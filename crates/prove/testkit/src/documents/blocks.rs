//! Code blocks of the documents, and the commands in them.
//!
//! The first word of a block is its language, the others select its test; CONTRIBUTING.md lists them.

use std::fs;
use std::path::{Path, PathBuf};

use super::repository;

#[derive(Clone, Debug)]
pub struct Block {
    /// The document, from the root of the repository.
    pub file: String,
    /// Line of its first fence, from 1.
    pub line: usize,
    /// The first word after the fence.
    pub language: String,
    pub words: Vec<String>,
    /// The lines between the fences.
    pub text: String,
}

impl Block {
    /// Whether it has this word after the language.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }

    /// Its location, for messages.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// All blocks of README.md and docs/.
///
/// # Panics
/// A document cannot be read, or a block does not end.
pub fn blocks() -> Vec<Block> {
    let root = repository();
    let docs = fs::read_dir(root.join("docs")).expect("no documents found");
    let mut files: Vec<_> = docs.map(|entry| entry.expect("a document").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "md"));
    files.sort();
    files.extend([root.join("docs/lint/README.md"), root.join("README.md")]);
    let shown = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a document is text");
    files.iter().flat_map(|path| blocks_of(&shown(path), &read(path))).collect()
}

fn blocks_of(file: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (i, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let mut words = info.split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let (file, words) = (file.to_owned(), words.collect());
                open = Some(Block { file, line: i + 1, language, words, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{file}: a block does not end");
    blocks
}

/// The commands of a script that start with one of these prefixes, as lists of words. Supports pipes, lists, line
/// continuations, comments, quotes and leading assignments; a substitution is a word.
pub fn commands(script: &str, beginnings: &[&[&str]]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for words in simple_commands(script) {
        let skipped = words.iter().take_while(|word| is_assignment(word)).count();
        for beginning in beginnings {
            let rest = &words[skipped..];
            if rest.len() >= beginning.len() && rest.iter().zip(*beginning).all(|(a, b)| a == b) {
                found.push(rest[beginning.len()..].to_vec());
            }
        }
    }
    found
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|next| *next != c));
            }
            '$' if chars.peek() == Some(&'(') => {
                let word = word.get_or_insert_default();
                word.extend(chars.by_ref().take_while(|next| *next != ')'));
            }
            '#' if word.is_none() => while chars.next_if(|next| *next != '\n').is_some() {},
            '>' | '<' => {
                // The target of a redirection is not an argument.
                word = None;
                while chars.next_if(|next| *next == ' ').is_some() {}
                while chars.next_if(|next| !next.is_whitespace() && !";|&".contains(*next)).is_some() {}
            }
            '|' | ';' | '&' | '\n' => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed_like_in_a_shell() {
        let script = "A=1 berth up -f x  # berth no\nkubectl get pods -o json | berth simulate -f - \\\n  --nodes '1 2'\n\
                  berth install > out.yaml; berth explain \"$(cat name)\" && other berth";
        let found = commands(script, &[&["berth"]]);
        let expected = [
            &["up", "-f", "x"][..],
            &["simulate", "-f", "-", "--nodes", "1 2"],
            &["install"],
            &["explain", "$(cat name)"],
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_have_a_language_and_words() {
        let blocks = blocks_of("x.md", "text\n```sh cluster\na\nb\n```\n```\nc\n```\n");
        let seen: Vec<_> = blocks.iter().map(|b| (b.line, b.language.as_str(), b.text.as_str())).collect();
        assert_eq!(seen, [(2, "sh", "a\nb\n"), (6, "", "c\n")]);
        assert!(blocks[0].has("cluster") && !blocks[1].has("cluster"));
    }
}
