//! The icons of the navigation: strokes in a square of 16 units.

use maud::{Markup, html};

pub(crate) fn icon(path: &str) -> Markup {
    html! {
        svg aria-hidden="true" width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5"
            stroke-linecap="round" stroke-linejoin="round" { path d=(path); }
    }
}

pub(crate) const BERTH: &str = "M2 10h12l-1.5 4h-9zM8 10V2M8 3l4 4H8M5 7h3";
pub(crate) const OVERVIEW: &str = "M2 2h5v6H2zM9 2h5v3H9zM9 7h5v7H9zM2 10h5v4H2z";
pub(crate) const TOPOLOGY: &str = "M6 2h4v3H6zM2 11h4v3H2zM10 11h4v3h-4zM8 5v3M4 11V8h8v3";
pub(crate) const PENDING: &str = "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2M8 5v3l2 2";
pub(crate) const PODS: &str = "M8 2l5 3v6l-5 3-5-3V5zM3 5l5 3 5-3M8 8v6";
pub(crate) const GROUPS: &str = "M2 2h12v12H2zM5 5h2v2H5zM9 5h2v2H9zM5 9h2v2H5zM9 9h2v2H9z";
pub(crate) const WORKLOADS: &str = "M2 5l6-3 6 3-6 3zM2 8l6 3 6-3M2 11l6 3 6-3";
pub(crate) const NODES: &str = "M2 3h12v4H2zM2 9h12v4H2zM5 5h.01M5 11h.01";
pub(crate) const CLAIMS: &str =
    "M4 4h8v8H4zM6 2v2M10 2v2M6 12v2M10 12v2M2 6h2M2 10h2M12 6h2M12 10h2M7 7h2v2H7z";
pub(crate) const RULES: &str =
    "M4 4a1.5 1.5 0 1 0 .01 0M12 12a1.5 1.5 0 1 0 .01 0M5.5 5.5h3a3 3 0 0 1 3 3V11M4 8v5M9 3h4";
pub(crate) const WHAT_IF: &str = "M3 2v12M3 8h4c4 0 6-2 6-6M3 8h4c4 0 6 2 6 6";
pub(crate) const SETS: &str = "M6 4a4 4 0 1 0 0 8 4 4 0 1 0 0-8M10 4a4 4 0 1 0 0 8 4 4 0 1 0 0-8";
pub(crate) const LINT: &str = "M3 8l3 3 7-7M3 14h10";
pub(crate) const ENFORCER: &str = "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4zM6 8l1.5 1.5L10.5 6.5";
pub(crate) const REBALANCE: &str = "M2 5h9l-3-3M14 11H5l3 3";
pub(crate) const TIMELINE: &str = "M2 14h12M4 11V7M8 11V3M12 11V9";
pub(crate) const EVENTS: &str = "M5 3h9M5 8h9M5 13h9M2 3h.01M2 8h.01M2 13h.01";
pub(crate) const MENU: &str = "M2 4h12M2 8h12M2 12h12";
