//! Maps of cells: domains as boxes, in them parts as rows, in these cells with a level, as a gauge.
//!
//! With few cells, each has its name and the items in it. With many, a cell is a small square.

use crate::{Anchor, Class, HEADING, Key, MARGIN, Picture, ROW, legend_rows, shortened, text_width};

const WIDTH: usize = 1160;
/// Most cells that are drawn with their name and items.
pub const MAX_LARGE: usize = 60;
/// Width of a cell with a name and items, and its height without items.
const LARGE: (usize, usize) = (180, 27);
/// Size of a cell as a square.
const SMALL: (usize, usize) = (15, 15);
const GAP: usize = 3;
/// Items in a row of a cell, their size, and the rows.
const ITEM: usize = 14;
const ITEMS_IN_ROW: usize = 11;
const ITEM_ROWS: usize = 2;
/// Widest name of a part.
const MAX_NAME: usize = 140;

#[derive(Clone, Debug, Default)]
pub struct CellMap {
    /// The width in pixels; 0 for that of a page.
    pub width: usize,
    pub title: String,
    /// What the map shows, for screen readers.
    pub description: String,
    /// What classes and marks mean.
    pub legend: Vec<Key>,
    /// From top to bottom.
    pub domains: Vec<Domain>,
    pub outside: Option<Outside>,
    /// Lines below the map.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct Domain {
    pub name: String,
    /// What is to be said about it.
    pub note: String,
    /// Where a click on its name leads.
    pub link: Option<String>,
    /// Rows of cells.
    pub parts: Vec<Part>,
}

/// Cells that belong together.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its name; empty for the only part of a domain.
    pub name: String,
    /// Where a click on its name leads.
    pub link: Option<String>,
    /// From left to right.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub name: String,
    /// Its title; begins with the name.
    pub title: String,
    /// The part that is filled, in percent.
    pub level: usize,
    /// The look of the filled part.
    pub class: Class,
    /// A character in the cell.
    pub mark: Option<char>,
    /// A few words beside the name.
    pub note: String,
    pub items: Vec<Item>,
    /// Parts of it that are too many for names: a point each.
    pub points: Vec<Class>,
    /// Where a click on it leads.
    pub link: Option<String>,
    /// Whether it is the one that the page is about.
    pub is_selected: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Item {
    pub title: String,
    pub class: Class,
    pub mark: char,
    /// Where a click on it leads.
    pub link: Option<String>,
    pub presence: Presence,
    /// Items with the same number belong together.
    pub group: Option<usize>,
    /// Whether the page is about it, or about something that it has to do with.
    pub relation: Relation,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    #[default]
    Is,
    /// It is not there, but could nearly be.
    Nearly,
    /// It will not be there any more.
    Leaves,
    /// It was not there before.
    Arrives,
}

/// What an item has to do with the one that a page is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Relation {
    #[default]
    None,
    /// It is the one, or of the same group.
    Same,
    /// A rule is about it.
    Partner,
    /// It is in the same cell.
    Neighbor,
}

/// Items that are in no cell.
#[derive(Clone, Debug, Default)]
pub struct Outside {
    pub name: String,
    pub items: Vec<Item>,
}

impl CellMap {
    pub fn svg(&self) -> String {
        let page_width = if self.width == 0 { WIDTH } else { self.width };
        let parts = || self.domains.iter().flat_map(|domain| &domain.parts);
        let n_cells: usize = parts().map(|part| part.cells.len()).sum();
        let is_large = n_cells <= MAX_LARGE;
        let longest = parts().map(|part| text_width(&part.name).min(MAX_NAME)).max().unwrap_or(0);
        let left = MARGIN + 8 + if longest > 0 { longest + 10 } else { 0 };
        let most_items = parts().flat_map(|part| &part.cells).map(|cell| cell.items.len()).max().unwrap_or(0);
        let item_rows = most_items.div_ceil(ITEMS_IN_ROW).min(ITEM_ROWS);
        let large = (LARGE.0, LARGE.1 + item_rows * (ITEM + 2) + 4);
        let (width, height) = if is_large { large } else { SMALL };
        let n_columns = ((page_width - MARGIN - left) / (width + GAP)).max(1);
        let part_height = |part: &Part| part.cells.len().div_ceil(n_columns).max(1) * (height + GAP) + 4;
        let domain_height = |d: &Domain| ROW + d.parts.iter().map(part_height).sum::<usize>() + 10;

        let items_in_row = (page_width - 2 * MARGIN) / (ITEM + 2);
        let outside_height =
            self.outside.as_ref().map_or(0, |o| ROW + o.items.len().div_ceil(items_in_row) * (ITEM + 2) + 10);
        let top = HEADING + legend_rows(&self.legend, page_width) * ROW + 8;
        let total = top
            + self.domains.iter().map(domain_height).sum::<usize>()
            + outside_height
            + self.notes.len() * ROW
            + MARGIN;

        let mut picture = Picture::new(page_width, total, &self.title, &self.description);
        picture.text(Class::Heading, Anchor::Start, (MARGIN, MARGIN + 12), &self.title);
        picture.legend(&self.legend, HEADING, page_width);
        let mut y = top;
        for domain in &self.domains {
            let text = domain.text();
            picture.group(&text, |picture| {
                let size = (page_width - 2 * MARGIN, domain_height(domain) - 8);
                picture.rectangle(Class::Stripe, (MARGIN, y), size);
                picture.text(Class::Label, Anchor::Start, (MARGIN + 8, y + 15), &text);
            });
            y += ROW;
            for part in &domain.parts {
                let name = shortened(&part.name, MAX_NAME);
                picture.text(Class::Note, Anchor::Start, (MARGIN + 8, y + 12), &name);
                for (i, cell) in part.cells.iter().enumerate() {
                    let (column, row) = (i % n_columns, i / n_columns);
                    let corner = (left + column * (width + GAP), y + row * (height + GAP));
                    cell.draw(&mut picture, corner, is_large);
                }
                y += part_height(part);
            }
            y += 10;
        }
        if let Some(outside) = &self.outside {
            picture.text(Class::Label, Anchor::Start, (MARGIN, y + 15), &outside.name);
            for (i, item) in outside.items.iter().enumerate() {
                let x = MARGIN + i % items_in_row * (ITEM + 2);
                item.draw(&mut picture, (x, y + ROW + i / items_in_row * (ITEM + 2)));
            }
            y += outside_height;
        }
        for (i, note) in self.notes.iter().enumerate() {
            picture.text(Class::Note, Anchor::Start, (MARGIN, y + (i + 1) * ROW - 6), note);
        }
        picture.finish()
    }
}

impl Domain {
    /// The name, and what is to be said about it.
    pub fn text(&self) -> String {
        if self.note.is_empty() { self.name.clone() } else { format!("{}: {}", self.name, self.note) }
    }
}

impl Cell {
    fn draw(&self, picture: &mut Picture, (x, y): (usize, usize), is_large: bool) {
        let level = self.level.min(100);
        picture.linked(self.link.as_deref(), is_large, &self.title, |picture| {
            if !is_large {
                let filled = (SMALL.1 * level).div_ceil(100);
                picture.area(Class::Faint, (x, y), SMALL);
                if filled > 0 {
                    picture.area(self.class, (x, y + SMALL.1 - filled), (SMALL.0, filled));
                }
                if let Some(mark) = self.mark {
                    picture.mark((x + SMALL.0 / 2, y + SMALL.1 - 4), mark);
                }
                return;
            }
            let mark = self.mark.map(|mark| format!("{mark} ")).unwrap_or_default();
            let name = format!("{mark}{}", self.name);
            let name = shortened(&name, LARGE.0 - 20);
            picture.text(Class::Label, Anchor::Start, (x, y + 12), &name);
            picture.rectangle(Class::Faint, (x, y + 17), (LARGE.0 - 12, 6));
            picture.rectangle(self.class, (x, y + 17), ((LARGE.0 - 12) * level / 100, 6));
        });
        if !is_large {
            return;
        }
        let room = ITEMS_IN_ROW * ITEM_ROWS;
        let n_shown = if self.items.len() > room { room - 2 } else { self.items.len() };
        let place =
            |i: usize| (x + i % ITEMS_IN_ROW * (ITEM + 1), y + LARGE.1 + i / ITEMS_IN_ROW * (ITEM + 2));
        for (i, item) in self.items[..n_shown].iter().enumerate() {
            item.draw(picture, place(i));
        }
        if n_shown < self.items.len() {
            let (x, y) = place(n_shown);
            let more = format!("+{}", self.items.len() - n_shown);
            picture.text(Class::Note, Anchor::Start, (x, y + 11), &more);
        }
    }
}

impl Item {
    fn draw(&self, picture: &mut Picture, (x, y): (usize, usize)) {
        picture.linked(self.link.as_deref(), false, &self.title, |picture| {
            match self.presence {
                Presence::Is | Presence::Arrives => picture.rectangle(self.class, (x, y), (ITEM, ITEM)),
                // Only its lower edge: the place is empty.
                Presence::Nearly | Presence::Leaves => {
                    picture.rectangle(Class::Stripe, (x, y), (ITEM, ITEM));
                    picture.rectangle(self.class, (x, y + ITEM - 3), (ITEM, 3));
                }
            }
            picture.mark((x + ITEM / 2, y + ITEM - 4), self.mark);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(n_cells: usize, n_items: usize) -> String {
        let item = Item { title: "item".to_owned(), class: Class::Kind(1), mark: 'a', ..Item::default() };
        let cell = |i: usize| Cell {
            name: format!("cell-{i}"),
            title: format!("cell-{i}: 40 %"),
            level: 40,
            class: Class::Bar,
            items: vec![item.clone(); n_items],
            ..Cell::default()
        };
        let cells = (0..n_cells).map(cell).collect();
        let part = Part { name: "rack".to_owned(), cells, link: None };
        let domain = Domain { name: "zone".to_owned(), parts: vec![part], ..Domain::default() };
        let outside = Outside { name: "pending".to_owned(), items: vec![item; 3] };
        let (domains, outside) = (vec![domain], Some(outside));
        CellMap { title: "Map".to_owned(), domains, outside, ..CellMap::default() }.svg()
    }

    #[test]
    fn few_cells_have_names_and_items_and_many_do_not() {
        let few = map(4, 30);
        let n = |svg: &str, text: &str| svg.matches(text).count();
        assert_eq!(
            (n(&few, ">cell-"), n(&few, "<title>item"), n(&few, ">+10</text>")),
            (8, 4 * 20 + 3, 4),
            "{few}"
        );
        let many = map(5000, 30);
        assert_eq!((n(&many, ">cell-"), n(&many, "<title>item")), (5000, 3));
        assert!(many.len() < 1_000_000, "{}", many.len());
    }
}
