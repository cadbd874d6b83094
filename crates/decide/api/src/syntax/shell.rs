//! Commands that users copy into a shell.

use std::fmt::{self, Display, Write as _};

use serde::{Serialize, Serializer};

use super::obeyed::is_obeyed;

/// A command of a shell (POSIX, bash or zsh), or several that are connected by pipes. It is written with every word quoted: whatever
/// the words contain, the shell runs these programs with these words only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    programs: Vec<Vec<Word>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    /// Never an option, even if it begins with `-`.
    is_operand: bool,
}

impl Command {
    /// A program and its first words.
    pub fn new<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Command {
        Command { programs: vec![Vec::new()] }.words(words)
    }

    /// Adds words: subcommands, options and their values.
    pub fn words<T: Into<String>>(self, words: impl IntoIterator<Item = T>) -> Command {
        self.add(words, false)
    }

    /// Adds operands, such as names. If one begins with `-`, all of them come last, after `--`.
    pub fn operands<T: Into<String>>(self, words: impl IntoIterator<Item = T>) -> Command {
        self.add(words, true)
    }

    /// Adds a command that reads the output of this one.
    pub fn pipe(mut self, next: Command) -> Command {
        self.programs.extend(next.programs);
        self
    }

    pub fn lines(commands: &[Command]) -> String {
        commands.iter().map(Command::to_string).collect::<Vec<_>>().join("\n")
    }

    fn add<T: Into<String>>(mut self, words: impl IntoIterator<Item = T>, is_operand: bool) -> Command {
        let words = words.into_iter().map(|word| Word { text: word.into(), is_operand });
        match self.programs.last_mut() {
            Some(last) => last.extend(words),
            None => self.programs.push(words.collect()),
        }
        self
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, words) in self.programs.iter().enumerate() {
            f.write_str(if i > 0 { " | " } else { "" })?;
            let mut words: Vec<&Word> = words.iter().collect();
            let is_guarded = words.iter().any(|word| word.is_operand && word.text.starts_with('-'));
            if is_guarded {
                words.sort_by_key(|word| word.is_operand);
            }
            for (i, word) in words.iter().enumerate() {
                f.write_str(if i > 0 { " " } else { "" })?;
                if is_guarded
                    && word.is_operand
                    && !i.checked_sub(1).is_some_and(|before| words[before].is_operand)
                {
                    f.write_str("-- ")?;
                }
                f.write_str(&quoted(&word.text))?;
            }
        }
        Ok(())
    }
}

impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text as one word of a shell. What a terminal would obey is written as octal bytes in `$'...'`, which bash, zsh and POSIX.1-2024
/// read; a shell that does not gets another word, but runs nothing else.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,".contains(c);
    if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) {
        return text.to_owned();
    }
    if !text.contains(is_obeyed) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut quoted = "$'".to_owned();
    for c in text.chars() {
        if is_obeyed(c) || matches!(c, '\'' | '\\' | '!') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\{byte:03o}");
            }
        } else {
            quoted.push(c);
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    /// Names of objects that are commands, options, patterns, variables, ends of quotes and of lines.
    const HOSTILE: [&str; 14] = [
        "web;touch x;",
        "$(touch x)",
        "`touch x`",
        "'; touch x; '",
        "\\'; touch x; #",
        "a\ntouch x\n",
        "a\r\u{1b}[2J\u{9b}2J\u{202e}'; touch x; '\\",
        "--all",
        "=ls",
        "~root",
        "*",
        "!!",
        "\u{e4} | touch x & touch x > x",
        "",
    ];

    #[test]
    fn the_name_of_an_owner_ran_as_a_command_when_a_repair_was_pasted() {
        for shell in ["sh", "bash"] {
            let hostile = HOSTILE.iter().filter(|text| shell == "bash" || !text.contains(is_obeyed));
            for text in hostile {
                let command = Command::new(["printf", "[%s]"]).words(["-", text, "a b"]).to_string();
                assert!(!command.contains(is_obeyed), "{command:?}");
                let folder = tempfile::tempdir().unwrap();
                let ran = process::Command::new(shell).current_dir(&folder).args(["-c", &command]).output();
                let ran = ran.unwrap();
                assert_eq!(
                    String::from_utf8_lossy(&ran.stdout),
                    format!("[-][{text}][a b]"),
                    "{shell}: {command}"
                );
                assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{shell}: {command}");
            }
        }
    }

    #[test]
    fn an_operand_is_no_option() {
        let command = |node: &str| {
            Command::new(["kubectl", "label", "node"])
                .operands([node, "a=b"])
                .words(["--overwrite"])
                .to_string()
        };
        assert_eq!(command("n"), "kubectl label node n a=b --overwrite");
        assert_eq!(command("--all"), "kubectl label node --overwrite -- --all a=b");
        let piped = Command::new(["a"]).pipe(Command::new(["b"]).operands(["-c"]));
        assert_eq!(piped.to_string(), "a | b -- -c");
    }
}
