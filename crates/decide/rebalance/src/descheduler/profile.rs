//! A profile: which plugins are enabled, with which arguments.

use berth_api::read::fields::{Fields, Node, suggestion};
use serde_json::{Map, Value};

use super::evictor::{Scope, read_evictor};
use super::note::Notes;
use super::strategies::{Found, Point, STRATEGIES, Strategy};
use crate::goal::Goal;
use crate::movable::Movable;
use crate::threshold::Threshold;

const EVICTOR: &str = "DefaultEvictor";

pub(super) struct Profile {
    /// The goals of the plugins at each extension point.
    pub(super) deschedule: Vec<Goal>,
    pub(super) balance: Vec<Goal>,
    /// The pods that all its plugins with a goal may evict; all pods if there is none.
    pub(super) scope: Scope,
    /// That of `LowNodeUtilization`.
    pub(super) threshold: Option<Threshold>,
}

/// An entry of `pluginConfig`.
struct Config<'a> {
    name: &'a str,
    path: String,
    args: Option<Node<'a>>,
    is_enabled: bool,
}

/// Reads a profile; none if it is no object.
pub(super) fn read_profile(
    node: &Node<'_>,
    notes: &mut Notes<'_>,
    priority_of: &dyn Fn(&str) -> Option<i32>,
) -> Option<Profile> {
    let mut fields = node.fields()?;
    let name = fields.get("name").and_then(|name| name.string()).unwrap_or_default();
    notes.profile = Some(name.to_owned());
    let mut configs = read_configs(&mut fields, notes);
    let mut profile = Profile {
        deschedule: Vec::new(),
        balance: Vec::new(),
        scope: Scope { movable: Movable::ALL, settle: None },
        threshold: None,
    };
    let no_args = Value::Object(Map::new());
    let plugins = fields.get("plugins").and_then(|plugins| plugins.fields());
    if let Some(mut plugins) = plugins {
        for point in [Point::Deschedule, Point::Balance] {
            for enabled in enabled(&mut plugins, point.field(), notes) {
                profile.read_strategy(&enabled, point, &mut configs, notes);
            }
        }
        // The evictor is always enabled. The spelling of the descheduler's documentation is accepted too.
        for field in ["filter", "preevictionfilter", "preEvictionFilter", "presort", "preSort", "sort"] {
            for enabled in enabled(&mut plugins, field, notes) {
                match enabled.string() {
                    Some(EVICTOR) | None => {}
                    Some(_) => notes.no_equivalent(&enabled.path, "only the DefaultEvictor is translated"),
                }
            }
        }
        notes.unread(&plugins);
    }
    let has_goals = !profile.deschedule.is_empty() || !profile.balance.is_empty();
    for config in configs.iter().filter(|config| !config.is_enabled) {
        notes.plugin = Some(config.name.to_owned());
        if config.name != EVICTOR {
            notes.ignored(&config.path, "the profile does not enable it");
        } else if !has_goals {
            notes.ignored(&config.path, "no plugin of the profile has an equivalent");
        }
    }
    if has_goals {
        notes.plugin = Some(EVICTOR.to_owned());
        let args =
            configs.iter().find(|config| config.name == EVICTOR).and_then(|config| config.args.clone());
        if let Some(mut args) = args.unwrap_or(nothing(&no_args, node)).fields() {
            profile.scope = profile.scope.and(read_evictor(&mut args, notes, priority_of));
            unread_args(&mut args, notes);
        }
    }
    notes.plugin = None;
    notes.unread(&fields);
    notes.profile = None;
    Some(profile)
}

/// Notes the arguments that were not read, but for the type of the object.
fn unread_args(args: &mut Fields<'_>, notes: &mut Notes<'_>) {
    let _ = (args.get("apiVersion"), args.get("kind"));
    notes.unread(args);
}

/// Arguments that are not given.
fn nothing<'a>(no_args: &'a Value, of: &Node<'a>) -> Node<'a> {
    Node { value: no_args, path: format!("{}: args", of.path), findings: of.findings }
}

fn read_configs<'a>(profile: &mut Fields<'a>, notes: &mut Notes<'_>) -> Vec<Config<'a>> {
    let mut configs: Vec<Config<'a>> = Vec::new();
    for entry in profile.items("pluginConfig") {
        let Some(mut fields) = entry.fields() else { continue };
        let name = fields.required_string("name").and_then(|name| name.string());
        let args = fields.get("args");
        notes.unread(&fields);
        let Some(name) = name else { continue };
        if configs.iter().any(|config| config.name == name) {
            notes.ignored(&entry.path, format!("{name} is configured before; the first entry counts"));
            continue;
        }
        configs.push(Config { name, path: entry.path, args, is_enabled: false });
    }
    configs
}

/// The names of the plugins that are enabled at an extension point.
fn enabled<'a>(plugins: &mut Fields<'a>, point: &'static str, notes: &mut Notes<'_>) -> Vec<Node<'a>> {
    let Some(mut fields) = plugins.get(point).and_then(|set| set.fields()) else { return Vec::new() };
    let enabled = fields.items("enabled");
    if let Some(disabled) = fields.get("disabled").filter(|list| !list.strings().is_empty()) {
        notes.ignored(&disabled.path, "the plugins that are not in `enabled` are disabled anyway");
    }
    notes.unread(&fields);
    enabled
}

impl Profile {
    fn read_strategy(
        &mut self,
        enabled: &Node<'_>,
        point: Point,
        configs: &mut [Config<'_>],
        notes: &mut Notes<'_>,
    ) {
        let Some(name) = enabled.string() else { return };
        notes.plugin = Some(name.to_owned());
        let config = configs.iter_mut().find(|config| config.name == name);
        let args = config.and_then(|config| {
            config.is_enabled = true;
            config.args.clone()
        });
        match STRATEGIES.iter().find(|strategy| strategy.name == name) {
            None => {
                let names = STRATEGIES.map(|strategy| strategy.name);
                let text = format!("unknown plugin; {}", suggestion(name, &names));
                notes.no_equivalent(&enabled.path, text);
            }
            Some(strategy) if strategy.point != point => {
                let field = strategy.point.field();
                enabled.invalid(&format!(
                    "the descheduler runs it at `{field}`: move it to plugins.{field}.enabled"
                ));
            }
            Some(strategy) => self.translate(strategy, enabled, args, notes),
        }
        notes.plugin = None;
    }

    fn translate(
        &mut self,
        strategy: &Strategy,
        enabled: &Node<'_>,
        args: Option<Node<'_>>,
        notes: &mut Notes<'_>,
    ) {
        let no_args = Value::Object(Map::new());
        let Some(mut args) = args.unwrap_or(nothing(&no_args, enabled)).fields() else { return };
        let Found { goals, movable, threshold } = (strategy.read)(&mut args, enabled, notes);
        unread_args(&mut args, notes);
        if goals.is_empty() {
            return;
        }
        self.scope.movable = self.scope.movable.clone().and(movable);
        self.threshold = self.threshold.into_iter().chain(threshold).reduce(Threshold::max);
        match strategy.point {
            Point::Deschedule => self.deschedule.extend(goals),
            Point::Balance => self.balance.extend(goals),
        }
    }
}
