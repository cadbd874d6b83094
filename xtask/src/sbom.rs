//! The software bill of materials of the binary `berth`, in the format CycloneDX 1.6: what is linked into it or runs while
//! it is built, with versions, licences and the checksums of `Cargo.lock`. The same sources give the same text.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

const BINARY: &str = "berth-cli";

/// The document, from `cargo metadata` with dependencies, and the text of `Cargo.lock`.
///
/// # Errors
/// The metadata lacks a part.
pub fn document(metadata: &Value, lock: &str) -> Result<Value, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|p| (text(&p, "id").to_owned(), p)).collect();
    let nodes: BTreeMap<String, Value> =
        list(&metadata["resolve"]["nodes"]).into_iter().map(|n| (text(&n, "id").to_owned(), n)).collect();
    let root = packages.values().find(|package| text(package, "name") == BINARY);
    let root = text(root.ok_or_else(|| format!("cargo metadata has no package {BINARY}"))?, "id").to_owned();
    let checksums = checksums(lock);
    let mut edges: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![root.as_str()];
    while let Some(id) = open.pop() {
        if edges.contains_key(id) {
            continue;
        }
        let (id, node) = nodes.get_key_value(id).ok_or_else(|| format!("cargo metadata has no node {id}"))?;
        // Dependencies of tests and benchmarks are no part of the binary.
        let is_used = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
        let used = node["deps"].as_array().into_iter().flatten().filter(is_used).map(|dep| text(dep, "pkg"));
        let used: BTreeSet<String> = used.map(str::to_owned).collect();
        open.extend(used.iter().filter_map(|id| nodes.get_key_value(id)).map(|(id, _)| id.as_str()));
        edges.insert(id, used);
    }
    let purl = |id: &str| {
        let package = &packages[id];
        format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
    };
    let component = |id: &str, kind: &str| {
        let package = &packages[id];
        let (name, version) = (text(package, "name"), text(package, "version"));
        let mut component =
            json!({"type": kind, "bom-ref": purl(id), "name": name, "version": version, "purl": purl(id)});
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    };
    let others = edges.keys().filter(|id| **id != root);
    let dependencies = edges.iter().map(|(id, used)| {
        json!({"ref": purl(id), "dependsOn": used.iter().map(|id| purl(id)).collect::<Vec<_>>()})
    });
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": component(&root, "application")},
        "components": others.map(|id| component(id, "library")).collect::<Vec<_>>(),
        "dependencies": dependencies.collect::<Vec<_>>(),
    }))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The checksums of `Cargo.lock` by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|p| Some(((field(p, "name")?, field(p, "version")?), field(p, "checksum")?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_what_the_binary_uses_and_no_test_dependencies() {
        let package = |id: &str, name: &str| json!({"id": id, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let dep = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("r", "berth-cli"), package("a", "serde"), package("b", "cc"), package("t", "proptest")],
            "resolve": {"nodes": [
                {"id": "r", "deps": [dep("a", Value::Null), dep("t", json!("dev"))]},
                {"id": "a", "deps": [dep("b", json!("build"))]}, {"id": "b", "deps": []}, {"id": "t", "deps": []}]},
        });
        let lock = "version = 4\n\n[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let document = document(&metadata, lock).unwrap();
        assert_eq!(document["metadata"]["component"]["name"], "berth-cli");
        let names: Vec<&str> =
            document["components"].as_array().unwrap().iter().map(|c| text(c, "name")).collect();
        assert_eq!(names, ["serde", "cc"]);
        assert_eq!(document["components"][0]["hashes"][0]["content"], "abc");
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["dependencies"][2]["dependsOn"], json!(["pkg:cargo/serde@1.0.0"]));
    }
}
