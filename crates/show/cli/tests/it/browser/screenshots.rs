//! The pictures of the documents.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berth_testkit::documents::repository;
use serde_json::json;

use super::console::{EXAMPLE, Shown, show_file};

/// The pages by the names of their pictures.
const PAGES: [(&str, &str); 3] =
    [("topology", "/?color=workload"), ("pod", "/pods/shop/index-3"), ("what-if", "/what-if?drain=b1")];
/// Limit of a picture.
const MAX_BYTES: usize = 150_000;

#[test]
#[ignore = "writes docs/images: cargo xtask screenshots"]
fn screenshots() {
    let Some(Shown { browser, origin, .. }) = &show_file("screenshots", &EXAMPLE) else { return };
    let folder = repository().join("docs/images");
    std::fs::create_dir_all(&folder).unwrap();
    let size = json!({"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false});
    browser.devtools("Emulation.setDeviceMetricsOverride", &size);
    for (name, link) in PAGES {
        for theme in ["light", "dark"] {
            browser.prefer(theme);
            browser.open(&format!("{origin}{link}"));
            let picture = BASE64_STANDARD.decode(browser.screenshot()).unwrap();
            assert!(picture.len() < MAX_BYTES, "{name}: {} bytes", picture.len());
            std::fs::write(folder.join(format!("console-{name}-{theme}.png")), picture).unwrap();
        }
    }
}
