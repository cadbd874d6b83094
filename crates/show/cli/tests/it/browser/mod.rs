//! The console and the playground in headless Chromium, through WebDriver.
//!
//! Without `chromedriver` the tests say so and pass; with `BERTH_REQUIRE_BROWSER=1` they fail. The playground is tested if
//! `cargo xtask playground` has built it; with `BERTH_REQUIRE_PLAYGROUND=1` it must be there.

mod accessibility;
mod console;
mod driver;
mod layout;
mod live;
mod playground;
mod screenshots;
