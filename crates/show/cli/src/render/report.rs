//! Reports as text.

use std::io::{self, Write};

use berth_api::syntax::format::grouped;
use berth_api::syntax::obeyed::shown;
use berth_console::report::{Block, Part, Report, Span, Tone};
use berth_terminal::output::{ATTENTION, BAD, BOLD, DIM, GOOD, NL, Style};
use berth_terminal::table::{Cell, Table};

pub fn write(out: &mut impl Write, report: &Report) -> io::Result<()> {
    report.verdict.iter().try_for_each(|line| write_line(out, "", line))?;
    report.parts.iter().filter(|part| !part.blocks.is_empty()).try_for_each(|part| {
        writeln!(out)?;
        write_part(out, part)
    })
}

/// Writes the parts that are not empty, and an empty line after each.
pub fn write_parts(out: &mut impl Write, parts: &[Part]) -> io::Result<()> {
    for part in parts.iter().filter(|part| !part.blocks.is_empty()) {
        write_part(out, part)?;
        writeln!(out)?;
    }
    Ok(())
}

pub fn write_part(out: &mut impl Write, Part { heading, is_titled, blocks }: &Part) -> io::Result<()> {
    if *is_titled && !blocks.is_empty() {
        writeln!(out, "{BOLD}{heading}{BOLD:#}")?;
    }
    let indent = if *is_titled { "  " } else { "" };
    let is_below = *is_titled || matches!(blocks.first(), Some(Block::Line { .. }));
    for block in blocks {
        match block {
            Block::Table { headings, rows } => {
                let name = |Span { text, tone, .. }: &Span| match tone {
                    Tone::Strong => text.to_uppercase(),
                    _ => text.clone(),
                };
                let mut table = Table::new(headings.iter().map(name));
                let cell = |Span { text, tone, .. }: &Span| Cell::styled(text, style(*tone));
                rows.iter().for_each(|row| table.row(row.iter().map(cell)));
                table.write(out, if is_below { "  " } else { "" })?;
            }
            Block::Line { depth, spans } => {
                write_line(out, &(indent.to_owned() + &"  ".repeat(*depth)), spans)?
            }
            Block::More(n) => writeln!(out, "{indent}{DIM}and {} more; -o json has all{DIM:#}", grouped(*n))?,
        }
    }
    Ok(())
}

fn write_line(out: &mut impl Write, indent: &str, spans: &[Span]) -> io::Result<()> {
    write!(out, "{indent}")?;
    for Span { text, tone, .. } in spans.iter().filter(|span| !span.text.is_empty()) {
        let (style, text) = (style(*tone), shown(text));
        write!(out, "{style}{text}{style:#}")?;
    }
    write!(out, "{NL}")
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain | Tone::Path => Style::Plain,
        Tone::Strong => BOLD,
        Tone::Good => GOOD,
        Tone::Attention => ATTENTION,
        Tone::Bad => BAD,
        Tone::Dim => DIM,
    }
}

#[cfg(test)]
mod tests {
    use berth_console::report::explanation::summary;
    use berth_input::inventory::Inventory;
    use berth_simulate::{Simulation, SimulationOptions};

    use super::*;

    #[test]
    fn an_explanation_has_at_most_20_lines_with_the_verdict_the_repair_and_three_rules() {
        let node = |i: usize| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, labels: {{zone: z{i}, kubernetes.io/hostname: n{i}}}}},
                  spec: {{taints: [{{key: t{i}, effect: NoSchedule}}]}}, status: {{allocatable: {{cpu: {i}, pods: 9}}}}}}\n---\n
                  {{apiVersion: v1, kind: Pod, metadata: {{name: x{i}, labels: {{app: x}}}}, spec: {{nodeName: n{i}, containers:
                  [{{name: c, image: i}}]}}, status: {{phase: Running}}}}\n---\n"
            )
        };
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: x}}, spec: {nodeSelector: {a: b, c: d},
            topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}],
            affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
            {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}},
            containers: [{name: c, image: i}]}}";
        let text = (0..30).map(node).collect::<String>() + pod;
        let inventory = Inventory::from_text(&text).expect("the text is well-formed");
        let simulation = Simulation::new(inventory, SimulationOptions::default());
        let mut simulation = simulation.expect("the objects are valid");
        let explained = simulation.explain("default", "p", None).expect("the pod exists");
        let mut out = Vec::new();
        write(&mut out, &summary(&explained, true)).expect("it is memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().count() <= 20, "{text}");
        let n_rules = text.lines().filter(|line| line.contains("excludes 30 nodes")).count();
        assert!(n_rules == 3 && text.contains("repair") && text.contains("--all shows"), "{text}");
    }
}
