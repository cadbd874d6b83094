//! The dependencies between workspace crates that ARCHITECTURE.md allows, as a table.

use serde_json::Value;

/// Each crate with the workspace crates that its normal and build dependencies may name.
const ALLOWED: &[(&str, &[&str])] = &[
    ("berth-api", &[]),
    ("berth-engine", &["berth-api"]),
    ("berth-simulate", &["berth-api", "berth-engine"]),
    ("berth-lint", &["berth-api", "berth-engine", "berth-simulate", "berth-schema"]),
    ("berth-picture", &[]),
    (
        "berth-console",
        &["berth-api", "berth-engine", "berth-simulate", "berth-lint", "berth-picture", "berth-schema"],
    ),
    ("berth-playground", &["berth-api", "berth-simulate", "berth-console"]),
    ("berth-console-server", &["berth-api", "berth-client", "berth-console", "berth-serve"]),
    ("berth-bench", &["berth-api", "berth-engine"]),
    ("berth-client", &["berth-api"]),
    ("berth-mirror", &["berth-api", "berth-engine", "berth-client"]),
    ("berth-serve", &[]),
    ("berth-scheduler", &["berth-api", "berth-engine", "berth-client", "berth-mirror", "berth-serve"]),
    ("berth-enforcer", &["berth-api", "berth-engine", "berth-client", "berth-mirror", "berth-serve"]),
    ("berth-admission", &["berth-api", "berth-engine", "berth-client", "berth-mirror", "berth-serve"]),
    ("berth-schema", &["berth-api"]),
    ("berth-apiserver", &["berth-api", "berth-schema", "berth-serve"]),
    ("berth-controllers", &["berth-api", "berth-client"]),
    ("berth-kubelet", &["berth-api", "berth-engine", "berth-client"]),
    (
        "berth-cli",
        &[
            "berth-api",
            "berth-engine",
            "berth-simulate",
            "berth-lint",
            "berth-picture",
            "berth-console",
            "berth-console-server",
            "berth-bench",
            "berth-client",
            "berth-mirror",
            "berth-serve",
            "berth-scheduler",
            "berth-enforcer",
            "berth-admission",
            "berth-schema",
            "berth-apiserver",
            "berth-controllers",
            "berth-kubelet",
        ],
    ),
    ("berth-testkit", &["berth-api"]),
    (
        "berth-faultsim",
        &[
            "berth-api",
            "berth-bench",
            "berth-client",
            "berth-scheduler",
            "berth-enforcer",
            "berth-admission",
            "berth-apiserver",
            "berth-controllers",
            "berth-kubelet",
            "berth-testkit",
        ],
    ),
    ("xtask", &[]),
];

/// Crates with a clock, I/O or randomness; [`PURE`] crates do not depend on them.
const BANNED: [&str; 32] = [
    "anstream",
    "async-std",
    "axum",
    "chrono",
    "clap",
    "crossterm",
    "fastrand",
    "futures",
    "getrandom",
    "hyper",
    "indicatif",
    "jiff",
    "k8s-openapi",
    "kube",
    "memmap2",
    "mio",
    "notify",
    "quanta",
    "rand",
    "rand_chacha",
    "rayon",
    "reqwest",
    "smol",
    "socket2",
    "tempfile",
    "time",
    "tokio",
    "tower",
    "tracing-subscriber",
    "ureq",
    "uuid",
    "walkdir",
];

/// Crates without clock, I/O and randomness.
const PURE: [&str; 7] = [
    "berth-api",
    "berth-engine",
    "berth-simulate",
    "berth-lint",
    "berth-picture",
    "berth-console",
    "berth-playground",
];

/// A dependency of one workspace crate on another.
#[derive(Debug, PartialEq, Eq)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// Whether only tests, examples and benchmarks use it.
    pub dev: bool,
}

/// The dependencies between workspace crates, from `cargo metadata --no-deps`.
pub fn edges(metadata: &Value) -> Vec<Edge> {
    let names: Vec<&str> = packages(metadata).map(name).collect();
    let mut edges = Vec::new();
    for package in packages(metadata) {
        for dependency in dependencies(package).filter(|d| names.contains(&name(d))) {
            let dev = dependency["kind"] == "dev";
            edges.push(Edge { from: name(package).to_owned(), to: name(dependency).to_owned(), dev });
        }
    }
    edges
}

/// The forbidden ones of these edges, one sentence each.
pub fn forbidden(edges: &[Edge]) -> Vec<String> {
    edges.iter().filter_map(finding).collect()
}

fn finding(Edge { from, to, dev }: &Edge) -> Option<String> {
    // Tests may use any crate; the product may not.
    if *dev {
        return None;
    }
    if to == "berth-testkit" && from != "berth-faultsim" {
        return Some(format!("{from} -> {to}: the test kit is for dev-dependencies only"));
    }
    match ALLOWED.iter().find(|(name, _)| name == from) {
        None => Some(format!("{from} -> {to}: {from} is unknown; add it to ARCHITECTURE.md and xtask")),
        Some((_, allowed)) if allowed.contains(&to.as_str()) => None,
        Some((_, [])) => Some(format!("{from} -> {to}: forbidden; {from} may use no other crate here")),
        Some((_, allowed)) => {
            Some(format!("{from} -> {to}: forbidden; {from} may use {}", allowed.join(", ")))
        }
    }
}

/// Direct dependencies of [`PURE`] crates that are forbidden there.
pub fn banned_dependencies(metadata: &Value) -> Vec<String> {
    let pure = packages(metadata).filter(|p| PURE.contains(&name(p)));
    pure.flat_map(|package| {
        let banned = dependencies(package)
            .filter(|d| d["kind"] != "dev" && BANNED.contains(&name(d)) && !is_clockless_jiff(d));
        banned.map(move |d| {
            format!(
                "{} -> {}: it has a clock, I/O or randomness; pass its results in",
                name(package),
                name(d)
            )
        })
    })
    .collect()
}

/// Without its feature `std`, jiff reads and writes times but has no clock.
fn is_clockless_jiff(dependency: &Value) -> bool {
    let has_std =
        || dependency["features"].as_array().is_some_and(|features| features.contains(&"std".into()));
    name(dependency) == "jiff" && dependency["uses_default_features"] == false && !has_std()
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package["dependencies"].as_array().into_iter().flatten()
}

fn name(value: &Value) -> &str {
    value["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(from: &str, to: &str, dev: bool) -> Option<String> {
        finding(&Edge { from: from.to_owned(), to: to.to_owned(), dev })
    }

    #[test]
    fn allowed_edges_pass() {
        for (from, to) in [
            ("berth-engine", "berth-api"),
            ("berth-scheduler", "berth-mirror"),
            ("berth-admission", "berth-engine"),
            ("berth-kubelet", "berth-engine"),
            ("berth-apiserver", "berth-schema"),
            ("berth-cli", "berth-controllers"),
            ("berth-testkit", "berth-api"),
        ] {
            assert_eq!(check(from, to, false), None, "{from} -> {to}");
        }
    }

    #[test]
    fn forbidden_edges_are_named() {
        for (from, to, expected) in [
            (
                "berth-api",
                "berth-engine",
                "berth-api -> berth-engine: forbidden; berth-api may use no other crate here",
            ),
            (
                "berth-controllers",
                "berth-apiserver",
                "berth-controllers -> berth-apiserver: forbidden; berth-controllers may use berth-api, berth-client",
            ),
            (
                "berth-engine",
                "berth-client",
                "berth-engine -> berth-client: forbidden; berth-engine may use berth-api",
            ),
            (
                "berth-testkit",
                "berth-engine",
                "berth-testkit -> berth-engine: forbidden; berth-testkit may use berth-api",
            ),
            (
                "berth-cli",
                "berth-testkit",
                "berth-cli -> berth-testkit: the test kit is for dev-dependencies only",
            ),
            (
                "berth-new",
                "berth-api",
                "berth-new -> berth-api: berth-new is unknown; add it to ARCHITECTURE.md and xtask",
            ),
        ] {
            assert_eq!(check(from, to, false).as_deref(), Some(expected));
        }
    }

    #[test]
    fn tests_may_use_what_they_need() {
        assert_eq!(check("berth-engine", "berth-testkit", true), None);
        assert_eq!(check("berth-controllers", "berth-apiserver", true), None);
    }

    #[test]
    fn edges_and_banned_crates_are_found_in_metadata() {
        let metadata = json!({"packages": [
            {"name": "berth-api", "dependencies": [
                {"name": "serde", "kind": null},
                {"name": "jiff", "kind": null, "uses_default_features": false, "features": ["alloc"]}, {"name": "tokio", "kind": null}, {"name": "rand", "kind": "dev"}]},
            {"name": "berth-engine", "dependencies": [
                {"name": "berth-api", "kind": "build"}, {"name": "berth-testkit", "kind": "dev"}]},
            {"name": "berth-testkit", "dependencies": []},
            {"name": "berth-cli", "dependencies": [{"name": "tokio", "kind": null}]},
        ]});
        let edge = |to: &str, dev| Edge { from: "berth-engine".to_owned(), to: to.to_owned(), dev };
        assert_eq!(edges(&metadata), [edge("berth-api", false), edge("berth-testkit", true)]);
        assert_eq!(
            banned_dependencies(&metadata),
            ["berth-api -> tokio: it has a clock, I/O or randomness; pass its results in"]
        );
    }
}
