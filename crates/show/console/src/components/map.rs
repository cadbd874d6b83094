//! Maps of cells as HTML: cells grow with the window, texts wrap, and each part is a link.

use berth_picture::cells::{Cell, CellMap, Domain, Item, MAX_LARGE, Part, Presence, Relation};
use berth_picture::{MAX_HEAT, shortened};
use maud::{Markup, html};

use super::bars::legend;

/// Most cells with names; more are squares.
const MAX_NAMED: usize = 400;
/// Fewest points in a row of a cell, and their distance.
const POINTS_IN_ROW: usize = 12;
const POINT: usize = 9;
/// Widest name of a cell.
const LARGE_NAME: usize = 150;
const NARROW_NAME: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Cells with names and named items.
    Large,
    /// Cells with names and small items.
    Narrow,
    /// Squares.
    Tile,
}

pub(crate) fn map(map: &CellMap) -> Markup {
    html! { (legend(&map.legend)) (map_without_legend(map)) }
}

pub(crate) fn map_without_legend(map: &CellMap) -> Markup {
    let n_cells: usize =
        map.domains.iter().flat_map(|domain| &domain.parts).map(|part| part.cells.len()).sum();
    let size = if n_cells <= MAX_LARGE {
        Size::Large
    } else if n_cells <= MAX_NAMED {
        Size::Narrow
    } else {
        Size::Tile
    };
    let items = || {
        map.domains.iter().flat_map(|d| &d.parts).flat_map(|part| &part.cells).flat_map(|cell| &cell.items)
    };
    let is_focused = items().any(|item| item.relation != Relation::None);
    html! {
        div.map.berth-picture.narrow[size == Size::Narrow].focused[is_focused] role="group" aria-label=(map.title) {
            div.zones { @for domain in &map.domains { (self::domain(domain, size)) } }
            @if let Some(outside) = &map.outside {
                section.zone { h3 { (outside.name) } (items_of(&outside.items, Size::Large)) }
            }
            @for note in &map.notes { p.hint { (note) } }
        }
    }
}

fn named(name: &str, link: Option<&String>) -> Markup {
    html! { @match link { Some(link) => a href=(link) { (name) }, None => (name) } }
}

fn domain(domain: &Domain, size: Size) -> Markup {
    html! {
        section.zone {
            h3 { (named(&domain.name, domain.link.as_ref())) small { (domain.note) } }
            div.racks {
                @for Part { name, link, cells } in &domain.parts {
                    div.rack {
                        @if !name.is_empty() { h4 { (named(name, link.as_ref())) } }
                        @match size {
                            Size::Tile => div.tiles { @for cell in cells { (tile(cell)) } },
                            Size::Large | Size::Narrow => div.cells { @for cell in cells { (self::cell(cell, size)) } },
                        }
                    }
                }
            }
        }
    }
}

fn tile(cell: &Cell) -> Markup {
    let class = if cell.is_selected { "tile selected " } else { "tile " };
    html! {
        @match &cell.link {
            Some(link) => a class={ (class) (cell.class.name()) } href=(link) title=(cell.title) aria-label=(cell.title) { (cell.mark.unwrap_or(' ')) },
            None => span class={ (class) (cell.class.name()) } title=(cell.title) { (cell.mark.unwrap_or(' ')) },
        }
    }
}

fn cell(cell: &Cell, size: Size) -> Markup {
    let name = shortened(&cell.name, if size == Size::Large { LARGE_NAME } else { NARROW_NAME });
    // Where names have little room, the bar shows the part, and the title has it.
    let has_note = size == Size::Large || !cell.note.contains('%');
    let content = html! {
        span { @if let Some(mark) = cell.mark { b.bad { (mark) " " } } (name) }
        @if has_note { small { (cell.note) } }
    };
    html! {
        div.cell.selected[cell.is_selected] {
            @match &cell.link {
                Some(link) => a href=(link) title=(cell.title) { (content) },
                None => span title=(cell.title) { (content) },
            }
            @if cell.points.is_empty() {
                svg.level aria-hidden="true" viewBox="0 0 100 6" preserveAspectRatio="none" {
                    rect class=(cell.class.name()) width=(cell.level.min(100)) height="6" {}
                }
            } @else { (points(cell)) }
            (items_of(&cell.items, size))
        }
    }
}

/// A square for each point; those of a look are one element.
fn points(cell: &Cell) -> Markup {
    // Four times as wide as high.
    let in_row = (cell.points.len() * 4).isqrt().max(POINTS_IN_ROW);
    let mut by_class: Vec<(&str, String)> = Vec::with_capacity(MAX_HEAT);
    for (i, class) in cell.points.iter().enumerate() {
        let (x, y) = (i % in_row * POINT, i / in_row * POINT);
        let square = format!("M{x} {y}h8v8h-8z");
        match by_class.iter_mut().find(|(name, _)| *name == class.name()) {
            Some((_, path)) => path.push_str(&square),
            None => by_class.push((class.name(), square)),
        }
    }
    let (width, height) = (in_row * POINT, cell.points.len().div_ceil(in_row) * POINT);
    // Those of a few nodes are as large as pods.
    let scaled = if cell.points.len() <= POINTS_IN_ROW { width * 5 / 2 } else { width * 3 / 2 };
    html! {
        svg.dots aria-hidden="true" width=(scaled) viewBox={ "0 0 " (width) " " (height) } preserveAspectRatio="xMinYMin meet" {
            @for (class, path) in &by_class { path class=(class) d=(path) stroke="none" {} }
        }
    }
}

fn items_of(items: &[Item], size: Size) -> Markup {
    html! { @if !items.is_empty() { ul.pods { @for item in items { li { (self::item(item, size)) } } } } }
}

fn item(item: &Item, size: Size) -> Markup {
    let presence = match item.presence {
        Presence::Is => "",
        Presence::Nearly => " ghost",
        Presence::Leaves => " leaves",
        Presence::Arrives => " arrives",
    };
    let relation = match item.relation {
        Relation::None => "",
        Relation::Same => " same",
        Relation::Partner => " partner",
        Relation::Neighbor => " neighbour",
    };
    let class = format!("pod {}{presence}{relation}", item.class.name());
    html! {
        @match &item.link {
            // Without a letter, the title is its name.
            Some(link) if size == Size::Narrow => a class=(class) href=(link) title=(item.title) data-group=[item.group] {},
            Some(link) => a class=(class) href=(link) title=(item.title) aria-label=(item.title) data-group=[item.group] { (item.mark) },
            None => span class=(class) title=(item.title) data-group=[item.group] { (item.mark) },
        }
    }
}
