//! SVG pictures for browsers, documents and pages of the console.
//!
//! [`Picture`] writes elements; a module per plot arranges them. A picture is one self-contained file without scripts; only
//! those made for pages have links, and these pages have the style sheet ([`without_style`]). Elements have classes instead of colors: the style sheet has a light and a dark theme, and the colors are those of
//! Okabe and Ito, which people with color blindness can tell apart. A color is never the only sign of something. Groups have
//! titles, which browsers show as tooltips and screen readers read.
//!
//! The crate knows nothing of Kubernetes and does no I/O.

use std::borrow::Cow;
use std::fmt::{Display, Write};

pub mod arcs;
pub mod bars;
pub mod cells;
pub mod timeline;
pub mod upset;

/// Of a picture without links.
const ROLE: &str = "role=\"img\"";
const MARGIN: usize = 16;
const HEADING: usize = 34;
/// Height of a row, and of a line of notes.
const ROW: usize = 22;

/// The meaning of an element, which decides its look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    Heading,
    Label,
    /// Text of less importance.
    Note,
    /// Something counted.
    #[default]
    Bar,
    /// Something counted that needs attention.
    Alert,
    /// A place where something could be, and is not.
    Faint,
    /// Background of every second row.
    Stripe,
    /// One of several kinds, from 0; they repeat after [`N_KINDS`].
    Kind(usize),
    /// What is of none of these kinds.
    Other,
    /// A step of a scale, from 0 to [`MAX_HEAT`]: the higher, the darker.
    Heat(usize),
}

/// Kinds with different colors.
pub const N_KINDS: usize = 8;
/// The last step of [`Class::Heat`].
pub const MAX_HEAT: usize = 5;

impl Class {
    /// Its name in the style sheet.
    pub fn name(self) -> &'static str {
        match self {
            Class::Heading => "heading",
            Class::Label => "label",
            Class::Note => "note",
            Class::Bar => "bar",
            Class::Alert => "alert",
            Class::Faint => "faint",
            Class::Stripe => "stripe",
            Class::Kind(kind) => KINDS[kind % N_KINDS],
            Class::Other => "other",
            Class::Heat(step) => HEAT[step.min(MAX_HEAT)],
        }
    }
}

const KINDS: [&str; N_KINDS] = ["kind0", "kind1", "kind2", "kind3", "kind4", "kind5", "kind6", "kind7"];
const HEAT: [&str; MAX_HEAT + 1] = ["heat0", "heat1", "heat2", "heat3", "heat4", "heat5"];

/// Rules of both themes. The prefix keeps them from other elements of a page that contains the picture. `--c` is the color for
/// elements of such a page that are no SVG.
pub const STYLE: &str = "\
.berth-picture{background:#fff;font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
.berth-picture .heading{font-size:15px;font-weight:600}
.berth-picture text{fill:#1a212b}.berth-picture .note{fill:#566070}
.berth-picture .bar{fill:#0072b2;stroke:#0072b2;--c:#0072b2}.berth-picture .alert{fill:#d55e00;stroke:#d55e00;--c:#d55e00}
.berth-picture .faint{fill:#d5dae1;stroke:#d5dae1;--c:#d5dae1}.berth-picture .stripe{fill:#f5f6f8}
.berth-picture .kind0{fill:#56b4e9;stroke:#56b4e9;--c:#56b4e9}.berth-picture .kind1{fill:#e69f00;stroke:#e69f00;--c:#e69f00}
.berth-picture .kind2{fill:#1fa87e;stroke:#1fa87e;--c:#1fa87e}.berth-picture .kind3{fill:#cc79a7;stroke:#cc79a7;--c:#cc79a7}
.berth-picture .kind4{fill:#e3d51c;stroke:#e3d51c;--c:#e3d51c}.berth-picture .kind5{fill:#9c8bf4;stroke:#9c8bf4;--c:#9c8bf4}
.berth-picture .kind6{fill:#c98a5b;stroke:#c98a5b;--c:#c98a5b}.berth-picture .kind7{fill:#7fc95a;stroke:#7fc95a;--c:#7fc95a}
.berth-picture .other{fill:#9aa3af;stroke:#9aa3af;--c:#9aa3af}
.berth-picture .heat0{fill:#e3e8ee;stroke:#e3e8ee;--c:#e3e8ee}.berth-picture .heat1{fill:#c3dcf2;stroke:#c3dcf2;--c:#c3dcf2}
.berth-picture .heat2{fill:#93c2e8;stroke:#93c2e8;--c:#93c2e8}.berth-picture .heat3{fill:#5a9fd6;stroke:#5a9fd6;--c:#5a9fd6}
.berth-picture .heat4{fill:#2f78b7;stroke:#2f78b7;--c:#2f78b7}.berth-picture .heat5{fill:#1a5488;stroke:#1a5488;--c:#1a5488}
.berth-picture path.arc{fill:none;stroke-width:2}
.berth-picture text.mark{fill:#000;stroke:none;font-size:10px}
@media (prefers-color-scheme:dark){.berth-picture{background:#171b22}
.berth-picture text{fill:#e8ecf1}.berth-picture .note{fill:#a3adba}
.berth-picture .bar{fill:#56b4e9;stroke:#56b4e9;--c:#56b4e9}.berth-picture .alert{fill:#f0883e;stroke:#f0883e;--c:#f0883e}
.berth-picture .faint{fill:#3a424d;stroke:#3a424d;--c:#3a424d}.berth-picture .stripe{fill:#1e232b}
.berth-picture .heat0{fill:#2a313a;stroke:#2a313a;--c:#2a313a}.berth-picture .heat1{fill:#23405c;stroke:#23405c;--c:#23405c}
.berth-picture .heat2{fill:#2a5c88;stroke:#2a5c88;--c:#2a5c88}.berth-picture .heat3{fill:#3a7fb8;stroke:#3a7fb8;--c:#3a7fb8}
.berth-picture .heat4{fill:#62a8dd;stroke:#62a8dd;--c:#62a8dd}.berth-picture .heat5{fill:#a5d2f3;stroke:#a5d2f3;--c:#a5d2f3}}
";

/// What is before and after the style sheet of a picture, for a page that has [`STYLE`].
pub fn without_style(svg: &str) -> (&str, &str) {
    svg.split_once(&style_element()).unwrap_or((svg, ""))
}

fn style_element() -> String {
    format!("<style>\n{STYLE}</style>\n")
}

/// Where a text begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// At its left end.
    Start,
    Middle,
    /// At its right end.
    End,
}

/// An SVG picture. Positions and sizes are in pixels from the top left corner.
#[derive(Clone, Debug)]
pub struct Picture {
    svg: String,
    has_links: bool,
}

impl Picture {
    /// An empty picture. Screen readers read its title and its description; of one with links, also what is in it.
    pub fn new(width: usize, height: usize, title: &str, description: &str) -> Picture {
        let mut picture = Picture { svg: String::new(), has_links: false };
        picture.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"berth-picture\" {ROLE} width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
        ));
        picture.line(format_args!("<title>{}</title>", escaped(title)));
        picture.line(format_args!("<desc>{}</desc>", escaped(description)));
        picture.svg.push_str(&style_element());
        picture
    }

    /// Elements that belong together, with a title.
    pub fn group(&mut self, title: &str, elements: impl FnOnce(&mut Picture)) {
        self.line(format_args!("<g><title>{}</title>", escaped(title)));
        elements(self);
        self.line(format_args!("</g>"));
    }

    /// As [`Picture::group`]; the group is a link if there is one. `in_tab_order` is false where the tab key would stop too often.
    fn linked(
        &mut self,
        link: Option<&str>,
        in_tab_order: bool,
        title: &str,
        elements: impl FnOnce(&mut Picture),
    ) {
        let Some(link) = link else { return self.group(title, elements) };
        self.has_links = true;
        let (link, tab) = (escaped(link), if in_tab_order { "" } else { " tabindex=\"-1\"" });
        self.line(format_args!("<a href=\"{link}\"{tab}><title>{}</title>", escaped(title)));
        elements(self);
        self.line(format_args!("</a>"));
    }

    /// A rectangle with its top left corner at (`x`, `y`).
    pub fn rectangle(&mut self, class: Class, (x, y): (usize, usize), (width, height): (usize, usize)) {
        let class = class.name();
        self.line(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
        ));
    }

    /// As [`Picture::rectangle`], in fewer characters, for pictures with thousands of them.
    pub fn area(&mut self, class: Class, (x, y): (usize, usize), (width, height): (usize, usize)) {
        let class = class.name();
        // Writing to a string cannot fail.
        let _ = write!(self.svg, "<path class=\"{class}\" d=\"M{x} {y}h{width}v{height}h-{width}z\"/>");
    }

    /// A circle around (`x`, `y`).
    pub fn circle(&mut self, class: Class, (x, y): (usize, usize), radius: usize) {
        self.line(format_args!("<circle class=\"{}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>", class.name()));
    }

    /// A line between two points.
    pub fn stroke(&mut self, class: Class, (x1, y1): (usize, usize), (x2, y2): (usize, usize)) {
        let class = class.name();
        self.line(format_args!(
            "<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke-width=\"3\"/>"
        ));
    }

    /// A curve to the right from (`x`, `y1`) to (`x`, `y2`), `reach` pixels wide, with an arrow head at its end. A dashed
    /// one has the opposite meaning of a solid one.
    pub fn arc(&mut self, class: Class, x: usize, (y1, y2): (usize, usize), reach: usize, dashed: bool) {
        let class = class.name();
        let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let control = x + reach * 4 / 3;
        self.line(format_args!(
            "<path class=\"arc {class}\" d=\"M{x} {y1}C{control} {y1} {control} {y2} {x} {y2}\"{dashes}/>"
        ));
        let (tip, top, bottom) = (x + 7, y2.saturating_sub(4), y2 + 4);
        self.line(format_args!("<path class=\"arc {class}\" d=\"M{tip} {top}L{x} {y2}L{tip} {bottom}\"/>"));
    }

    /// A character in the middle of a filled element, 10 pixels high.
    pub fn mark(&mut self, (x, y): (usize, usize), mark: char) {
        let mark = mark.to_string();
        let mark = escaped(&mark);
        self.line(format_args!(
            "<text class=\"mark\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{mark}</text>"
        ));
    }

    /// Keys of a legend, from left to right; returns how many rows they take.
    fn legend(&mut self, keys: &[Key], top: usize, width: usize) -> usize {
        let (mut x, mut row) = (MARGIN, 0);
        for key in keys {
            let needed = 14 + 6 + text_width(&key.text) + 18;
            if x > MARGIN && x + needed > width.saturating_sub(MARGIN) {
                (x, row) = (MARGIN, row + 1);
            }
            let y = top + row * ROW;
            self.rectangle(key.class, (x, y + 3), (14, 14));
            if let Some(mark) = key.mark {
                self.mark((x + 7, y + 14), mark);
            }
            self.text(Class::Label, Anchor::Start, (x + 20, y + 14), &key.text);
            x += needed;
        }
        if keys.is_empty() { 0 } else { row + 1 }
    }

    /// A line of text with its baseline at (`x`, `y`).
    pub fn text(&mut self, class: Class, anchor: Anchor, (x, y): (usize, usize), text: &str) {
        let (class, text) = (class.name(), escaped(text));
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.line(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// The whole file.
    pub fn finish(mut self) -> String {
        self.line(format_args!("</svg>"));
        // An image has no content for screen readers.
        if self.has_links
            && let Some(at) = self.svg.find(ROLE)
        {
            self.svg.replace_range(at..at + ROLE.len(), "role=\"group\"");
        }
        self.svg
    }

    fn line(&mut self, text: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.svg, "{text}");
    }
}

#[derive(Clone, Debug)]
pub struct Key {
    /// The look of what it describes.
    pub class: Class,
    /// The character that stands in it.
    pub mark: Option<char>,
    pub text: String,
}

/// Rows that a legend takes in a picture of this width.
fn legend_rows(keys: &[Key], width: usize) -> usize {
    Picture { svg: String::new(), has_links: false }.legend(keys, 0, width)
}

/// The length of a bar; at least one pixel for what is not nothing.
fn scaled(size: usize, largest: usize, longest: usize) -> usize {
    (size * longest).checked_div(largest).unwrap_or(0).max(usize::from(size > 0))
}

/// Width of a label in pixels. Fonts differ: this is that of a wide one, DejaVu Sans.
pub fn text_width(text: &str) -> usize {
    text.chars().map(character_width).sum::<usize>().div_ceil(10)
}

/// In tenths of a pixel, at 12 pixels.
fn character_width(c: char) -> usize {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' => 37,
        'f' | 't' | 'r' | ' ' | '.' | ',' | ':' | ';' | 'I' | '(' | ')' | '[' | ']' | '/' | '-' => 47,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 118,
        'A'..='Z' | '=' | '+' | '<' | '>' | '&' => 96,
        c if c.is_ascii() => 77,
        _ => 120,
    }
}

/// A text of at most this width: a longer one loses its middle, since names differ at their ends.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    if text_width(text) <= width {
        return text.into();
    }
    let characters: Vec<char> = text.chars().collect();
    let room = (width * 10).saturating_sub(character_width('…'));
    let (mut head, mut tail, mut used) = (0, characters.len(), 0);
    while head < tail {
        let next = if head <= characters.len() - tail { characters[head] } else { characters[tail - 1] };
        used += character_width(next);
        if used > room {
            break;
        }
        if head <= characters.len() - tail { head += 1 } else { tail -= 1 }
    }
    let parts = characters[..head].iter().chain(['…'].iter()).chain(&characters[tail..]);
    parts.collect::<String>().into()
}

/// The text without characters that mean something in XML or are not allowed there.
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"');
    if text.bytes().all(is_plain) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_elements() {
        let mut picture = Picture::new(10, 20, "a < b", "\"&\u{7}");
        picture.group("</title>", |picture| {
            picture.text(Class::Label, Anchor::Start, (1, 2), "<script>");
        });
        let svg = picture.finish();
        assert!(svg.contains("<title>a &lt; b</title>\n<desc>&quot;&amp;\u{fffd}</desc>"), "{svg}");
        assert!(
            svg.contains("<g><title>&lt;/title&gt;</title>") && svg.contains(">&lt;script&gt;</text>"),
            "{svg}"
        );
        assert!(svg.ends_with("</g>\n</svg>\n"), "{svg}");
    }

    #[test]
    fn a_link_is_a_group_and_the_style_can_be_left_out() {
        let mut picture = Picture::new(10, 20, "a", "b");
        picture.linked(Some("/nodes/a\"b"), false, "a node", |_| ());
        picture.linked(None, true, "another one", |_| ());
        let svg = picture.finish();
        let link = "<a href=\"/nodes/a&quot;b\" tabindex=\"-1\"><title>a node</title>\n</a>\n<g><title>another one</title>";
        assert!(svg.contains(link) && svg.contains("role=\"group\""), "{svg}");
        let (before, after) = without_style(&svg);
        assert!(!before.is_empty() && !before.contains("<style>") && !after.contains("<style>"), "{svg}");
        assert_eq!(svg, [before, &style_element(), after].concat());
    }

    #[test]
    fn bars_have_the_length_of_their_sizes() {
        let lengths = [0, 1, 50, 100].map(|size| scaled(size, 100, 60));
        assert_eq!((lengths, scaled(0, 0, 60), scaled(1, 100_000, 60)), ([0, 1, 30, 60], 0, 1));
    }

    #[test]
    fn a_legend_takes_as_many_rows_as_it_needs() {
        let keys = vec![Key { class: Class::Bar, mark: None, text: "ten letter".to_owned() }; 5];
        assert_eq!([330, 260, 60].map(|width| legend_rows(&keys, width)), [2, 3, 5]);
        assert_eq!(legend_rows(&[], 100), 0);
    }

    #[test]
    fn long_texts_lose_their_middle() {
        assert_eq!(shortened("web-0", 100), "web-0");
        let short = shortened("spec.affinity.podAntiAffinity.required[0]", 120);
        assert!(short.starts_with("spec.") && short.ends_with("[0]") && short.contains('…'), "{short}");
        assert!(text_width(&short) <= 120, "{short}");
        assert_eq!(shortened("größer als erlaubt", 0), "…");
    }
}
