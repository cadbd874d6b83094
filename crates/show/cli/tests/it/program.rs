//! The built program.

use std::ffi::OsStr;
use std::path::Path;

use berth_testkit::programs::{Program, Ran};

/// `berth`.
pub const BERTH: Program<'static> = Program { name: "berth", path: env!("CARGO_BIN_EXE_berth") };

/// Runs `berth` in a directory, with this on its standard input.
pub fn berth<T: AsRef<OsStr>>(directory: &Path, args: &[T], stdin: &[u8]) -> Ran {
    BERTH.run(directory, args, stdin)
}

#[test]
fn scripts_print_the_expected_output() {
    BERTH.assert_scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
}
