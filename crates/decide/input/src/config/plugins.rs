//! Which plugins run at which extension point, in which order and with which weight.
//!
//! The rules are kube-scheduler's: a profile's `multiPoint` set is merged into the default one
//! (`apis/config/v1`, `mergePlugins`), and each extension point is then filled from its own set and from
//! `multiPoint` (`framework/runtime`, `expandMultiPointPlugins`).

use super::plugin::{Plugin, Point};
use berth_api::read::fields::{Fields, Node, suggestion};

/// kube-scheduler's in-tree plugins that Berth does not implement as rules. They are accepted; except for preemption and
/// binding they have no effect.
const WITHOUT_EFFECT: [&str; 6] = [
    DEFAULT_BINDER,
    DEFAULT_PREEMPTION,
    "DeferredPodScheduling",
    "GangScheduling",
    "PodGroupPodsCount",
    "TopologyPlacementGenerator",
];

const DEFAULT_BINDER: &str = "DefaultBinder";
/// Preemption for unschedulable pods; not a rule about nodes.
const DEFAULT_PREEMPTION: &str = "DefaultPreemption";

/// Plugins that Kubernetes has removed, with the replacement.
const REMOVED: [(&str, &str); 7] = [
    ("AzureDiskLimits", "NodeVolumeLimits does its work"),
    ("CinderLimits", "NodeVolumeLimits does its work"),
    ("EBSLimits", "NodeVolumeLimits does its work"),
    ("GCEPDLimits", "NodeVolumeLimits does its work"),
    ("NodeResourcesLeastAllocated", "use scoringStrategy of NodeResourcesFit"),
    ("NodeResourcesMostAllocated", "use scoringStrategy of NodeResourcesFit"),
    ("SelectorSpread", "PodTopologySpread does its work"),
];

/// All plugins, in a `disabled` list.
const ALL: &str = "*";

/// Whether `multiPoint` enables a plugin at the point.
fn implements(name: &str, point: Point) -> bool {
    match Plugin::from_name(name) {
        Some(plugin) => plugin.points().contains(&point),
        None => {
            matches!((name, point), (DEFAULT_BINDER, Point::Bind) | (DEFAULT_PREEMPTION, Point::PostFilter))
        }
    }
}

/// Whether a plugin may be enabled at the point itself. Plugins without effect are accepted at every point, except that
/// none of them sorts the queue and only one binds.
fn may_be_enabled_at(name: &str, point: Point) -> bool {
    // Reserving and binding volumes is the scheduler's part.
    let binds_volumes =
        name == Plugin::VolumeBinding.name() && matches!(point, Point::Reserve | Point::PreBind);
    let elsewhere = |p| WITHOUT_EFFECT.contains(&name) && !matches!(p, Point::QueueSort | Point::Bind);
    implements(name, point)
        || binds_volumes
        || elsewhere(point)
        || point == Point::PlacementScore && name == Plugin::NodeResourcesFit.name()
}

/// An entry of an `enabled` list; weight 0 means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Enabled {
    name: String,
    weight: i64,
}

/// `enabled` and `disabled` of one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginSet {
    enabled: Vec<Enabled>,
    disabled: Vec<String>,
}

impl PluginSet {
    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|d| d == name)
    }

    fn find(&self, name: &str) -> Option<&Enabled> {
        self.enabled.iter().find(|e| e.name == name)
    }

    /// Reads one set; `point` is none for `multiPoint`. Names that occur twice are dropped after reporting.
    fn read(node: &Node<'_>, point: Option<Point>) -> PluginSet {
        let mut set = PluginSet::default();
        let Some(mut fields) = node.fields() else { return set };
        for item in fields.items("enabled") {
            let Some(mut plugin) = item.fields() else { continue };
            let name = plugin.required_string("name");
            let weight = plugin.get("weight").and_then(|weight| {
                let value = weight.int32()?;
                if value < 0 {
                    weight.invalid("must not be negative; disable the plugin to leave it out");
                }
                Some(i64::from(value))
            });
            plugin.finish();
            let Some(name) = name.filter(is_known_plugin) else { continue };
            let text = name.string().unwrap_or_default();
            if let Some(point) = point.filter(|point| !may_be_enabled_at(text, *point)) {
                name.invalid(&format!("the plugin takes no part in {}", point.field()));
            } else if set.find(text).is_some() {
                name.error(format!("Duplicate value: {text:?}"));
            } else {
                set.enabled.push(Enabled { name: text.to_owned(), weight: weight.unwrap_or(0) });
            }
        }
        for item in fields.items("disabled") {
            let Some(mut plugin) = item.fields() else { continue };
            let name = plugin.required_string("name");
            plugin.get("weight").and_then(|weight| weight.int32());
            plugin.finish();
            if let Some(name) = name.filter(|n| n.value == ALL || is_known_plugin(n)) {
                set.disabled.push(name.string().unwrap_or_default().to_owned());
            }
        }
        fields.finish();
        set
    }
}

/// Whether the string is the name of an in-tree plugin; reports it when not.
pub(super) fn is_known_plugin(node: &Node<'_>) -> bool {
    let name = node.string().unwrap_or_default();
    if Plugin::from_name(name).is_some() || WITHOUT_EFFECT.contains(&name) {
        return true;
    }
    if let Some((_, instead)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        node.invalid(&format!("the plugin was removed from Kubernetes; {instead}"));
        return false;
    }
    let mut known: Vec<&str> = Plugin::ALL.iter().map(|p| p.name()).chain(WITHOUT_EFFECT).collect();
    known.sort_unstable();
    node.invalid(&format!("unknown plugin; {}", suggestion(name, &known)));
    false
}

/// `plugins` of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plugins {
    multi_point: PluginSet,
    sets: Vec<(Point, PluginSet)>,
}

impl Plugins {
    pub fn read(fields: &mut Fields<'_>) -> Plugins {
        let mut plugins = Plugins::default();
        let version = fields.findings.feature_gates.version;
        let Some(mut points) = fields.get("plugins").and_then(|node| node.fields()) else { return plugins };
        if let Some(node) = points.get("multiPoint") {
            plugins.multi_point = PluginSet::read(&node, None);
        }
        for point in Point::ALL {
            if let Some(node) = points.get(point.field()) {
                let of_later = point.since().filter(|(since, _)| *since > version);
                if let Some((since, what)) = of_later {
                    let text = format!(
                        "is ignored: Kubernetes {version} does not have this extension point of {since}, which {what}"
                    );
                    node.findings.warn(node.path.as_str(), text);
                    continue;
                }
                plugins.sets.push((point, PluginSet::read(&node, Some(point))));
            }
        }
        points.finish();
        plugins
    }

    /// The set of the queue sort point, which all profiles must share.
    pub fn queue_sort(&self) -> PluginSet {
        self.set(Point::QueueSort).cloned().unwrap_or_default()
    }

    fn set(&self, point: Point) -> Option<&PluginSet> {
        self.sets.iter().find(|(p, _)| *p == point).map(|(_, set)| set)
    }

    /// The effective `multiPoint` list: the defaults without the disabled ones, replaced in place where they are enabled
    /// again, then the other enabled plugins.
    fn multi_point_in_force(&self) -> Vec<Enabled> {
        let custom = &self.multi_point;
        let mut merged: Vec<Enabled> = Vec::new();
        if !custom.disables(ALL) {
            let default = |p: Plugin| Enabled { name: p.name().to_owned(), weight: p.default_weight() };
            let others = [DEFAULT_PREEMPTION, DEFAULT_BINDER];
            let others = others.map(|name| Enabled { name: name.to_owned(), weight: 0 });
            let defaults = Plugin::ALL.into_iter().map(default).chain(others);
            let kept = defaults.filter(|plugin| !custom.disables(&plugin.name));
            merged.extend(kept.map(|plugin| custom.find(&plugin.name).cloned().unwrap_or(plugin)));
        }
        for plugin in &custom.enabled {
            if !merged.iter().any(|m| m.name == plugin.name) {
                merged.push(plugin.clone());
            }
        }
        merged
    }

    /// The plugins of a point: first those of `multiPoint` that the point itself also enables, in the order of the point;
    /// then the other plugins of `multiPoint`; then the other plugins of the point.
    fn at(&self, point: Point) -> Vec<Enabled> {
        let none = PluginSet::default();
        let set = self.set(point).unwrap_or(&none);
        if set.disables(ALL) {
            return set.enabled.clone();
        }
        let mut multi_point = self.multi_point_in_force();
        multi_point.retain(|plugin| implements(&plugin.name, point) && !set.disables(&plugin.name));
        let (overriding, others): (Vec<_>, Vec<_>) =
            set.enabled.iter().cloned().partition(|e| multi_point.iter().any(|m| m.name == e.name));
        multi_point.retain(|plugin| set.find(&plugin.name).is_none());
        [overriding, multi_point, others].concat()
    }

    /// The plugins that Berth runs at a point, in order, with their weights.
    pub fn resolve(&self, point: Point) -> Vec<(Plugin, i64)> {
        let resolved = |e: Enabled| Some((Plugin::from_name(&e.name)?, e.weight.max(1)));
        self.at(point).into_iter().filter_map(resolved).collect()
    }

    /// Whether preemption is enabled.
    pub fn preempts(&self) -> bool {
        self.at(Point::PostFilter).iter().any(|plugin| plugin.name == DEFAULT_PREEMPTION)
    }

    /// Whether any plugin binds pods; kube-scheduler does not start without one.
    pub fn binds(&self) -> bool {
        !self.at(Point::Bind).is_empty()
    }
}
