//! Horizontal bars in sections: counts, sums of parts, and counts against a limit.

use crate::{Anchor, Class, HEADING, Key, MARGIN, Picture, ROW, legend_rows, scaled, shortened, text_width};

const BAR: usize = 300;
const MAX_NAME: usize = 420;
/// Widest note behind a bar.
const MAX_NOTE: usize = 420;

/// Sections of bars. The bars of a section have one scale.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    pub title: String,
    /// What the bars show, for screen readers.
    pub description: String,
    /// From top to bottom.
    pub sections: Vec<Section>,
    /// Lines below the bars.
    pub notes: Vec<String>,
}

/// Bars that are compared with each other.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub name: String,
    /// What the classes mean.
    pub legend: Vec<Key>,
    /// From top to bottom.
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    /// Its title; begins with the name.
    pub title: String,
    /// Its parts, from left to right.
    pub parts: Vec<(Class, usize)>,
    /// Text behind the bar.
    pub note: String,
    /// A line across the bar.
    pub limit: Option<usize>,
}

impl Row {
    fn total(&self) -> usize {
        self.parts.iter().map(|(_, size)| size).sum()
    }
}

impl Bars {
    pub fn svg(&self) -> String {
        let rows = || self.sections.iter().flat_map(|section| &section.rows);
        let longest = rows().map(|row| text_width(&row.name).min(MAX_NAME)).max().unwrap_or(0);
        let left = MARGIN + longest + 12;
        let notes = rows().map(|row| text_width(&row.note).min(MAX_NOTE)).max().unwrap_or(0);
        let texts = self.sections.iter().map(|s| &s.name).chain(&self.notes).chain([&self.title]);
        let texts = texts.map(|text| text_width(text) * 13 / 10).max().unwrap_or(0);
        let width = (left + BAR + 8 + notes).max(MARGIN + texts) + MARGIN;
        let height_of = |s: &Section| ROW + legend_rows(&s.legend, width) * ROW + s.rows.len() * ROW + MARGIN;
        let height =
            HEADING + self.sections.iter().map(height_of).sum::<usize>() + self.notes.len() * ROW + MARGIN;
        let mut picture = Picture::new(width, height, &self.title, &self.description);
        picture.text(Class::Heading, Anchor::Start, (MARGIN, MARGIN + 12), &self.title);
        let mut y = HEADING + 4;
        for section in &self.sections {
            picture.text(Class::Label, Anchor::Start, (MARGIN, y + 14), &section.name);
            y += ROW;
            y += picture.legend(&section.legend, y, width) * ROW;
            let sizes = section.rows.iter().flat_map(|row| [row.total(), row.limit.unwrap_or(0)]);
            let largest = sizes.max().unwrap_or(0);
            for (i, row) in section.rows.iter().enumerate() {
                picture.group(&row.title, |picture| {
                    if i % 2 == 0 {
                        picture.rectangle(Class::Stripe, (MARGIN, y), (width - 2 * MARGIN, ROW));
                    }
                    row.draw(picture, (left, y), largest);
                });
                y += ROW;
            }
            y += MARGIN;
        }
        for (i, note) in self.notes.iter().enumerate() {
            picture.text(Class::Note, Anchor::Start, (MARGIN, y + (i + 1) * ROW - 6), note);
        }
        picture.finish()
    }
}

impl Row {
    fn draw(&self, picture: &mut Picture, (left, y): (usize, usize), largest: usize) {
        let baseline = y + ROW - 7;
        let name = shortened(&self.name, MAX_NAME);
        picture.text(Class::Note, Anchor::Start, (MARGIN + 4, baseline), &name);
        let mut before = 0;
        for (class, size) in &self.parts {
            let start = scaled(before, largest, BAR);
            let end = scaled(before + size, largest, BAR);
            picture.rectangle(*class, (left + start, y + 4), (end - start, ROW - 8));
            before += size;
        }
        if let Some(limit) = self.limit {
            let x = left + scaled(limit, largest, BAR);
            picture.stroke(Class::Alert, (x, y + 1), (x, y + ROW - 1));
        }
        let end = left + scaled(before.max(self.limit.unwrap_or(0)), largest, BAR) + 8;
        picture.text(Class::Note, Anchor::Start, (end, baseline), &shortened(&self.note, MAX_NOTE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_a_limit_is_a_line() {
        let row = |name: &str, parts: &[usize], limit| Row {
            name: name.to_owned(),
            title: name.to_owned(),
            parts: parts.iter().enumerate().map(|(i, size)| (Class::Kind(i), *size)).collect(),
            note: parts.iter().sum::<usize>().to_string(),
            limit,
        };
        let rows = vec![row("a", &[1, 2], Some(4)), row("b", &[0], None)];
        let section = Section { name: "counts".to_owned(), rows, ..Section::default() };
        let svg = Bars { title: "Bars".to_owned(), sections: vec![section], ..Bars::default() }.svg();
        // A quarter and two quarters of the longest bar.
        assert!(
            svg.contains("kind0\" x=\"36\" y=\"64\" width=\"75\"")
                && svg.contains("x=\"111\" y=\"64\" width=\"150\""),
            "{svg}"
        );
        assert_eq!((svg.matches("<line ").count(), svg.matches("width=\"0\"").count()), (1, 1), "{svg}");
        assert!(Bars::default().svg().ends_with("</svg>\n"));
    }
}
