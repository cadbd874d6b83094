//! UpSet plots: sets as rows, their intersections as columns (Lex, Gehlenborg, Strobelt, Vuillemot and Pfister, 2014).

use crate::{Anchor, Class, HEADING, MARGIN, Picture, scaled, shortened, text_width};

const MAX_NAME: usize = 300;
/// Height of a row, and width of a column.
const CELL: usize = 22;
/// Longest bar of a column and of a row.
const COLUMN_BAR: usize = 120;
const ROW_BAR: usize = 110;
const RADIUS: usize = 7;
/// Room of a number next to a bar.
const NUMBER: usize = 48;

#[derive(Clone, Debug, Default)]
pub struct UpSet {
    pub title: String,
    /// What the plot shows, for screen readers.
    pub description: String,
    /// The sets, from top to bottom.
    pub sets: Vec<Set>,
    /// The intersections, from left to right.
    pub intersections: Vec<Intersection>,
    /// Lines below the plot.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Set {
    pub name: String,
    /// Its title; begins with the name.
    pub title: String,
    pub size: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Intersection {
    /// Positions of the sets, ascending.
    pub sets: Vec<usize>,
    pub title: String,
    /// Number of elements that are in these sets and in no others.
    pub size: usize,
    /// Whether it needs attention: it gets another color and an exclamation mark.
    pub alert: bool,
}

impl UpSet {
    pub fn svg(&self) -> String {
        let plot = Layout::new(self);
        let mut picture = Picture::new(plot.width, plot.height, &self.title, &self.description);
        picture.text(Class::Heading, Anchor::Start, (MARGIN, MARGIN + 12), &self.title);
        self.rows(&plot, &mut picture);
        self.columns(&plot, &mut picture);
        for (i, note) in self.notes.iter().enumerate() {
            let y = plot.top + self.sets.len() * CELL + MARGIN + (i + 1) * CELL - 6;
            picture.text(Class::Note, Anchor::Start, (MARGIN, y), note);
        }
        picture.finish()
    }

    fn rows(&self, plot: &Layout, picture: &mut Picture) {
        let largest = self.sets.iter().map(|set| set.size).max().unwrap_or(0);
        for (i, set) in self.sets.iter().enumerate() {
            let y = plot.top + i * CELL;
            picture.group(&set.title, |picture| {
                if i % 2 == 0 {
                    picture.rectangle(Class::Stripe, (MARGIN, y), (plot.width - 2 * MARGIN, CELL));
                }
                let baseline = y + CELL - 7;
                picture.text(
                    Class::Label,
                    Anchor::Start,
                    (MARGIN + 4, baseline),
                    &shortened(&set.name, MAX_NAME),
                );
                let length = scaled(set.size, largest, ROW_BAR);
                let end = plot.left - CELL;
                picture.text(Class::Note, Anchor::End, (end - length - 6, baseline), &set.size.to_string());
                picture.rectangle(Class::Bar, (end - length, y + 5), (length, CELL - 10));
            });
        }
    }

    fn columns(&self, plot: &Layout, picture: &mut Picture) {
        let largest = self.intersections.iter().map(|intersection| intersection.size).max().unwrap_or(0);
        for (i, intersection) in self.intersections.iter().enumerate() {
            let (x, class) =
                (plot.left + i * CELL + CELL / 2, if intersection.alert { Class::Alert } else { Class::Bar });
            let center = |row: &usize| (x, plot.top + row * CELL + CELL / 2);
            picture.group(&intersection.title, |picture| {
                let length = scaled(intersection.size, largest, COLUMN_BAR);
                let y = plot.top - MARGIN - length;
                picture.rectangle(class, (x - 6, y), (12, length));
                let mark = if intersection.alert { "!" } else { "" };
                let size = format!("{mark}{}", intersection.size);
                picture.text(Class::Note, Anchor::Middle, (x, y - 5), &size);
                for row in (0..self.sets.len()).filter(|row| !intersection.sets.contains(row)) {
                    picture.circle(Class::Faint, center(&row), RADIUS - 3);
                }
                if let (Some(first), Some(last)) = (intersection.sets.first(), intersection.sets.last()) {
                    picture.stroke(class, center(first), center(last));
                }
                for row in &intersection.sets {
                    picture.circle(class, center(row), RADIUS);
                }
            });
        }
    }
}

struct Layout {
    /// Left end of the columns.
    left: usize,
    /// Top of the rows.
    top: usize,
    width: usize,
    height: usize,
}

impl Layout {
    fn new(plot: &UpSet) -> Layout {
        let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let names = longest(&mut plot.sets.iter().map(|set| text_width(&set.name).min(MAX_NAME)));
        let left = MARGIN + 4 + names + NUMBER + ROW_BAR + CELL;
        let top = HEADING + CELL + COLUMN_BAR + MARGIN;
        let texts = longest(&mut plot.notes.iter().map(|note| text_width(note)));
        // The heading is larger than a label.
        let texts = texts.max(text_width(&plot.title) * 13 / 10);
        let width = (left + plot.intersections.len() * CELL).max(MARGIN + texts) + MARGIN;
        let height = top + plot.sets.len() * CELL + MARGIN + plot.notes.len() * CELL + MARGIN;
        Layout { left, top, width, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_is_a_row_and_each_intersection_a_column() {
        let set = |name: &str, size| Set { name: name.to_owned(), title: name.to_owned(), size };
        let intersection = |sets: &[usize], size, alert| Intersection {
            sets: sets.to_vec(),
            title: format!("{size} elements"),
            size,
            alert,
        };
        let plot = UpSet {
            title: "Sets".to_owned(),
            sets: vec![set("first", 7), set("second", 4), set("third", 2)],
            intersections: vec![intersection(&[0], 4, false), intersection(&[0, 1], 3, true)],
            ..UpSet::default()
        };
        let svg = plot.svg();
        let n = |text: &str| svg.matches(text).count();
        assert_eq!((n("<g><title>"), n("class=\"stripe\""), n("<line ")), (5, 2, 2), "{svg}");
        // One set of three, and two sets of three.
        assert_eq!(
            (n("<circle class=\"bar\""), n("<circle class=\"alert\""), n("<circle class=\"faint\"")),
            (1, 2, 3)
        );
        assert!(svg.contains("<g><title>3 elements</title>") && svg.contains(">!3</text>"), "{svg}");
        let empty = UpSet::default().svg();
        assert!(empty.starts_with("<svg ") && empty.ends_with("</svg>\n"), "{empty}");
    }
}
