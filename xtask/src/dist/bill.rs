//! The bill of materials: every crate that the binary is built from, in CycloneDX 1.5.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::files::File;
use super::{LICENSE, Release};

pub fn of_materials(release: &Release) -> Result<File, String> {
    let target = format!("{}-unknown-linux-gnu", release.architecture.rust);
    let metadata = crate::cargo::metadata(&["--filter-platform", &target])?;
    let components: Vec<Value> = built_from(&metadata, "berth-cli").into_iter().map(component).collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "name": "berth",
            "version": release.version,
            "licenses": [{"expression": LICENSE}],
        }},
        "components": components,
    });
    Ok(File::new(
        format!("berth-{}-linux-{}.cdx.json", release.version, release.architecture.name),
        format!("{bill:#}\n"),
    ))
}

/// The packages that one is linked with: no tests, and nothing that only its builds run.
fn built_from<'a>(metadata: &'a Value, name: &str) -> Vec<&'a Value> {
    let packages = list(&metadata["packages"]);
    let id_of =
        |name: &str| packages.iter().find(|package| package["name"] == name).map(|package| &package["id"]);
    let mut ids: BTreeSet<&str> = BTreeSet::new();
    let mut left: Vec<&str> = id_of(name).and_then(Value::as_str).into_iter().collect();
    while let Some(id) = left.pop() {
        if ids.insert(id) {
            let node = list(&metadata["resolve"]["nodes"]).iter().find(|node| node["id"] == id);
            let linked = |dependency: &&Value| {
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
            };
            let dependencies = node.map_or(&[][..], |node| list(&node["deps"])).iter().filter(linked);
            left.extend(dependencies.filter_map(|dependency| dependency["pkg"].as_str()));
        }
    }
    packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| ids.contains(id))).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn component(package: &Value) -> Value {
    let (name, version) = (&package["name"], &package["version"]);
    let mut component = json!({"type": "library", "name": name, "version": version});
    if let (Some(name), Some(version), false) = (name.as_str(), version.as_str(), package["source"].is_null())
    {
        component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
    }
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    component
}
