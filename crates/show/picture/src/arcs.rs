//! Arc diagrams: a column of names, and arcs between them (Wattenberg, 2002).

use crate::{Anchor, Class, HEADING, Key, MARGIN, Picture, ROW, legend_rows, shortened, text_width};

const MAX_NAME: usize = 380;
/// Widest text of an arc.
const MAX_TEXT: usize = 900;

#[derive(Clone, Debug, Default)]
pub struct Arcs {
    pub title: String,
    /// What the diagram shows, for screen readers.
    pub description: String,
    /// What the classes mean.
    pub legend: Vec<Key>,
    /// The names, from top to bottom.
    pub names: Vec<String>,
    pub arcs: Vec<Arc>,
    /// Lines below the diagram.
    pub notes: Vec<String>,
}

/// An arc from one name to another, or to itself.
#[derive(Clone, Debug)]
pub struct Arc {
    /// Position of the name where it begins.
    pub from: usize,
    /// Position of the name where it ends.
    pub to: usize,
    pub title: String,
    /// Text in the list below the diagram; none has no line there.
    pub text: String,
    pub class: Class,
    pub dashed: bool,
}

impl Arcs {
    pub fn svg(&self) -> String {
        let longest = self.names.iter().map(|name| text_width(name).min(MAX_NAME)).max().unwrap_or(0);
        let x = MARGIN + longest + 14;
        let reach = |arc: &Arc| (arc.from.abs_diff(arc.to) * ROW / 2).clamp(18, 420);
        let widest = self.arcs.iter().map(reach).max().unwrap_or(0);
        let texts = self.arcs.iter().map(|arc| text_width(&arc.text).min(MAX_TEXT));
        let texts = texts.chain(self.notes.iter().map(|note| text_width(note))).max().unwrap_or(0);
        let title = text_width(&self.title) * 13 / 10;
        let width = (x + widest + MARGIN).max(MARGIN + texts.max(title)).max(360) + MARGIN;
        let top = HEADING + legend_rows(&self.legend, width) * ROW + 8;
        let below = top + self.names.len() * ROW + MARGIN;
        let n_lines = self.arcs.iter().filter(|arc| !arc.text.is_empty()).count();
        let height = below + (n_lines + self.notes.len()) * ROW + MARGIN;

        let mut picture = Picture::new(width, height, &self.title, &self.description);
        picture.text(Class::Heading, Anchor::Start, (MARGIN, MARGIN + 12), &self.title);
        picture.legend(&self.legend, HEADING, width);
        let middle = |i: usize| top + i * ROW + ROW / 2;
        for (i, name) in self.names.iter().enumerate() {
            let name = shortened(name, MAX_NAME);
            picture.text(Class::Label, Anchor::End, (x - 8, middle(i) + 4), &name);
        }
        for (i, arc) in self.arcs.iter().enumerate() {
            picture.group(&arc.title, |picture| {
                // Arcs to itself begin above and end below its middle.
                let aside = if arc.from == arc.to { 7 } else { 0 };
                let ends = (middle(arc.from) - aside, middle(arc.to) + aside);
                picture.arc(arc.class, x, ends, reach(arc), arc.dashed);
                if !arc.text.is_empty() {
                    let y = below + (i + 1) * ROW - 6;
                    picture.text(Class::Note, Anchor::Start, (MARGIN, y), &shortened(&arc.text, MAX_TEXT));
                }
            });
        }
        for (i, note) in self.notes.iter().enumerate() {
            let y = below + (n_lines + i + 1) * ROW - 6;
            picture.text(Class::Note, Anchor::Start, (MARGIN, y), note);
        }
        picture.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arc_has_a_curve_a_head_and_a_line_of_text() {
        let arc = |from, to, dashed| Arc {
            from,
            to,
            title: "title".to_owned(),
            text: "text".to_owned(),
            class: Class::Kind(0),
            dashed,
        };
        let names = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let arcs = vec![arc(0, 2, false), arc(1, 1, true)];
        let svg = Arcs { names, arcs, ..Arcs::default() }.svg();
        let n = |text: &str| svg.matches(text).count();
        assert_eq!((n("<path "), n("stroke-dasharray"), n(">text</text>")), (4, 1, 2), "{svg}");
        assert!(Arcs::default().svg().ends_with("</svg>\n"));
    }
}
