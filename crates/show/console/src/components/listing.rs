//! Tables of objects that are sorted and filtered by parameters of the address.

use std::cmp::Ordering;

use berth_api::syntax::format::grouped;
use maud::{Markup, html};

use crate::{Request, links};

/// Rows of a page of a list.
const PAGE_SIZE: usize = 100;

type Cell<'a, T> = Box<dyn Fn(&T) -> Markup + 'a>;
type Order<'a, T> = Box<dyn Fn(&T, &T) -> Ordering + 'a>;

pub(crate) struct Column<'a, T> {
    /// The parameter `sort`.
    key: &'static str,
    title: &'static str,
    class: Option<&'static str>,
    cell: Cell<'a, T>,
    order: Option<Order<'a, T>>,
}

impl<'a, T> Column<'a, T> {
    pub(crate) fn new(
        key: &'static str,
        title: &'static str,
        cell: impl Fn(&T) -> Markup + 'a,
    ) -> Column<'a, T> {
        Column { key, title, class: None, cell: Box::new(cell), order: None }
    }

    /// A column of longer texts.
    pub(crate) fn text(
        key: &'static str,
        title: &'static str,
        cell: impl Fn(&T) -> Markup + 'a,
    ) -> Column<'a, T> {
        Column { class: Some("text"), ..Column::new(key, title, cell) }
    }

    /// A column of numbers, by which the list can be sorted.
    pub(crate) fn number(
        key: &'static str,
        title: &'static str,
        number: impl Fn(&T) -> usize + Clone + 'a,
    ) -> Column<'a, T> {
        let of = number.clone();
        let cell = move |item: &T| html! { (grouped(of(item))) };
        let column = Column { class: Some("number"), ..Column::new(key, title, cell) };
        column.by(move |a, b| number(a).cmp(&number(b)))
    }

    /// The list can be sorted by it.
    pub(crate) fn by(self, order: impl Fn(&T, &T) -> Ordering + 'a) -> Column<'a, T> {
        Column { order: Some(Box::new(order)), ..self }
    }
}

/// The page of a list that the parameters `sort` and `page` select. `sort=COLUMN` is ascending, `sort=-COLUMN` descending; without
/// it, the items are as given.
pub(crate) fn listing<T>(
    request: &Request<'_>,
    caption: &str,
    items: &mut [T],
    columns: &[Column<'_, T>],
) -> Result<Markup, String> {
    let wanted = request.parameter("sort");
    let (sorted_by, is_descending) = match wanted.as_deref() {
        Some(text) => (text.strip_prefix('-').unwrap_or(text), text.starts_with('-')),
        None => ("", false),
    };
    if !sorted_by.is_empty() {
        let order =
            columns.iter().find(|column| column.key == sorted_by).and_then(|column| column.order.as_ref());
        let order = order.ok_or_else(|| {
            let keys = columns.iter().filter(|column| column.order.is_some()).map(|column| column.key);
            let keys: Vec<_> = keys.collect();
            format!(
                "sort={sorted_by}: give one of {}, with - before it for the reverse order",
                keys.join(", ")
            )
        })?;
        items.sort_by(|a, b| if is_descending { order(b, a) } else { order(a, b) });
    }
    let (shown, pages) = paged(request, items)?;
    let cells: Vec<Vec<Markup>> =
        shown.iter().map(|item| columns.iter().map(|column| (column.cell)(item)).collect()).collect();
    // A column without anything in it is left out.
    let is_used = |i: usize| i == 0 || cells.is_empty() || cells.iter().any(|row| !row[i].0.is_empty());
    let used: Vec<usize> = (0..columns.len()).filter(|i| is_used(*i)).collect();
    let heading = |column: &Column<'_, T>| {
        let is_this = column.key == sorted_by;
        let direction = is_this.then_some(if is_descending { "descending" } else { "ascending" });
        // Numbers begin with the largest.
        let first_is_descending = column.class == Some("number");
        let next = match (is_this, is_descending) {
            (true, true) => column.key.to_owned(),
            (true, false) => format!("-{}", column.key),
            (false, _) if first_is_descending => format!("-{}", column.key),
            (false, _) => column.key.to_owned(),
        };
        html! {
            th scope="col" class=[column.class] aria-sort=[direction] {
                @if column.order.is_some() {
                    a href=(with_parameter(request, "sort", &next)) {
                        (column.title)
                        @if is_this { span aria-hidden="true" { (if is_descending { "↓" } else { "↑" }) } }
                    }
                } @else { (column.title) }
            }
        }
    };
    Ok(html! {
        section.card {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead { tr { @for i in &used { (heading(&columns[*i])) } } }
                    tbody {
                        @for row in &cells {
                            tr {
                                @for i in &used {
                                    @let column = &columns[*i];
                                    @if *i == 0 { th scope="row" data-label=(column.title) { (row[*i]) } }
                                    @else { td class=[column.class] data-label=(column.title) { (row[*i]) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    (pages)
    })
}

/// The items of the page that the parameter `page` selects, and the links to the others.
pub(crate) fn paged<'a, T>(request: &Request<'_>, items: &'a [T]) -> Result<(&'a [T], Markup), String> {
    let n_pages = items.len().div_ceil(PAGE_SIZE).max(1);
    let page = match request.parameter("page") {
        None => 1,
        Some(text) => text
            .parse()
            .ok()
            .filter(|page| (1..=n_pages).contains(page))
            .ok_or_else(|| format!("page={text}: give a number from 1 to {n_pages}"))?,
    };
    let shown = &items[(page - 1) * PAGE_SIZE..items.len().min(page * PAGE_SIZE)];
    let to = |page: usize| with_parameter(request, "page", &page.to_string());
    let markup = html! {
        @if n_pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a.button.small href=(to(page - 1)) rel="prev" { "Previous" } }
                span { "Page " (page) " of " (grouped(n_pages)) ", " (grouped(items.len())) " in all" }
                @if page < n_pages { a.button.small href=(to(page + 1)) rel="next" { "Next" } }
            }
        }
    };
    Ok((shown, markup))
}

/// The address of the page with another value of a parameter. Another order begins with the first page.
pub(crate) fn with_parameter(request: &Request<'_>, name: &str, value: &str) -> String {
    let others = request
        .parameters()
        .filter(|(key, value)| key != name && !value.is_empty() && (name != "sort" || key != "page"));
    let path = others.fold(request.path.to_owned(), |path, (key, value)| links::with(&path, &key, &value));
    if value.is_empty() { path } else { links::with(&path, name, value) }
}

/// What the parameters `q` and `namespace` select.
pub(crate) struct Filter {
    text: String,
    namespace: String,
}

impl Filter {
    pub(crate) fn of(request: &Request<'_>) -> Filter {
        let text = request.parameter("q").unwrap_or_default().trim().to_lowercase();
        Filter { text, namespace: request.parameter("namespace").unwrap_or_default().into_owned() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.namespace.is_empty()
    }

    /// Whether the namespace is selected, and the text is a part of one of these.
    pub(crate) fn matches(&self, namespace: &str, texts: &[&str]) -> bool {
        (self.namespace.is_empty() || self.namespace == namespace)
            && (self.text.is_empty() || texts.iter().any(|text| contains(text, &self.text)))
    }

    /// The form; with `namespaces`, one of them can be selected.
    pub(crate) fn form(&self, request: &Request<'_>, what: &str, namespaces: &[&str]) -> Markup {
        let kept =
            request.parameters().filter(|(key, _)| !["q", "namespace", "page"].contains(&key.as_ref()));
        html! {
            form.toolbar method="get" role="search" aria-label=(what) {
                label.group { span { (what) } input type="search" name="q" value=(self.text) size="24"; }
                @if !namespaces.is_empty() {
                    label.group {
                        span { "Namespace" }
                        select name="namespace" {
                            option value="" { "All namespaces" }
                            @for namespace in namespaces { option value=(namespace) selected[*namespace == self.namespace] { (namespace) } }
                        }
                    }
                }
                @for (key, value) in kept { input type="hidden" name=(key) value=(value); }
                button { "Show" }
                @if !self.is_empty() { a href=(request.path) { "Show all" } }
            }
        }
    }
}

/// Whether a part, in lower case, is in a text, without regard to case.
fn contains(text: &str, part: &str) -> bool {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_lowercase().contains(part)
    } else {
        text.contains(part)
    }
}
