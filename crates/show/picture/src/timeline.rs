//! Timelines: rows of columns over the same time.

use crate::{Anchor, Class, HEADING, MARGIN, Picture, ROW, scaled, shortened, text_width};

/// Width of the time.
const WIDTH: usize = 900;
const HEIGHT: usize = 70;
const MAX_NAME: usize = 200;

#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub title: String,
    /// What the timeline shows, for screen readers.
    pub description: String,
    /// The beginning of each interval of equal length, from left to right.
    pub intervals: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<Series>,
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// A value for each interval.
    pub values: Vec<usize>,
    pub class: Class,
}

impl Timeline {
    pub fn svg(&self) -> String {
        let longest = self.rows.iter().map(|row| text_width(&row.name).min(MAX_NAME)).max().unwrap_or(0);
        let left = MARGIN + longest + 60;
        let width = (left + WIDTH).max(text_width(&self.title) * 13 / 10) + 2 * MARGIN;
        let height = HEADING + self.rows.len() * (HEIGHT + 10) + ROW + MARGIN;
        let n_intervals = self.intervals.len().max(1);
        let x = |i: usize| left + i * WIDTH / n_intervals;

        let mut picture = Picture::new(width, height, &self.title, &self.description);
        picture.text(Class::Heading, Anchor::Start, (MARGIN, MARGIN + 12), &self.title);
        for (r, row) in self.rows.iter().enumerate() {
            let top = HEADING + r * (HEIGHT + 10);
            let bottom = top + HEIGHT;
            let largest = row.values.iter().copied().max().unwrap_or(0);
            picture.rectangle(Class::Stripe, (left, top), (WIDTH, HEIGHT));
            let name = shortened(&row.name, MAX_NAME);
            picture.text(Class::Label, Anchor::Start, (MARGIN, top + HEIGHT / 2), &name);
            picture.text(Class::Note, Anchor::End, (left - 6, top + 12), &largest.to_string());
            picture.text(Class::Note, Anchor::End, (left - 6, bottom), "0");
            for (i, value) in row.values.iter().enumerate().filter(|(_, value)| **value > 0) {
                let length = scaled(*value, largest, HEIGHT);
                let wide = (x(i + 1) - x(i)).max(1);
                let title = format!("{}: {value} {}", self.intervals[i], row.name);
                picture.group(&title, |picture| {
                    picture.rectangle(row.class, (x(i), bottom - length), (wide, length));
                });
            }
        }
        let y = HEADING + self.rows.len() * (HEIGHT + 10) + 10;
        let every = self.intervals.len().div_ceil(6).max(1);
        for (i, interval) in self.intervals.iter().enumerate().step_by(every) {
            picture.text(Class::Note, Anchor::Start, (x(i), y), interval);
        }
        picture.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_a_column() {
        let row = Series { name: "evictions".to_owned(), values: vec![0, 2, 4], class: Class::Bar };
        let intervals = ["10:00", "10:01", "10:02"].map(str::to_owned).to_vec();
        let svg = Timeline { intervals, rows: vec![row], ..Timeline::default() }.svg();
        assert!(svg.contains("<title>10:01: 2 evictions</title>") && !svg.contains(": 0 evictions"), "{svg}");
        assert!(svg.contains("height=\"35\"") && svg.contains("height=\"70\""), "{svg}");
        assert!(Timeline::default().svg().ends_with("</svg>\n"));
    }
}
