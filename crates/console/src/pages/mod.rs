//! The pages, a file each.

mod pending;
mod topology;

use maud::{Markup, html};

use crate::layout;
use crate::{Request, Response, State};

const STYLE: &str = include_str!("../../assets/console.css");
const SCRIPT: &str = include_str!("../../assets/console.js");

/// The title and the content of a page.
struct Page {
    title: String,
    content: Markup,
}

impl Page {
    fn new(title: impl Into<String>, content: Markup) -> Page {
        Page { title: title.into(), content }
    }
}

/// Answers a request. All paths but those of pages and assets are answered with 404.
pub fn respond(state: &mut State, request: &Request<'_>) -> Response {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let page = match segments[..] {
        [] => Some(topology::page(state, request)),
        ["pending"] => Some(pending::page(state)),
        ["assets", "console.css"] => return asset("text/css; charset=utf-8", STYLE),
        ["assets", "console.js"] => return asset("text/javascript; charset=utf-8", SCRIPT),
        _ => None,
    };
    let status = if page.is_some() { 200 } else { 404 };
    let missing = || {
        Page::new(
            "Not found",
            html! { p { "There is no such page, or the object does not exist any more." } },
        )
    };
    let Page { title, content } = page.unwrap_or_else(missing);
    Response::html(status, layout::page(&state.name, request.path, &title, &content))
}

fn asset(content_type: &'static str, content: &str) -> Response {
    Response { status: 200, content_type, body: content.to_owned() }
}

#[cfg(test)]
mod tests {
    use berth_api::read::Inventory;
    use berth_simulate::SimulationOptions;

    use super::*;

    #[test]
    fn names_cannot_leave_their_elements() {
        let pod =
            "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}";
        let inventory = Inventory::from_text(pod).unwrap();
        let mut state = State::new("<script>", inventory, SimulationOptions::default()).unwrap();
        let response = respond(&mut state, &Request { path: "/pending", ..Request::default() });
        assert_eq!(response.status, 200);
        assert!(response.body.contains("<p class=\"cluster\">&lt;script&gt;</p>"), "{}", response.body);
        assert!(response.body.contains("<td>default</td><td>web</td>"), "{}", response.body);
        assert_eq!(respond(&mut state, &Request { path: "/../etc", ..Request::default() }).status, 404);
    }
}
