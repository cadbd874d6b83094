//! Import cycles between the top-level modules of the engine, and imports of its `state` module.
//!
//! The check reads paths (`crate::...`, and `super::...` that reach the root of the crate) from the sources. Comments
//! and the test module at the end of a file are skipped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use crate::sources::{code_lines, rust_files};

const ENGINE: &str = "crates/decide/engine/src";
/// The module below all others: it imports nothing of the engine.
const LOWEST: &str = "state";

/// For each module, the modules it imports, each with one place (`file:line`) of the import.
#[derive(Default)]
struct Imports(BTreeMap<String, BTreeMap<String, String>>);

/// Import cycles between the engine's modules and imports of `state`, one sentence each.
pub fn forbidden_imports(root: &Path) -> Result<Vec<String>, String> {
    let source = root.join(ENGINE);
    let mut files = Vec::new();
    rust_files(&source, &mut files)?;
    let mut imports = Imports::default();
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let reexports = reexports(&read(&source.join("lib.rs"))?);
    for file in files {
        let path = file.strip_prefix(&source).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        imports.add(&path, &read(&file)?, &reexports);
    }
    Ok(imports.findings())
}

impl Imports {
    /// Adds the imports of one file; `path` is relative to the sources of the crate.
    fn add(&mut self, path: &str, text: &str, reexports: &BTreeMap<String, String>) {
        let names: Vec<&str> = path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
        let module = names[0];
        if module == "lib" {
            return;
        }
        let to_root = "super::".repeat(names.len());
        let (numbers, lines): (Vec<usize>, Vec<&str>) = code_lines(text).unzip();
        let code = lines.join("\n");
        for prefix in ["crate::", &to_root] {
            for (start, _) in code.match_indices(prefix) {
                // `super::super::` is not `super::` of a file one level higher.
                if code[..start].ends_with("::") || code[..start].ends_with(is_name) {
                    continue;
                }
                let line = numbers[code[..start].matches('\n').count()];
                for name in first_names(&code[start + prefix.len()..]) {
                    let imported = reexports.get(name).map_or(name, String::as_str);
                    if imported != module && imported != "super" {
                        let place = format!("{path}:{line}");
                        let of_module = self.0.entry(module.to_owned()).or_default();
                        of_module.entry(imported.to_owned()).or_insert(place);
                    }
                }
            }
        }
    }

    fn findings(&self) -> Vec<String> {
        let lowest = self.0.get(LOWEST).into_iter().flatten();
        let of_lowest = lowest.map(|(imported, place)| {
            format!("engine: {LOWEST} imports {imported} ({place}); {LOWEST} may import no other module")
        });
        let cycles: BTreeSet<Vec<&str>> = self.0.keys().filter_map(|module| self.cycle(module)).collect();
        let cycles = cycles.into_iter().map(|cycle| {
            let steps = cycle.iter().zip(cycle.iter().cycle().skip(1));
            let steps = steps.map(|(from, to)| format!("{to} ({})", self.0[*from][*to]));
            format!("engine: import cycle: {} -> {}", cycle[0], steps.collect::<Vec<_>>().join(" -> "))
        });
        of_lowest.chain(cycles).collect()
    }

    /// The shortest cycle through a module, from its first module in alphabetical order.
    fn cycle<'a>(&'a self, module: &'a str) -> Option<Vec<&'a str>> {
        let mut importer_of: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([module]);
        while let Some(importer) = queue.pop_front() {
            for imported in self.0.get(importer).into_iter().flat_map(BTreeMap::keys) {
                if imported == module {
                    let mut cycle = vec![importer];
                    while let Some(importer) = importer_of.get(cycle[cycle.len() - 1]) {
                        cycle.push(importer);
                    }
                    cycle.reverse();
                    let first = (0..cycle.len()).min_by_key(|i| cycle[*i])?;
                    cycle.rotate_left(first);
                    return Some(cycle);
                }
                if !importer_of.contains_key(imported.as_str()) {
                    importer_of.insert(imported, importer);
                    queue.push_back(imported);
                }
            }
        }
        None
    }
}

/// The names that `lib.rs` re-exports, with the module of each.
fn reexports(lib: &str) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    for statement in lib.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let module = statement.split("::").next().unwrap_or_default();
        let names = statement.rsplit("::").next().unwrap_or_default();
        for name in names.split(|c| !is_name(c)).filter(|name| !name.is_empty()) {
            modules.insert(name.to_owned(), module.to_owned());
        }
    }
    modules
}

/// The first name of a path, or those of a list of paths in braces.
fn first_names(path: &str) -> Vec<&str> {
    let name = |path: &'_ str| path.find(|c| !is_name(c)).unwrap_or(path.len());
    let Some(list) = path.strip_prefix('{') else { return vec![&path[..name(path)]] };
    let mut names = Vec::new();
    let (mut depth, mut is_start) = (0, true);
    for (i, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && is_name(c) => {
                names.push(&list[i..i + name(&list[i..])]);
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "mod a;\npub use a::deep::{Thing, Other};\npub use c::One;\n";

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut imports = Imports::default();
        files.iter().for_each(|(path, text)| imports.add(path, text, &reexports(LIB)));
        imports.findings()
    }

    #[test]
    fn cycles_are_printed_once_with_their_places() {
        let files = [
            ("a.rs", "use crate::b::B;\nuse crate::d::{x, y::{p, q}};\n"),
            ("b/mod.rs", "// use crate::a::A;\nuse crate::{\n    d::D,\n    c::C,\n};\n"),
            ("c/deep.rs", "fn f() {\n    super::super::a::g();\n    super::sibling();\n}\n"),
            ("d.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(
            findings(&files),
            ["engine: import cycle: a -> b (a.rs:1) -> c (b/mod.rs:2) -> a (c/deep.rs:2)"]
        );
    }

    #[test]
    fn reexported_names_count_for_their_module() {
        let files = [("a/deep.rs", "use crate::One;\n"), ("c.rs", "use super::Thing;\n")];
        assert_eq!(findings(&files), ["engine: import cycle: a -> c (a/deep.rs:1) -> a (c.rs:1)"]);
        assert_eq!(findings(&files[..1]), [""; 0]);
    }

    #[test]
    fn state_imports_nothing() {
        assert_eq!(
            findings(&[("state/node.rs", "use super::pod::Pod;\nuse crate::verdict::Verdict;\n")]),
            ["engine: state imports verdict (state/node.rs:2); state may import no other module"]
        );
    }
}
