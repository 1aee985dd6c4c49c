//! A browser without a window, driven by the DevTools protocol over pipes: JSON, each message ended
//! by a zero byte (`--remote-debugging-pipe`).

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Browsers that can be used, in order of preference.
const PROGRAMS: [&str; 3] = ["chromium-headless-shell", "chromium", "google-chrome"];

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    events: VecDeque<Value>,
    session: Option<String>,
    number: u64,
    _home: TempDir,
}

/// The viewport and colour scheme in which a page is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) dark: bool,
}

impl Browser {
    /// Starts a browser. Returns `None`, and prints that the test is skipped, if none is installed.
    pub(crate) fn start() -> Option<Browser> {
        let there = |name: &&&str| {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&paths).any(|path| path.join(name).is_file())
        };
        let Some(program) = PROGRAMS.iter().find(there) else {
            dio_test::skip!("no browser: none of {} is installed", PROGRAMS.join(", "));
            return None;
        };
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            // The protocol uses descriptors 3 and 4.
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, from) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                if sender
                    .send(serde_json::from_slice(&message).expect("messages are JSON"))
                    .is_err()
                {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            to,
            from,
            events: VecDeque::new(),
            session: None,
            number: 0,
            _home: home,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Network", "Log", "Runtime"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn next(&mut self) -> Value {
        self.from.recv_timeout(PATIENCE).expect("the browser answers")
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut answer = self.next();
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push_back(answer);
        }
    }

    /// Opens a file and waits until it is loaded. Events of earlier pages are discarded.
    pub(crate) fn open(&mut self, path: &Path, view: View) {
        let size = json!({
            "width": view.width, "height": 900, "deviceScaleFactor": 1, "mobile": view.width < 600
        });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if view.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media);
        self.events.clear();
        let url = format!("file://{}", path.display());
        let answer = self.call("Page.navigate", json!({"url": url}));
        assert!(answer["errorText"].is_null(), "{answer}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.events.push_back(event);
        }
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{:#}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    /// URLs that were requested since the page was opened.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let sent =
            self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap()).collect()
    }

    /// Log entries, console messages and exceptions since the page was opened.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let kinds = ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"];
        self.events
            .iter()
            .filter(|event| kinds.iter().any(|kind| event["method"] == *kind))
            .collect()
    }

    /// A picture of the whole page as PNG in base64, for manual inspection.
    pub(crate) fn picture(&mut self) -> String {
        let params = json!({"format": "png", "captureBeyondViewport": true});
        self.call("Page.captureScreenshot", params)["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
