//! Repository chores: `cargo xtask arrows` checks dependencies between crates, `cargo xtask modules` finds circles of files,
//! `cargo xtask deploy` generates the Helm chart and the dashboard, `cargo xtask dist` makes packages of it, `cargo xtask reproduce` builds a release twice and compares,
//! `cargo xtask simulate` runs the fault simulation, `cargo xtask playground` builds the playground, `cargo xtask screenshots`
//! makes the screenshots of the documents, `cargo xtask reference` builds and asks Kubernetes itself.

mod arrows;
mod cargo;
mod dashboard;
mod deploy;
mod dist;
mod modules;
mod playground;
mod purity;
mod reference;
mod reproduce;
mod sources;

use std::process::ExitCode;

use cargo::{metadata, root, root_of, run_cargo, target_directory};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["arrows"] => check_arrows(),
        ["modules"] => check_modules(),
        ["deploy"] => root()
            .and_then(|root| Ok(format!("{}, {}", deploy::generate(&root)?, dashboard::generate(&root)?))),
        ["dist", ref arguments @ ..] => root().and_then(|root| dist::run(&root, arguments)),
        ["reproduce"] => root().and_then(|root| reproduce::check(&root, "berth-cli")),
        ["reproduce", package] => root().and_then(|root| reproduce::check(&root, package)),
        ["simulate", ref options @ ..] => simulate(options),
        ["playground"] => {
            target_directory().and_then(|target| playground::build(&root()?, &target.join("playground-site")))
        }
        ["reference", ref arguments @ ..] => reference::run(arguments),
        ["screenshots"] => screenshots(),
        ["playground", folder] => root().and_then(|root| playground::build(&root, folder.as_ref())),
        _ => Err(format!(
            "usage: cargo xtask arrows    (checks dependencies between crates against ARCHITECTURE.md)\n       \
                  cargo xtask modules    (finds circles of files and of modules in all crates)\n       \
                  cargo xtask deploy    (generates the templates of the Helm chart from deploy/kustomize, and the dashboard)\n       \
                  {}\n       \
                  cargo xtask reproduce [PACKAGE]    (builds a release in two directories and compares)\n       \
                  cargo xtask simulate --seed N | --kept | --runs N [--first N] [--jobs N]    (simulates faults, in a release build)\n       \
                  cargo xtask playground [FOLDER]    (builds the playground as a folder of static files)\n       \
                  cargo xtask screenshots    (makes the screenshots in docs/images, with chromedriver)\n       \
                  {}",
            dist::USAGE,
            reference::USAGE
        )),
    };
    match result {
        Ok(summary) => {
            if !summary.is_empty() {
                println!("{summary}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the dependencies between crates, and that pure crates have no side effects.
fn check_arrows() -> Result<String, String> {
    let workspace = metadata(&["--no-deps"])?;
    let root = root_of(&workspace)?;
    let edges = arrows::edges(&workspace);
    let map = root.join("ARCHITECTURE.md");
    let map = std::fs::read_to_string(&map).map_err(|e| format!("{}: {e}", map.display()))?;
    let drawing = arrows::Drawing::read(&map)?;
    let mut findings = drawing.findings(&edges);
    findings.extend(drawing.downward(&edges, &arrows::folders(&workspace, &root)));
    findings.extend(arrows::banned_dependencies(&workspace));
    findings.extend(purity::impure_sources(&root)?);
    if findings.is_empty() {
        return Ok(format!(
            "arrows: {} edges between crates, all as ARCHITECTURE.md draws them",
            edges.len()
        ));
    }
    Err(format!("arrows: {} findings\n  {}", findings.len(), findings.join("\n  ")))
}

/// Finds circles of files and of modules in all crates.
fn check_modules() -> Result<String, String> {
    let workspace = metadata(&["--no-deps"])?;
    let root = root_of(&workspace)?;
    let folders = arrows::folders(&workspace, &root);
    let circles = modules::circles(&root, &folders)?;
    if circles.is_empty() {
        return Ok(format!("modules: no circles in {} crates", folders.len()));
    }
    Err(format!("modules: {} findings\n{}", circles.len(), circles.join("\n")))
}

/// Runs the fault simulation, which prints its own results.
fn simulate(options: &[&str]) -> Result<String, String> {
    let run = ["run", "--quiet", "--release", "--locked", "--package", "berth-faultsim", "--"];
    run_cargo(&[&run, options].concat(), "simulate: a run failed")
}

fn screenshots() -> Result<String, String> {
    let test =
        ["test", "--locked", "--package", "berth-cli", "--test", "it", "--", "--ignored", "screenshots"];
    run_cargo(&test, "screenshots: failed")
}

#[cfg(test)]
mod tests {
    mod image;

    #[test]
    fn crates_depend_on_each_other_as_drawn() {
        super::check_arrows().unwrap();
    }

    #[test]
    fn no_files_import_each_other_in_a_circle() {
        super::check_modules().unwrap();
    }
}
