//! `berth` as a kubectl plugin: `kubectl berth` runs a program named `kubectl-berth`, and completes its arguments with
//! `kubectl_complete-berth`. Both are this binary under another name.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use berth_terminal::output;
use clap::{Arg, ArgAction, Command};

const PLUGIN: &str = "kubectl-berth";
const COMPLETER: &str = "kubectl_complete-berth";

/// What the name of the program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Program,
    Plugin,
    Completer,
}

impl Role {
    /// The role of a program that was started under this name.
    pub fn of(program: Option<OsString>) -> Role {
        let name = program.and_then(|path| Some(Path::new(&path).file_stem()?.to_owned()));
        match name {
            Some(name) if name == PLUGIN => Role::Plugin,
            Some(name) if name == COMPLETER => Role::Completer,
            _ => Role::Program,
        }
    }
}

/// The command with help texts that name `kubectl berth`.
pub fn as_plugin(command: Command) -> Command {
    renamed(command.bin_name("kubectl berth"))
}

fn renamed(mut command: Command) -> Command {
    let plugin = |text: &str| {
        let lines = text.split_inclusive('\n').map(|line| line.replace("berth ", "kubectl berth "));
        lines.collect::<String>()
    };
    if let Some(help) = command.get_after_help().map(|help| plugin(&help.to_string())) {
        command = command.after_help(help);
    }
    let usage = command.clone().render_usage().to_string();
    // Its own usage, which does not follow the name.
    if let Some(usage) = usage.strip_prefix("Usage: berth ") {
        command = command.override_usage(plugin(&format!("berth {usage}")));
    }
    command.mut_subcommands(renamed)
}

/// Arguments with `--live` where a command of the plugin reads a cluster and none is named: the plugin works on the cluster
/// that kubectl uses.
pub fn with_default_cluster(command: &Command, mut words: Vec<OsString>) -> Vec<OsString> {
    const CLUSTERS: [&str; 6] = ["files", "dump", "live", "kubeconfig", "context", "recording"];
    let (mut current, mut after, mut pending) = (command, None, false);
    for (i, word) in words.iter().enumerate().skip(1) {
        let word = word.to_string_lossy();
        if std::mem::take(&mut pending) {
            continue;
        }
        if word == "--" {
            break;
        }
        if !word.starts_with('-') {
            if let (Some(subcommand), None) = (current.find_subcommand(&*word), after) {
                (current, after) = (subcommand, Some(i + 1));
            }
            continue;
        }
        let (name, has_value) = word.split_once('=').map_or((&*word, false), |(name, _)| (name, true));
        let global = || argument(command, name);
        let Some(found) = argument(current, name).or_else(global) else { continue };
        if CLUSTERS.contains(&found.get_id().as_str()) {
            return words;
        }
        // A short flag may have its value in the same word.
        let has_value = has_value || !name.starts_with("--") && name.chars().count() > 2;
        pending = takes_value(found) && !has_value;
    }
    let reads_cluster = current.get_arguments().any(|arg| arg.get_id() == "live");
    if let Some(after) = after.filter(|_| reads_cluster) {
        words.insert(after, "--live".into());
    }
    words
}

/// Prints the candidates for the last word, in the form that kubectl reads: one a line, then what the shell does with them.
pub fn complete(command: &Command, words: &[String]) -> io::Result<()> {
    let (candidates, directive) = candidates(command, words);
    let mut out = output::stdout();
    for (candidate, about) in candidates {
        let tab = if about.is_empty() { "" } else { "\t" };
        writeln!(out, "{candidate}{tab}{about}")?;
    }
    writeln!(out, ":{directive}")?;
    out.flush()
}

/// The shell completes names of files.
const FILES: u8 = 0;
/// The shell completes nothing else.
const NO_FILES: u8 = 4;

fn candidates(command: &Command, words: &[String]) -> (Vec<(String, String)>, u8) {
    let (partial, before) = words.split_last().map_or(("", words), |(last, before)| (last.as_str(), before));
    let (mut command, mut pending) = (command, None);
    for word in before {
        if pending.take().is_none() {
            if word.starts_with('-') {
                pending = argument(command, word).filter(|arg| takes_value(arg));
            } else if let Some(subcommand) = command.find_subcommand(word) {
                command = subcommand;
            }
        }
    }
    let about = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
    let value_of = |arg: &Arg| -> Vec<(String, String)> {
        let values = arg.get_possible_values();
        values.iter().map(|value| (value.get_name().to_owned(), about(value.get_help()))).collect()
    };
    let mut found = match pending {
        Some(arg) => value_of(arg),
        None if partial.starts_with('-') => {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            shown.filter_map(|arg| Some((format!("--{}", arg.get_long()?), about(arg.get_help())))).collect()
        }
        None => {
            let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
            let subcommands = subcommands.map(|sub| (sub.get_name().to_owned(), about(sub.get_about())));
            subcommands.chain(command.get_positionals().flat_map(value_of)).collect()
        }
    };
    let directive = if found.is_empty() { FILES } else { NO_FILES };
    found.retain(|(candidate, _)| candidate.starts_with(partial));
    (found, directive)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// The argument that a word names: `--config`, `-f`.
fn argument<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').and_then(|rest| rest.chars().next());
    command.get_arguments().find(|arg| match long {
        Some(long) => arg.get_long() == Some(long),
        None => short.is_some() && arg.get_short() == short,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn the_name_of_the_program_decides() {
        let role = |path: &str| Role::of(Some(path.into()));
        assert_eq!(role("/usr/bin/kubectl-berth"), Role::Plugin);
        assert_eq!(role("kubectl-berth.exe"), Role::Plugin);
        assert_eq!(role("./kubectl_complete-berth"), Role::Completer);
        assert_eq!((role("berth"), Role::of(None)), (Role::Program, Role::Program));
    }

    #[test]
    fn help_texts_name_the_plugin() {
        let mut command = as_plugin(Cli::command());
        command.build();
        for name in ["explain", "simulate", "version"] {
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            let own = help.match_indices("berth ").filter(|(at, _)| !help[..*at].ends_with("kubectl "));
            let prose =
                |line: &str| line.contains("schedulerName") || line.contains("berth simulate` places");
            let wrong: Vec<_> =
                own.map(|(at, _)| help[at..].lines().next().unwrap()).filter(|l| !prose(l)).collect();
            assert!(help.contains("Usage: kubectl berth ") && wrong.len() < 3, "{name}: {wrong:?}");
        }
    }

    #[test]
    fn without_a_cluster_the_plugin_reads_that_of_kubectl() {
        let command = Cli::command();
        let live = |line: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            let words = with_default_cluster(&command, words);
            words.iter().any(|word| word == "--live")
        };
        for line in ["explain web-0", "explain -n team web-0", "audit", "--color never explain -ojson web-0"]
        {
            assert!(live(&format!("kubectl-berth {line}")), "{line}");
        }
        for line in [
            "explain -f dump.yaml web-0",
            "explain -fdump.yaml web-0",
            "explain web-0 --dump=dump.yaml",
            "explain --recording dir web-0",
            "audit --context staging",
            "version",
            "up",
            "",
        ] {
            assert!(!live(&format!("kubectl-berth {line}")), "{line}");
        }
    }

    #[test]
    fn words_are_completed() {
        let command = Cli::command();
        let found = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let (found, directive) = candidates(&command, &words);
            (found.into_iter().map(|(word, _)| word).collect::<Vec<_>>(), directive)
        };
        assert_eq!(found(&["expl"]), (vec!["explain".to_owned()], NO_FILES));
        assert_eq!(found(&["explain", "--nod"]).0[..2], ["--nodes".to_owned(), "--node-cpu".to_owned()]);
        assert_eq!(found(&["explain", "-o", "j"]), (vec!["json".to_owned()], NO_FILES));
        assert_eq!(found(&["explain", "-f", ""]), (vec![], FILES));
        assert_eq!(found(&["--color", "al"]), (vec!["always".to_owned()], NO_FILES));
    }
}
