//! What a page answers.

use maud::Markup;

/// The title and the content of a page.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) subtitle: Option<Markup>,
    /// Links and choices beside the title.
    pub(super) actions: Option<Markup>,
    pub(super) content: Markup,
}

impl Page {
    pub(super) fn new(title: impl Into<String>, content: Markup) -> Page {
        Page { title: title.into(), subtitle: None, actions: None, content }
    }

    pub(super) fn subtitle(self, subtitle: Markup) -> Page {
        Page { subtitle: Some(subtitle), ..self }
    }

    pub(super) fn actions(self, actions: Markup) -> Page {
        Page { actions: Some(actions), ..self }
    }
}

/// Why there is no page.
pub(super) enum PageError {
    /// A parameter with what is wrong about it, and the remedy.
    Parameter(String),
    /// An object that does not exist, and the addresses and texts of similar ones.
    NotFound { what: String, similar: Vec<(String, String)> },
}

pub(super) type Answer = Result<Page, PageError>;
