//! The pictures of the documents.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berth_testkit::documents::repository;
use serde_json::json;

use super::console::{EXAMPLE, GPUS, RAY_CLUSTER, Shown, show_file};
use super::layout::{DEVICE_PAGES, GROUP_PAGES, PAGES, WINDOWS};

/// Limit of a picture.
const MAX_BYTES: usize = 200_000;

#[test]
#[ignore = "writes docs/images: cargo xtask screenshots"]
fn screenshots() {
    take("screenshots", &EXAMPLE, &PAGES);
}

#[test]
#[ignore = "writes docs/images: cargo xtask screenshots"]
fn screenshots_of_devices() {
    take("screenshots-devices", &GPUS, &DEVICE_PAGES);
}

#[test]
#[ignore = "writes docs/images: cargo xtask screenshots"]
fn screenshots_of_groups() {
    take("screenshots-groups", &RAY_CLUSTER, &GROUP_PAGES);
}

fn take(test: &str, input: &[&str], pages: &[(&str, &str)]) {
    let Some(Shown { browser, origin, .. }) = &show_file(test, input) else { return };
    let folder = repository().join("docs/images");
    std::fs::create_dir_all(&folder).unwrap();
    for (window, width, height) in WINDOWS {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        browser.devtools("Emulation.setDeviceMetricsOverride", &size);
        for (name, link) in pages {
            for theme in ["light", "dark"] {
                browser.prefer(theme);
                browser.open(&format!("{origin}{link}"));
                let picture = BASE64_STANDARD.decode(browser.screenshot()).unwrap();
                assert!(picture.len() < MAX_BYTES, "{name}: {} bytes", picture.len());
                let suffix = if window == "wide" { String::new() } else { format!("-{window}") };
                std::fs::write(folder.join(format!("console-{name}-{theme}{suffix}.png")), picture).unwrap();
            }
        }
    }
}
