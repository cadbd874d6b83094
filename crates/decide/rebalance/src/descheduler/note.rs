//! How the parts of a policy are translated.

use std::fmt;

use berth_api::read::fields::{ConfigMessage, Fields};
use serde::Serialize;

/// How a part of a policy is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The text is written instead.
    Instead,
    /// Berth has nothing of the kind; the text says what holds.
    NoEquivalent,
    /// It has no effect, in the descheduler either; the text says why.
    Ignored,
}

/// The note on a field of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Path of the field, such as `profiles[0].pluginConfig[1].args.nodeFit`.
    pub path: String,
    /// Name of the profile, for fields of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The plugin, for plugins and their arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    pub effect: Effect,
    /// The flags of `berth rebalance` or the reason.
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path)?;
        if let Some(profile) = &self.profile {
            write!(f, "profile {profile}")?;
            self.plugin.as_ref().map_or(Ok(()), |plugin| write!(f, ", {plugin}"))?;
            f.write_str(": ")?;
        }
        let effect = match self.effect {
            Effect::Instead => "instead",
            Effect::NoEquivalent => "no equivalent",
            Effect::Ignored => "ignored",
        };
        write!(f, "{effect}: {}", self.text)
    }
}

pub(super) struct Notes<'n> {
    pub(super) all: &'n mut Vec<Note>,
    pub(super) profile: Option<String>,
    pub(super) plugin: Option<String>,
}

impl Notes<'_> {
    pub(super) fn instead(&mut self, path: &str, text: impl Into<String>) {
        self.add(path, Effect::Instead, text);
    }

    pub(super) fn no_equivalent(&mut self, path: &str, text: impl Into<String>) {
        self.add(path, Effect::NoEquivalent, text);
    }

    pub(super) fn ignored(&mut self, path: &str, text: impl Into<String>) {
        self.add(path, Effect::Ignored, text);
    }

    /// Notes the fields that were not read.
    pub(super) fn unread(&mut self, fields: &Fields<'_>) {
        for ConfigMessage { path, text } in fields.unread() {
            self.ignored(&path, text);
        }
    }

    fn add(&mut self, path: &str, effect: Effect, text: impl Into<String>) {
        let (profile, plugin) = (self.profile.clone(), self.plugin.clone());
        self.all.push(Note { path: path.to_owned(), profile, plugin, effect, text: text.into() });
    }
}
