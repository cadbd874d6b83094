//! Selectors of devices against the recorded messages of kube-scheduler.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use berth_api::object::device::Device;
use berth_rules::{DeviceSelector, SelectedDevice};
use flate2::read::GzDecoder;
use serde_json::Value;

/// What kube-scheduler writes between the name of a claim or a class and the error of a selector.
const SELECTOR: &str = ": selector #";
const ERROR: &str = ": CEL runtime error: ";

#[test]
fn selectors_fail_with_the_recorded_errors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/conformance/more/dra.jsonl.gz");
    let Ok(file) = File::open(&path) else {
        println!("conformance recordings not found at {}: nothing was compared", path.display());
        return;
    };
    let mut selectors = HashMap::new();
    let mut n_compared = 0;
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let recording: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let objects = recording["scenario"]["objects"].as_array().unwrap();
        let devices = devices(objects);
        let mut evaluate = |expression: &str| {
            let selector = selectors.entry(expression.to_owned()).or_insert_with(|| {
                let selector = DeviceSelector::compile(expression).expect(expression);
                assert!(!selector.exceeds_cost_limit(), "{expression}");
                selector
            });
            let matches = |(driver, device): &(String, Device)| {
                selector.matches(&SelectedDevice {
                    driver,
                    allow_multiple_allocations: device.allow_multiple_allocations,
                    attributes: &device.attributes,
                    capacity: &device.capacity,
                })
            };
            devices.iter().map(matches).collect::<Vec<_>>()
        };
        for object in objects {
            each_list_of_selectors(object, &mut |list| {
                list.iter().for_each(|expression| drop(evaluate(expression)))
            });
        }
        let mut messages = Vec::new();
        each_text(&recording["expect"], &mut |text| {
            if text.contains(ERROR) {
                messages.push(text.to_owned());
            }
        });
        for message in messages {
            let (before, error) = message.split_once(ERROR).unwrap();
            let (named, position) = before.rsplit_once(SELECTOR).unwrap();
            let position: usize = position.parse().unwrap();
            let name = named.rsplit(' ').next().unwrap();
            let object = objects.iter().find(|object| is_named(object, name)).expect(name);
            let mut results = Vec::new();
            each_list_of_selectors(object, &mut |list| {
                list.get(position).into_iter().for_each(|expression| results.extend(evaluate(expression)));
            });
            assert!(results.contains(&Err(error.to_owned())), "{message}: {results:?}");
            n_compared += 1;
        }
    }
    assert!(n_compared > 0 && selectors.len() > 40);
}

/// The devices of all slices, with their drivers.
fn devices(objects: &[Value]) -> Vec<(String, Device)> {
    let slices = objects.iter().filter(|object| object["kind"] == "ResourceSlice");
    let of_slice = |slice: &Value| {
        let driver = slice["spec"]["driver"].as_str().expect("a driver").to_owned();
        let devices: Vec<Device> =
            serde_json::from_value(slice["spec"]["devices"].clone()).unwrap_or_default();
        devices.into_iter().map(move |device| (driver.clone(), device))
    };
    slices.flat_map(of_slice).collect()
}

/// Claims have a namespace before their names.
fn is_named(object: &Value, name: &str) -> bool {
    let metadata = &object["metadata"];
    match name.split_once('/') {
        Some((namespace, name)) => {
            object["kind"] == "ResourceClaim"
                && metadata["namespace"] == namespace
                && metadata["name"] == name
        }
        None => object["kind"] == "DeviceClass" && metadata["name"] == name,
    }
}

fn each_list_of_selectors(value: &Value, visit: &mut dyn FnMut(&[&str])) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::Array(list) if name == "selectors" => {
                let expressions = list.iter().filter_map(|selector| selector["cel"]["expression"].as_str());
                visit(&expressions.collect::<Vec<_>>());
            }
            value => each_list_of_selectors(value, visit),
        }),
        Value::Array(items) => items.iter().for_each(|item| each_list_of_selectors(item, visit)),
        _ => {}
    }
}

fn each_text(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Object(fields) => fields.values().for_each(|value| each_text(value, visit)),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, visit)),
        _ => {}
    }
}
