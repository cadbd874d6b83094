//! Circles of files: files of one crate that import each other in a loop, directly or through others.
//!
//! A file imports another one when it names something that the other defines (`crate::...`, `super::...`, or a name
//! that a `use` brings into scope). A name that is handed on (`pub use`) counts for the file that defines it. The parts of a
//! module may name what the file of the module defines: Rust makes it private to both. Comments and tests are skipped.
//! Methods are invisible: an `impl` may stand in another file than its type.

mod lex;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::LexError;

use crate::sources::rust_files;
use source::{Named, Source};

/// The module of the engine that imports nothing of the others.
const LOWEST: (&str, &str) = ("crates/decide/engine", "state");

/// The circles of files and of top-level modules in the crates in these folders, one text each.
pub fn circles(root: &Path, folders: &[String]) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    for folder in folders {
        let files = Crate::read(&root.join(folder).join("src"))?.imports();
        let modules = files.by_module();
        for (what, imports) in [("files", &files), ("modules", &modules)] {
            let circles = imports.circles();
            let found = circles.iter().map(|circle| imports.describe(circle));
            findings.extend(found.map(|circle| format!("{folder}: {what} in a circle: {circle}")));
        }
        if folder == LOWEST.0 {
            let of_lowest = modules.0.get(LOWEST.1).into_iter().flatten();
            findings.extend(of_lowest.map(|(to, place)| {
                format!("{folder}: {} imports {to} ({place}); it may import no other module", LOWEST.1)
            }));
        }
    }
    Ok(findings)
}

/// Whether an import stays within a module: of the file itself, or of the file of a module that it is part of.
fn is_part(module: &[String], origin: &[String]) -> bool {
    module == origin || (!origin.is_empty() && module.starts_with(origin))
}

/// The sources of a crate, by the path of the module (`[]` is the crate).
#[derive(Default)]
struct Crate(BTreeMap<Vec<String>, File>);

struct File {
    path: String,
    source: Source,
}

impl Crate {
    fn read(folder: &Path) -> Result<Crate, String> {
        let mut files = Vec::new();
        rust_files(folder, &mut files)?;
        let mut of_crate = Crate::default();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let path = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().replace('\\', "/");
            of_crate.add(&path, &text).map_err(|e| format!("{}: {e}", file.display()))?;
        }
        Ok(of_crate)
    }

    /// Adds a file; `path` is relative to the sources of the crate.
    fn add(&mut self, path: &str, text: &str) -> Result<(), LexError> {
        let mut module: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let is_file_of_folder = match &module[..] {
            [only] => only == "lib" || only == "main",
            [.., last] => last == "mod",
            [] => false,
        };
        if is_file_of_folder {
            module.pop();
        }
        self.0.insert(module, File { path: path.to_owned(), source: Source::parse(text)? });
        Ok(())
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::default();
        for (module, file) in &self.0 {
            let mut add = |named: &Named, what: &str| {
                if let Some(origin) = self.origin(module, &named.path, &mut BTreeSet::new())
                    && !is_part(module, origin)
                {
                    let place = format!("{what}, line {}", named.line);
                    let of_file = imports.0.entry(file.path.clone()).or_default();
                    of_file.entry(self.0[origin].path.clone()).or_insert(place);
                }
            };
            for named in &file.source.paths {
                add(named, &named.path.join("::"));
            }
            for import in &file.source.imports {
                match &import.name {
                    // What is only handed on is no import.
                    Some(name) if import.is_reexport && !file.source.names.contains(name) => {}
                    Some(_) if self.is_module(module, &import.named.path) => {}
                    Some(name) => add(&import.named, name),
                    None if import.is_reexport => {}
                    None => add(&import.named, "*"),
                }
            }
        }
        imports
    }

    fn is_module(&self, from: &[String], path: &[String]) -> bool {
        self.module(from, path).is_some_and(|(_, rest)| rest.is_empty())
    }

    /// The deepest module that a path leads to without names in scope, and the rest of the path.
    fn module<'a, 'p>(
        &'a self,
        from: &'a [String],
        path: &'p [String],
    ) -> Option<(&'a Vec<String>, &'p [String])> {
        let mut module = from.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    module.pop()?;
                    rest = &rest[1..];
                }
            }
            name if self.0.get(from)?.source.children.contains(name) => {}
            _ => return None,
        }
        while let [name, others @ ..] = rest
            && self.0.get(&module)?.source.children.contains(name)
        {
            module.push(name.clone());
            rest = others;
        }
        self.0.get_key_value(&module).map(|(module, _)| (module, rest))
    }

    /// The module whose file defines what a path names; none for paths that leave the crate.
    fn origin<'a>(
        &'a self,
        from: &'a Vec<String>,
        path: &[String],
        seen: &mut BTreeSet<(Vec<String>, Vec<String>)>,
    ) -> Option<&'a Vec<String>> {
        if !seen.insert((from.clone(), path.to_vec())) {
            return None;
        }
        let (module, rest) = match self.module(from, path) {
            Some(found) => found,
            // The first name is one that a `use` of this file brings into scope.
            None => {
                let import = self.import(from, path.first()?)?;
                if import.first() == path.first() {
                    // `use other_crate::other_crate`.
                    return None;
                }
                let whole: Vec<String> = import.iter().chain(&path[1..]).cloned().collect();
                return self.origin(from, &whole, seen);
            }
        };
        let Some(name) = rest.first() else { return Some(module) };
        if let Some(import) = self.import(module, name) {
            let whole: Vec<String> = import.iter().chain(&rest[1..]).cloned().collect();
            // No file of this crate defines what another crate does.
            return self.origin(module, &whole, seen);
        }
        let source = &self.0[module].source;
        if !source.defines.contains(name) {
            for glob in source.imports.iter().filter(|import| import.name.is_none()) {
                let whole: Vec<String> = glob.named.path.iter().chain(rest).cloned().collect();
                if let Some((target, _)) = self.module(module, &whole)
                    && target != module
                    && let Some(origin) = self.origin(module, &whole, seen)
                    && (self.0[origin].source.defines.contains(name) || origin != target)
                {
                    return Some(origin);
                }
            }
        }
        Some(module)
    }

    /// The path behind a name that a `use` of this module brings into scope.
    fn import(&self, module: &[String], name: &str) -> Option<&Vec<String>> {
        let imports = &self.0.get(module)?.source.imports;
        imports.iter().find(|import| import.name.as_deref() == Some(name)).map(|import| &import.named.path)
    }
}

/// For each file (or module), those that it imports, with one place of the import.
#[derive(Default)]
struct Imports(BTreeMap<String, BTreeMap<String, String>>);

impl Imports {
    /// The imports between top-level modules; the files of the crate itself are left out.
    fn by_module(&self) -> Imports {
        let module =
            |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
        let mut modules = Imports::default();
        for (file, imported) in &self.0 {
            let from = module(file);
            for (other, place) in imported {
                let to = module(other);
                let is_root = |module: &str| matches!(module, "lib" | "main");
                if from != to && !is_root(&from) && !is_root(&to) {
                    let place = format!("{file}: {place}");
                    modules.0.entry(from.clone()).or_default().entry(to).or_insert(place);
                }
            }
        }
        modules
    }

    fn circles(&self) -> BTreeSet<Vec<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|file| (file.as_str(), self.reached(file))).collect();
        let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
        for (file, others) in &reached {
            if others.contains(file) {
                let is_in = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
                circles.insert(others.iter().filter(is_in).copied().collect());
            }
        }
        circles
    }

    fn reached(&self, file: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![file];
        while let Some(file) = open.pop() {
            for other in self.0.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(other.as_str()) {
                    open.push(other);
                }
            }
        }
        reached
    }

    fn describe(&self, files: &[&str]) -> String {
        let mut text = files.join(", ");
        for file in files {
            for (other, place) in self.0[*file].iter().filter(|(other, _)| files.contains(&other.as_str())) {
                text.push_str(&format!("\n    {file} -> {other} ({place})"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        let mut of_crate = Crate::default();
        for (path, text) in files {
            of_crate.add(path, text).expect("the source is well-formed");
        }
        let imports = of_crate.imports();
        imports.circles().iter().map(|circle| imports.describe(circle)).collect()
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            ("a.rs", "use crate::b::{self, B};\npub struct A;\n"),
            ("b/mod.rs", "mod deep;\npub struct B;\nfn f() { deep::g() }\n"),
            ("b/deep.rs", "pub fn g() { super::super::c::h() }\n"),
            ("c.rs", "pub fn h() { let x: crate::A; }\n#[cfg(test)]\nmod tests { use crate::b::B; }\n"),
        ];
        assert_eq!(
            circles(&files),
            [
                "a.rs, b/deep.rs, b/mod.rs, c.rs\n    a.rs -> b/mod.rs (B, line 1)\n    b/deep.rs -> c.rs (super::super::c::h, \
              line 1)\n    b/mod.rs -> b/deep.rs (deep::g, line 3)\n    c.rs -> a.rs (crate::A, line 1)"
            ]
        );
    }

    #[test]
    fn names_that_are_handed_on_count_for_their_file() {
        let lib = ("lib.rs", "mod a;\n");
        let part = ("a/part.rs", "use super::other;\npub struct Part;\nfn f() { other::g() }\n");
        let other = ("a/other.rs", "pub fn g() {}\n");
        assert_eq!(
            circles(&[lib, ("a/mod.rs", "mod part;\nmod other;\npub use part::*;\n"), part, other]),
            [""; 0]
        );
        let uses =
            ("a/mod.rs", "mod part;\nmod other;\npub use part::Part;\nfn f(part: Part) {}\npub fn h() {}\n");
        assert_eq!(circles(&[lib, uses, part, other]), [""; 0]);
        let back = ("a/other.rs", "use super::part::Part;\npub fn g(part: Part) {}\n");
        assert_eq!(circles(&[lib, uses, part, back]).len(), 1);
    }

    #[test]
    fn parts_of_a_module_may_name_what_its_file_defines() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod b;\npub struct A;\nfn f() { b::g() }\n"),
            ("a/b.rs", "use super::A;\npub fn g() {}\n"),
        ];
        assert_eq!(circles(&files), [""; 0]);
    }
}
