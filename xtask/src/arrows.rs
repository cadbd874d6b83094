//! The dependencies between workspace crates, held against the drawing in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

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
const PURE: [&str; 11] = [
    "berth-api",
    "berth-cel",
    "berth-rules",
    "berth-input",
    "berth-control",
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

/// The folders of the workspace's crates, relative to the root.
pub fn folders(metadata: &Value, root: &Path) -> Vec<String> {
    let folder = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some(manifest.parent()?.strip_prefix(root).ok()?.to_string_lossy().into_owned())
    };
    packages(metadata).filter_map(folder).collect()
}

/// The arrows that ARCHITECTURE.md draws, each from a crate to one that it uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    arrows: BTreeMap<String, BTreeSet<String>>,
    /// The groups of crates, from the top. Each uses itself and those above it.
    groups: Vec<String>,
}

impl Drawing {
    /// Reads the drawing: the first block of text in which a line has an arrow `a <- b`. A line begins with the name of a
    /// group; two spaces separate the chains on it, and `a, b <- c <- d` says that c uses a and b, and d uses c.
    ///
    /// # Errors
    /// There is no drawing.
    pub fn read(text: &str) -> Result<Drawing, String> {
        let blocks = text.split("```").skip(1).step_by(2);
        let block = blocks
            .into_iter()
            .find(|block| block.contains(" <- "))
            .ok_or("ARCHITECTURE.md: no drawing of the crates")?;
        let groups =
            block.lines().filter_map(|line| line.split(' ').next().filter(|group| !group.is_empty()));
        let mut drawing = Drawing { groups: groups.map(str::to_owned).collect(), ..Drawing::default() };
        for chain in block.lines().flat_map(|line| line.split("  ")) {
            let names: Vec<Vec<&str>> =
                chain.split("<-").map(|names| names.split(',').map(str::trim).collect()).collect();
            for pair in names.windows(2) {
                for (used, user) in
                    pair[0].iter().flat_map(|used| pair[1].iter().map(move |user| (used, user)))
                {
                    drawing.arrows.entry(crate_name(user)).or_default().insert(crate_name(used));
                }
            }
        }
        Ok(drawing)
    }

    /// The arrows of crates that contradict the drawing, and those of the drawing that are wrong or more than it needs.
    pub fn findings(&self, edges: &[Edge]) -> Vec<String> {
        let drawn = || self.arrows.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        let product = || edges.iter().filter(|edge| !edge.dev);
        // Tests may use any crate; the product may not.
        let undrawn = product().filter(|edge| !self.reaches(&edge.from, &edge.to, None));
        let undrawn =
            undrawn.map(|Edge { from, to, .. }| format!("{from} -> {to}: ARCHITECTURE.md has no such arrow"));
        let unused =
            drawn().filter(|(from, to)| !product().any(|edge| (&edge.from, &edge.to) == (*from, *to)));
        let unused =
            unused.map(|(from, to)| format!("{from} -> {to}: drawn in ARCHITECTURE.md, but no dependency"));
        let implied = drawn().filter(|(from, to)| self.reaches(from, to, Some(to)));
        let implied = implied.map(|(from, to)| {
            format!("{from} -> {to}: drawn in ARCHITECTURE.md, but implied by other arrows")
        });
        let n_drawn = drawn().count();
        let too_many = (n_drawn > MAX_DRAWN)
            .then(|| format!("ARCHITECTURE.md draws {n_drawn} arrows; at most {MAX_DRAWN} are readable"));
        undrawn.chain(unused).chain(implied).chain(too_many).collect()
    }

    /// The dependencies on crates of a group further down. `folders` are those of the crates, `crates/GROUP/CRATE`.
    pub fn downward(&self, edges: &[Edge], folders: &[String]) -> Vec<String> {
        let group = |name: &str| {
            let folder = folders
                .iter()
                .find(|folder| folder.rsplit('/').next().map(crate_name).as_deref() == Some(name));
            self.groups
                .iter()
                .position(|group| folder.and_then(|folder| folder.split('/').nth(1)) == Some(group))
        };
        let product = edges.iter().filter(|edge| !edge.dev);
        let downward = product.filter(|edge| group(&edge.from) < group(&edge.to));
        downward
            .map(|Edge { from, to, .. }| format!("{from} -> {to}: {to} stands in a group further down"))
            .collect()
    }

    /// Whether arrows lead from one crate to another, without the arrow from the first one to `without`.
    fn reaches(&self, from: &str, to: &str, without: Option<&String>) -> bool {
        let next = self.arrows.get(from).into_iter().flatten().filter(|next| Some(*next) != without);
        next.into_iter().any(|next| next == to || self.reaches(next, to, None))
    }
}

/// The arrows that one drawing may have.
const MAX_DRAWN: usize = 58;

fn crate_name(drawn: &str) -> String {
    // The first name of a line stands behind that of its group.
    let name = drawn.rsplit(' ').next().unwrap_or(drawn);
    format!("berth-{name}")
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

    const DRAWING: &str = "Text\n```\n x | y\n```\n```\ndecide  api <- engine <- lint  api <- schema <- lint\nprove   engine, schema <- bench\n```\n";

    fn edge(from: &str, to: &str, dev: bool) -> Edge {
        Edge { from: format!("berth-{from}"), to: format!("berth-{to}"), dev }
    }

    fn drawn() -> Vec<Edge> {
        let arrows = [
            ("engine", "api"),
            ("lint", "engine"),
            ("schema", "api"),
            ("lint", "schema"),
            ("bench", "engine"),
            ("bench", "schema"),
        ];
        arrows.map(|(from, to)| edge(from, to, false)).into()
    }

    #[test]
    fn drawn_and_implied_arrows_pass() {
        let mut edges = drawn();
        edges.extend([edge("lint", "api", false), edge("api", "bench", true)]);
        assert_eq!(Drawing::read(DRAWING).unwrap().findings(&edges), [""; 0]);
    }

    #[test]
    fn arrows_that_are_not_drawn_are_named() {
        let mut edges = drawn();
        edges.extend([edge("engine", "schema", false), edge("new", "api", false)]);
        assert_eq!(
            Drawing::read(DRAWING).unwrap().findings(&edges),
            [
                "berth-engine -> berth-schema: ARCHITECTURE.md has no such arrow",
                "berth-new -> berth-api: ARCHITECTURE.md has no such arrow"
            ]
        );
    }

    #[test]
    fn drawn_arrows_that_do_not_exist_or_are_implied_are_named() {
        let mut edges = drawn();
        edges.retain(|e| *e != edge("bench", "schema", false));
        let drawing = DRAWING.replace("api <- engine", "api <- lint  api <- engine");
        assert_eq!(
            Drawing::read(&drawing).unwrap().findings(&edges),
            [
                "berth-bench -> berth-schema: drawn in ARCHITECTURE.md, but no dependency",
                "berth-lint -> berth-api: drawn in ARCHITECTURE.md, but no dependency",
                "berth-lint -> berth-api: drawn in ARCHITECTURE.md, but implied by other arrows"
            ]
        );
        assert!(Drawing::read("no picture").is_err());
    }

    #[test]
    fn groups_use_those_above_them() {
        let folders = ["crates/decide/api", "crates/decide/engine", "crates/prove/bench"].map(str::to_owned);
        let edges =
            [edge("engine", "api", false), edge("bench", "engine", false), edge("api", "bench", true)];
        let drawing = Drawing::read(DRAWING).unwrap();
        assert_eq!(drawing.downward(&edges, &folders), [""; 0]);
        let findings = drawing.downward(&[edge("api", "bench", false)], &folders);
        assert_eq!(findings, ["berth-api -> berth-bench: berth-bench stands in a group further down"]);
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
        assert_eq!(edges(&metadata), [edge("engine", "api", false), edge("engine", "testkit", true)]);
        assert_eq!(
            banned_dependencies(&metadata),
            ["berth-api -> tokio: it has a clock, I/O or randomness; pass its results in"]
        );
    }
}
