//! Claims of devices, device classes, and the devices that drivers publish, as the rules see them.

use std::collections::HashMap;

use berth_api::object::device::{
    CelDeviceSelector, Device, DeviceConstraint, DeviceObject, DeviceRequest,
    DeviceSelector as WrittenSelector, ResourceClaimSpec, ResourceSlice,
};
use berth_api::object::{PodGroup, PodResourceClaim};
use berth_rules::{DeviceSelector, SelectedDevice};

use crate::input::LintInput;
use crate::subject::{Object, Subject};

/// A ResourceClaim or a ResourceClaimTemplate.
pub(crate) struct Claim<'a> {
    pub(crate) object: Object<'a>,
    pub(crate) spec: &'a ResourceClaimSpec,
    pub(crate) path: &'static str,
}

/// One way to satisfy a request.
pub(crate) struct Wanted<'a> {
    pub(crate) path: String,
    /// `REQUEST`, or `REQUEST/SUBREQUEST` for an alternative.
    pub(crate) name: String,
    pub(crate) class: &'a str,
    pub(crate) selectors: &'a [WrittenSelector],
    /// The number of devices; none for all.
    pub(crate) count: Option<i64>,
}

/// The linted objects of dynamic resource allocation.
pub(crate) fn linted<'i, 'a>(
    input: &'i LintInput<'a>,
) -> impl Iterator<Item = (&'i Object<'a>, &'a DeviceObject)> {
    let inventory = input.inventory;
    let typed: HashMap<usize, &DeviceObject> =
        inventory.device_objects.iter().map(|entry| (entry.order, &entry.object)).collect();
    input.objects.iter().filter_map(move |object| Some((object, *typed.get(&object.order)?)))
}

/// Whether a claim of a pod is one that the pods of its PodGroup share: it is reserved once for the group.
pub(crate) fn is_of_group(input: &LintInput<'_>, subject: &Subject<'_>, entry: &PodResourceClaim) -> bool {
    let Some(group) = &subject.written.spec.scheduling_group else { return false };
    let is_it = |of: &PodGroup| {
        (&*of.metadata.namespace, &of.metadata.name) == (subject.namespace(), &group.pod_group_name)
    };
    input.settings.config.feature_gates.dra_workload_resource_claims
        && input.inventory.pod_groups.iter().any(|of| is_it(&of.object) && of.object.shares(entry))
}

pub(crate) fn claims<'a>(input: &LintInput<'a>) -> Vec<Claim<'a>> {
    let claim = |(object, typed): (&Object<'a>, &'a DeviceObject)| {
        let (spec, path) = match typed {
            DeviceObject::ResourceClaim(claim) => (&claim.spec, "spec"),
            DeviceObject::ResourceClaimTemplate(template) => (&template.spec.spec, "spec.spec"),
            _ => return None,
        };
        Some(Claim { object: object.clone(), spec, path })
    };
    linted(input).filter_map(claim).collect()
}

impl<'a> Claim<'a> {
    pub(crate) fn requests(&self) -> Vec<Vec<Wanted<'a>>> {
        let requests = self.spec.devices.requests.iter().enumerate();
        requests
            .map(|(i, request)| wanted(&format!("{}.devices.requests[{i}]", self.path), request))
            .collect()
    }
}

fn wanted<'a>(path: &str, request: &'a DeviceRequest) -> Vec<Wanted<'a>> {
    let count = |is_for_all: bool, count: i64| (!is_for_all).then(|| count.max(1));
    if let Some(exactly) = &request.exactly {
        return vec![Wanted {
            path: format!("{path}.exactly"),
            name: request.name.clone(),
            class: &exactly.device_class_name,
            selectors: &exactly.selectors,
            count: count(exactly.is_for_all(), exactly.count),
        }];
    }
    let alternatives = request.first_available.iter().enumerate();
    let alternative = |(i, sub): (usize, &'a berth_api::object::device::DeviceSubRequest)| Wanted {
        path: format!("{path}.firstAvailable[{i}]"),
        name: format!("{}/{}", request.name, sub.name),
        class: &sub.device_class_name,
        selectors: &sub.selectors,
        count: count(sub.is_for_all(), sub.count),
    };
    alternatives.map(alternative).collect()
}

impl Wanted<'_> {
    pub(crate) fn is_constrained_by(&self, constraint: &DeviceConstraint) -> bool {
        let request = self.name.split('/').next().unwrap_or_default();
        constraint.requests.is_empty()
            || constraint.requests.iter().any(|name| *name == self.name || name == request)
    }
}

pub(crate) fn expression(selector: &WrittenSelector) -> &str {
    selector.cel.as_ref().map_or("", |CelDeviceSelector { expression }| expression)
}

/// Devices that are equal for selectors.
pub(crate) struct Shape<'a> {
    pub(crate) driver: &'a str,
    pub(crate) device: &'a Device,
    /// The number of devices by node; the devices of several nodes have none.
    pub(crate) by_node: HashMap<Option<&'a str>, usize>,
}

/// The devices that drivers publish, and the classes of the input.
pub(crate) struct Devices<'a> {
    pub(crate) shapes: Vec<Shape<'a>>,
    classes: HashMap<&'a str, &'a [WrittenSelector]>,
    compiled: HashMap<String, Option<DeviceSelector>>,
    /// Whether selectors select shapes, by their texts and places.
    results: HashMap<String, Vec<Option<bool>>>,
}

impl<'a> Devices<'a> {
    pub(crate) fn of(input: &LintInput<'a>) -> Devices<'a> {
        let mut devices = Devices {
            shapes: Vec::new(),
            classes: HashMap::new(),
            compiled: HashMap::new(),
            results: HashMap::new(),
        };
        let mut known: HashMap<String, usize> = HashMap::new();
        for entry in &input.inventory.device_objects {
            match &entry.object {
                DeviceObject::DeviceClass(class) => {
                    devices.classes.insert(&class.metadata.name, &class.spec.selectors);
                }
                DeviceObject::ResourceSlice(slice) => devices.add(slice, &mut known),
                _ => {}
            }
        }
        devices
    }

    fn add(&mut self, slice: &'a ResourceSlice, known: &mut HashMap<String, usize>) {
        let driver = slice.spec.driver.as_str();
        for device in &slice.spec.devices {
            let Device { attributes, capacity, allow_multiple_allocations, .. } = device;
            let key = format!("{driver} {attributes:?} {capacity:?} {allow_multiple_allocations}");
            let at = *known.entry(key).or_insert_with(|| {
                self.shapes.push(Shape { driver, device, by_node: HashMap::new() });
                self.shapes.len() - 1
            });
            let node = device.node_name.as_deref().or(slice.spec.node_name.as_deref());
            *self.shapes[at].by_node.entry(node).or_default() += 1;
        }
    }

    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// The devices that a request could get, were they free; none if its class is not known or a selector is not valid.
    pub(crate) fn selected(&mut self, input: &LintInput<'_>, wanted: &Wanted<'_>) -> Option<Vec<&Shape<'a>>> {
        input.work.spend(self.shapes.len());
        let class = *self.classes.get(wanted.class)?;
        let texts: Vec<&str> = class.iter().chain(wanted.selectors).map(expression).collect();
        for text in &texts {
            if !self.compiled.contains_key(*text) {
                self.compiled.insert((*text).to_owned(), DeviceSelector::compile(text).ok());
            }
        }
        let mut selected = Vec::new();
        for (i, shape) in self.shapes.iter().enumerate() {
            let mut is_selected = true;
            for text in &texts {
                let selector = self.compiled[*text].as_ref()?;
                if !is_selected || !input.work.spend(1) {
                    continue;
                }
                let known =
                    self.results.entry((*text).to_owned()).or_insert_with(|| vec![None; self.shapes.len()]);
                is_selected = match known[i] {
                    Some(known) => known,
                    None => selects(input, selector, shape)?,
                };
                known[i] = Some(is_selected);
            }
            if is_selected {
                selected.push(shape);
            }
        }
        Some(selected)
    }
}

/// Whether a selector selects a device; none if that takes more steps than the rule has left.
fn selects(input: &LintInput<'_>, selector: &DeviceSelector, shape: &Shape<'_>) -> Option<bool> {
    let device = SelectedDevice {
        driver: shape.driver,
        allow_multiple_allocations: shape.device.allow_multiple_allocations,
        attributes: &shape.device.attributes,
        capacity: &shape.device.capacity,
    };
    let (matches, took) = selector.matches_within(&device, input.work.left() / 2);
    // A unit of cost takes as long as two steps of other rules.
    input.work.spend(usize::try_from(2 * took).unwrap_or(usize::MAX));
    matches.map(|matches| matches == Ok(true))
}

impl Shape<'_> {
    /// Whether it has an attribute: by its name with domain, or without that of the driver.
    pub(crate) fn attribute(&self, name: &str) -> Option<&berth_api::object::device::DeviceAttribute> {
        let attributes = &self.device.attributes;
        attributes.get(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            attributes.get(id).filter(|_| domain == self.driver)
        })
    }
}
