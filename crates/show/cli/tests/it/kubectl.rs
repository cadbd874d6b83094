//! Whether tests can use kubectl.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Whether `kubectl` is installed; if not, prints a note that the test harness does not capture.
///
/// # Panics
/// It is not installed, and the environment has `BERTH_REQUIRE_KUBECTL=1`.
pub fn has_kubectl(test: &str) -> bool {
    let found = Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        let is_required = std::env::var_os("BERTH_REQUIRE_KUBECTL").is_some_and(|value| value != "0");
        assert!(!is_required, "{test}: no kubectl on the PATH, which BERTH_REQUIRE_KUBECTL requires");
        let _ = writeln!(std::io::stderr().lock(), "SKIPPED {test}: no kubectl on the PATH");
    }
    is_there
}
