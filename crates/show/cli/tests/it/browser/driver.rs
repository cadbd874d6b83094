//! Its own browser for each test: what WebDriver and the DevTools protocol offer of it, as little as the tests need.
//!
//! The crates for WebDriver would add some fifty others to the build; the protocol is JSON over HTTP.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use crate::process::{DEADLINE, eventually};

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,900",
];

/// Keys of WebDriver.
pub const TAB: char = '\u{e004}';
pub const ENTER: char = '\u{e007}';
pub const ARROW_RIGHT: char = '\u{e014}';
pub const ARROW_DOWN: char = '\u{e015}';

/// A browser; it ends when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    /// The path of the session.
    session: String,
    _profile: TempDir,
}

/// Whether a test can be made; says so if not, even if the output of tests is captured.
pub fn is_possible(what: &str, is_there: bool, required_by: &str, remedy: &str) -> bool {
    if !is_there {
        let text = format!("{what}: {remedy}");
        assert!(std::env::var_os(required_by).is_none(), "{text}");
        // In one piece: tests run at the same time.
        let _ = std::io::stderr().write_all(format!("skipped: {text}\n").as_bytes());
    }
    is_there
}

impl Browser {
    /// Starts a browser; none where it is not installed.
    pub fn start(test: &str) -> Option<Browser> {
        let driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let remedy = "install chromedriver (Debian packages: chromium, chromium-driver)";
        if !is_possible(test, driver.is_ok(), "BERTH_REQUIRE_BROWSER", remedy) {
            return None;
        }
        let mut driver = driver.unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        // The driver must not block on its output.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = TempDir::new(&format!("browser-{test}"));
        let mut browser = Browser { driver, port: port.unwrap(), session: String::new(), _profile: profile };
        let data = format!("--user-data-dir={}", browser._profile.0.display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([data.as_str()]).collect();
        let wanted = json!({"goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}, "goog:chromeOptions": {"args": flags}});
        let answer = browser.call("POST", "/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        browser.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        // The page has the focus, whatever window has it.
        let focus = json!({"cmd": "Emulation.setFocusEmulationEnabled", "params": {"enabled": true}});
        browser.call("POST", "/goog/cdp/execute", &focus);
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        self.answer(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> Result<Value, Box<dyn Error>> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let head = format!("{method} {}{path} HTTP/1.1\r\nHost: 127.0.0.1:{}", self.session, self.port);
        let length = body.len();
        write!(stream, "{head}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err("the driver has ended".into());
            }
        }
        // The driver keeps the connection.
        let lines = head.to_lowercase();
        let length =
            lines.lines().find_map(|line| line.strip_prefix("content-length:")).ok_or("no length")?;
        let mut body = vec![0; length.trim().parse()?];
        stream.read_exact(&mut body)?;
        let mut value: Value = serde_json::from_slice(&body)?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(value.to_string().into());
        }
        Ok(value["value"].take())
    }

    /// Opens a URL, and waits until it is loaded.
    pub fn open(&self, url: &str) {
        self.call("POST", "/url", &json!({"url": url}));
        // On a busy machine the driver answers before that.
        self.until("document.readyState === 'complete'");
    }

    /// The result of a script in the page: of `return ...`, or of the promise that it returns.
    pub fn run(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// The result as text.
    pub fn text(&self, script: &str) -> String {
        match self.run(script) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Waits until an expression holds.
    pub fn until(&self, expression: &str) {
        eventually(expression, || {
            if self.run(&format!("return Boolean({expression})")) == true {
                Ok(())
            } else {
                Err(self.text("return location.href + ': ' + document.body.innerText"))
            }
        });
    }

    /// Waits until the page shows a text.
    pub fn until_text(&self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text)));
    }

    /// Clicks the element as a user does: it must be visible.
    pub fn click(&self, selector: &str) {
        let found = self.call("POST", "/element", &json!({"using": "css selector", "value": selector}));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.call("POST", &format!("/element/{id}/click"), &json!({}));
    }

    /// Presses keys, one after the other.
    pub fn press(&self, keys: &[char]) {
        let down_up =
            keys.iter().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let actions: Vec<Value> = down_up.collect();
        self.call(
            "POST",
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}),
        );
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Light or dark, as the system of the reader prefers.
    pub fn prefer(&self, theme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": theme});
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": [feature]}));
    }

    /// The page as PNG.
    pub fn screenshot(&self) -> String {
        self.call("GET", "/screenshot", &Value::Null).as_str().unwrap().to_owned()
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        match self.call("POST", "/se/log", &json!({"type": kind})) {
            Value::Array(entries) => entries,
            other => panic!("{other}"),
        }
    }

    /// Fails if a script or the policy of a page caused an error, or if the browser asked for anything elsewhere.
    pub fn check_clean(&self, origin: &str) {
        let errors: Vec<Value> = self.log("browser").into_iter().filter(|e| e["level"] == "SEVERE").collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let mut n_requests = 0;
        for entry in self.log("performance") {
            let event: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let event = &event["message"];
            if event["method"] == "Network.requestWillBeSent" {
                let url = event["params"]["request"]["url"].as_str().unwrap();
                // The browser begins with its own page.
                let is_own = [origin, "data:", "chrome:", "chrome-untrusted:"]
                    .iter()
                    .any(|begin| url.starts_with(begin));
                assert!(is_own, "{url} is not of {origin}");
                n_requests += 1;
            }
        }
        assert!(n_requests > 0);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser.
        let _ = self.answer("DELETE", "", &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
