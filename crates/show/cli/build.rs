//! Tells release builds the Git commit of the sources, for `berth version`. Without Git or a repository it tells nothing:
//! the commit is then unknown. Other builds are not told, so that a commit does not compile them again.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BERTH_GIT_COMMIT");
    if env::var_os("BERTH_GIT_COMMIT").is_some() || env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // The log of HEAD changes with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=BERTH_GIT_COMMIT={commit}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
