//! The picture at the beginning of the README: a terminal with commands and what they print.

use std::fmt::Write as _;

use berth_testkit::documents::repository;
use berth_testkit::programs::difference;

use crate::program::berth;

/// Commands with the number of lines that are shown.
const COMMANDS: [(&str, usize); 3] = [
    ("explain --dump examples/unschedulable database-1", 3),
    ("what-if --dump examples/maintenance/cluster.yaml --drain worker-1", 3),
    ("capacity --dump examples/outage/cluster.yaml deploy/web --target 12 --like b1", 6),
];
const MAX_COLUMNS: usize = 104;
const WIDTH: usize = 848;
const ROW: usize = 19;
const MARGIN: usize = 16;
const STYLE: &str = "rect{fill:#101418}text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee6;white-space:pre}\
                     .prompt{fill:#7f8b99}.bold{font-weight:700}.dim{fill:#7f8b99}.bad{fill:#ff7b72}.attention{fill:#e3b341}.good{fill:#56d364}";

/// A class of the style for a code that selects it.
fn class(code: &str) -> &str {
    match code {
        "1" => "bold",
        "2" => "dim",
        "31" => "bad",
        "32" => "good",
        "33" => "attention",
        other => panic!("the picture has no style for {other}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A printed line as text elements, cut at the right border.
fn spans(line: &str) -> String {
    let (mut spans, mut left) = (String::new(), MAX_COLUMNS);
    for (i, piece) in line.split("\u{1b}[").enumerate() {
        let (code, text) = if i == 0 { ("0", piece) } else { piece.split_once('m').unwrap() };
        let mut shown: String = text.chars().take(left).collect();
        left -= shown.chars().count();
        if left == 0 && shown.len() < text.len() {
            shown = shown.chars().take(shown.chars().count() - 1).chain(['…']).collect();
        }
        match (code, shown.as_str()) {
            (_, "") => {}
            ("0" | "", shown) => spans += &escaped(shown),
            (code, shown) => _ = write!(spans, "<tspan class=\"{}\">{}</tspan>", class(code), escaped(shown)),
        }
    }
    spans
}

fn picture() -> String {
    let mut lines = Vec::new();
    for (command, n_lines) in COMMANDS {
        let arguments: Vec<&str> = ["--color", "always"].into_iter().chain(command.split(' ')).collect();
        let ran = berth(&repository(), &arguments, b"");
        lines.push(format!("<tspan class=\"prompt\">$</tspan> berth {command}"));
        lines.extend(ran.stdout.lines().take(n_lines).map(spans));
        lines.push(String::new());
    }
    lines.pop();
    let (width, height) = (WIDTH, lines.len() * ROW + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
         <title>Why a pod is pending, whether a change is safe, how many nodes are needed</title>\n<style>{STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
    );
    for (i, line) in lines.iter().enumerate() {
        _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{}\">{line}</text>", MARGIN + 13 + i * ROW);
    }
    svg + "</svg>\n"
}

#[test]
fn the_terminal_of_the_readme_shows_what_the_commands_print() {
    let picture = picture();
    super::check(&picture);
    let wrong = difference(&repository().join("docs/terminal.svg"), &picture);
    assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
}
