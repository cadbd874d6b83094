//! Reports as one value: `berth` writes them as text, pages and files show them as HTML. The verdict comes first, then what matters
//! most; what was so before comes last.

pub mod capacity;
pub mod compare;
pub mod explanation;
pub(crate) mod html;
pub mod lint;
mod markdown;
pub mod not_running;
pub mod rebalance;
pub mod rule;
pub mod sets;
pub mod upgrade;
pub mod what_if;

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_engine::{Verdict, Witness};
use berth_simulate::Repair;

use crate::links;

/// A line of texts and pieces with a meaning.
#[macro_export]
macro_rules! line {
    ($($piece:expr),* $(,)?) => { vec![$($crate::report::Span::from($piece)),*] };
}
pub use crate::line;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Good,
    Attention,
    Bad,
    Dim,
    /// The path of a field.
    Path,
}

/// A piece of a text, or a cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Span {
    pub text: String,
    pub tone: Tone,
    /// The page about it.
    link: Option<String>,
}

impl<T: ToString> From<T> for Span {
    fn from(text: T) -> Span {
        toned(Tone::Plain, text)
    }
}

impl Span {
    fn pod(namespace: &str, name: &str) -> Span {
        Span { link: Some(links::pod(namespace, name)), ..format!("{namespace}/{name}").into() }
    }

    fn node(name: &str) -> Span {
        Span { link: Some(links::node(name)), ..name.into() }
    }
}

pub fn toned(tone: Tone, text: impl ToString) -> Span {
    Span { text: text.to_string(), tone, link: None }
}

pub fn strong(text: impl ToString) -> Span {
    toned(Tone::Strong, text)
}

pub fn good(text: impl ToString) -> Span {
    toned(Tone::Good, text)
}

pub fn attention(text: impl ToString) -> Span {
    toned(Tone::Attention, text)
}

pub fn bad(text: impl ToString) -> Span {
    toned(Tone::Bad, text)
}

pub fn dim(text: impl ToString) -> Span {
    toned(Tone::Dim, text)
}

/// A number; one of what is bad stands out, unless it is zero.
fn count(n: usize) -> Span {
    toned(if n == 0 { Tone::Plain } else { Tone::Bad }, grouped(n))
}

fn workload(namespace: &str, workload: Option<&str>, without: &str) -> Span {
    Span { link: workload.map(|name| links::workload(namespace, name)), ..workload.unwrap_or(without).into() }
}

pub enum Block {
    /// The headings that are no names of the cluster are [`Tone::Strong`].
    Table { headings: Vec<Span>, rows: Vec<Vec<Span>> },
    /// A line, the deeper ones below the one that they belong to.
    Line { depth: usize, spans: Vec<Span> },
    /// How many there are of what is not listed.
    More(usize),
}

#[derive(Default)]
pub struct Part {
    pub heading: String,
    /// Whether a text has the heading, too: without it, the first line or column says what the part is about.
    pub is_titled: bool,
    pub blocks: Vec<Block>,
}

impl Part {
    pub fn titled(heading: impl Into<String>) -> Part {
        Part { heading: heading.into(), is_titled: true, blocks: Vec::new() }
    }

    /// A table of the first `max` items; nothing without items.
    pub fn table<T>(
        &mut self,
        headings: &[&str],
        items: impl IntoIterator<Item = T>,
        max: usize,
        row: impl FnMut(T) -> Vec<Span>,
    ) {
        self.table_with(headings.iter().map(strong), items, max, row);
    }

    pub fn table_with<T>(
        &mut self,
        headings: impl IntoIterator<Item = Span>,
        items: impl IntoIterator<Item = T>,
        max: usize,
        row: impl FnMut(T) -> Vec<Span>,
    ) {
        let mut items = items.into_iter();
        let rows: Vec<_> = items.by_ref().take(max).map(row).collect();
        if !rows.is_empty() {
            self.blocks.push(Block::Table { headings: headings.into_iter().collect(), rows });
        }
        self.more(items.count());
    }

    pub fn more(&mut self, n: usize) {
        self.blocks.extend((n > 0).then_some(Block::More(n)));
    }

    pub fn line(&mut self, depth: usize, spans: impl IntoIterator<Item = Span>) {
        self.blocks.push(Block::Line { depth, spans: spans.into_iter().collect() });
    }
}

/// What a command or a page answers.
#[derive(Default)]
pub struct Report {
    /// What is the case, in one line or few.
    pub verdict: Vec<Vec<Span>>,
    pub is_good: bool,
    /// Those without blocks are left out.
    pub parts: Vec<Part>,
}

impl Report {
    /// Adds a part, which has a heading in pages only.
    pub fn part(&mut self, heading: impl Into<String>) -> &mut Part {
        self.add(Part { is_titled: false, ..Part::titled(heading) })
    }

    pub fn titled(&mut self, heading: impl Into<String>) -> &mut Part {
        self.add(Part::titled(heading))
    }

    /// Adds another report, whose verdict stands under a title.
    pub fn append(&mut self, title: &str, other: Report) {
        self.verdict.extend(
            other
                .verdict
                .first()
                .map(|first| line![format!("{title}: ")].into_iter().chain(first.iter().cloned()).collect()),
        );
        let part = self.titled(title);
        other.verdict.into_iter().for_each(|spans| part.line(0, spans));
        self.parts.extend(other.parts);
    }

    fn add(&mut self, part: Part) -> &mut Part {
        self.parts.push(part);
        self.parts.last_mut().expect("it was pushed")
    }
}

/// Why a rule does not hold, and the numbers and pods behind it.
pub fn verdict(verdict: &Verdict) -> [Vec<Span>; 2] {
    let Verdict { plugin, reason, term, detail, topology, counts, witnesses, more_witnesses, .. } = verdict;
    let topology_text = topology.as_ref().map(|pair| format!("; {pair}")).unwrap_or_default();
    let counts = counts.as_ref().map(|counts| format!("; {}", counts.text(topology.as_ref())));
    let mut why = vec![Span::from(format!("{detail}{topology_text}{}", counts.unwrap_or_default()))];
    why.extend(caused_by(witnesses, *more_witnesses));
    let mut rule = vec![strong(plugin.name())];
    rule.extend(term.iter().flat_map(|term| [" ".into(), toned(Tone::Path, term)]));
    rule.push(format!(": {reason}").into());
    [rule, why]
}

/// `; caused by default/a on n1 and 2 more`.
fn caused_by(witnesses: &[Witness], more: usize) -> Vec<Span> {
    let mut spans = Vec::new();
    for (i, Witness { namespace, name, node }) in witnesses.iter().enumerate() {
        spans.push(if i == 0 { "; caused by " } else { ", " }.into());
        spans.extend([Span::pod(namespace, name), " on ".into(), Span::node(node)]);
    }
    spans.extend((more > 0 && !witnesses.is_empty()).then(|| format!(" and {} more", grouped(more)).into()));
    spans
}

/// What would let a pod be placed, with the commands.
pub fn repairs(repairs: &[Repair]) -> Part {
    let mut part = Part::titled("Verified repairs, smallest change first");
    for repair in repairs {
        let then = format!("- {repair}: fits on ");
        part.line(0, [then.into(), good(repair.result())]);
        repair.commands.iter().for_each(|command| part.line(1, [format!("$ {command}").into()]));
    }
    part
}

/// `zone` for `topology.kubernetes.io/zone`.
pub fn domain_name(topology_key: &str) -> &str {
    topology_key.rsplit('/').next().unwrap_or(topology_key)
}

/// Those that are not zero: a number, what it counts, and the rest of its words.
fn listed(counts: &[(usize, &str, &str)]) -> String {
    let counts = counts.iter().filter(|(n, ..)| *n > 0);
    counts.map(|(n, what, rest)| format!("{}{rest}", counted(*n, what))).collect::<Vec<_>>().join(", ")
}

/// The first of many names, which a text has after the numbers.
fn named(names: &[impl std::fmt::Display]) -> String {
    abbreviated(names, 4)
}
