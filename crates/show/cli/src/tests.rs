//! Tests that the documents match the command line: all commands in them are valid, and docs/flags.md lists all flags.

use std::fmt::Write as _;
use std::fs;

use berth_api::read::{ReadError, read_manifests};
use berth_testkit::documents::blocks::{blocks, commands};
use berth_testkit::documents::repository;
use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Cli;

/// Prefixes of Berth commands.
const PREFIXES: [&[&str]; 2] = [&["berth"], &["cargo", "run", "--release", "--"]];

#[test]
fn all_commands_in_the_documents_are_valid() {
    let mut wrong = String::new();
    let mut n_commands = 0;
    for block in blocks().into_iter().filter(|block| block.language == "sh") {
        for words in commands(&block.text, &PREFIXES) {
            n_commands += 1;
            let line = std::iter::once("berth".to_owned()).chain(words.clone());
            if let Err(error) = Cli::command().try_get_matches_from(line)
                && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
            {
                writeln!(wrong, "{}: berth {}\n{error}", block.place(), words.join(" ")).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(n_commands > 20, "only {n_commands} commands were found");
}

#[test]
fn arguments_of_containers_in_the_documents_are_valid() {
    let mut n_containers = 0;
    for block in blocks().into_iter().filter(|block| block.language == "yaml") {
        read_manifests::<ReadError>(block.text.as_bytes(), &block.place(), &mut |manifest| {
            for container in manifest.value["spec"]["containers"].as_array().into_iter().flatten() {
                let image = container["image"].as_str().unwrap_or_default();
                if !image.contains("/berth:") {
                    continue;
                }
                n_containers += 1;
                let args = container["args"].as_array().into_iter().flatten().filter_map(|arg| arg.as_str());
                let line = std::iter::once("berth").chain(args);
                if let Err(error) = Cli::command().try_get_matches_from(line) {
                    panic!("{}: {error}", block.place());
                }
            }
            Ok(())
        })
        .unwrap();
    }
    assert!(n_containers > 0, "no container of Berth was found");
}

#[test]
fn the_list_of_flags_is_complete() {
    let mut command = Cli::command();
    command.build();
    let mut text = "# Flags\n\nAll commands with their flags, generated from the command line. `berth help COMMAND` shows the same text with \
                    examples.\n\nTo update this file, run `BERTH_UPDATE_GOLDEN=1 cargo test -p berth-cli the_list_of_flags`.\n"
        .to_owned();
    text.push_str("\n## All commands\n\n| flag | default | description |\n|---|---|---|\n");
    for arg in command.get_arguments().filter(|arg| arg.is_global_set() && !arg.is_hide_set()) {
        text.push_str(&row(arg));
    }
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        describe(subcommand, "berth", 2, &mut text);
    }
    let path = repository().join("docs/flags.md");
    if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let first = text.lines().zip(written.lines()).find(|(made, written)| made != written);
    assert!(
        text == written,
        "docs/flags.md differs from the command line, first in {first:?}; BERTH_UPDATE_GOLDEN=1 updates it"
    );
}

fn describe(command: &Command, before: &str, level: usize, text: &mut String) {
    let name = format!("{before} {}", command.get_name());
    let about = command.get_about().map(plain).unwrap_or_default();
    writeln!(text, "\n{} `{name}`\n\n{about}.", "#".repeat(level)).unwrap();
    let args: Vec<_> =
        command.get_arguments().filter(|arg| !arg.is_hide_set() && !is_everywhere(arg)).collect();
    if !args.is_empty() {
        text.push_str("\n| flag | default | description |\n|---|---|---|\n");
    }
    for arg in args {
        text.push_str(&row(arg));
    }
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        describe(subcommand, &name, level + 1, text);
    }
}

fn row(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(plain).unwrap_or_default();
    format!("| {} | {} | {help}{} |\n", flag(arg), defaults(arg), possible(arg))
}

/// `--help`, `--color` and `--kubernetes` are the same for all commands.
fn is_everywhere(arg: &Arg) -> bool {
    arg.is_global_set()
        || matches!(arg.get_action(), ArgAction::Help | ArgAction::Version)
        || arg.get_id() == "help"
}

fn flag(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    match arg.get_long() {
        Some(long) if arg.get_action().takes_values() => format!("{short}`--{long} {values}`"),
        Some(long) => format!("{short}`--{long}`"),
        None => format!("`{values}`"),
    }
}

fn defaults(arg: &Arg) -> String {
    let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if values.is_empty() || !arg.get_action().takes_values() {
        return String::new();
    }
    format!("`{}`", values.join(","))
}

fn possible(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<_> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) }
}

/// The text on one line, with paragraphs as sentences and escaped for a table cell.
fn plain(text: &StyledStr) -> String {
    let on_one_line = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.to_string().replace('|', "\\|");
    let paragraphs: Vec<_> = text.split("\n\n").map(on_one_line).collect();
    paragraphs.iter().map(|p| p.trim_end_matches('.')).collect::<Vec<_>>().join(". ")
}
