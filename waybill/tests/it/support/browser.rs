//! A real browser without a window: Chromium, controlled over a pipe (Chrome DevTools Protocol).
//! Its calls block, so a test that uses it needs a runtime of several threads.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Browser {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The session of the one tab.
    session: Option<String>,
    calls: u64,
    events: Vec<Value>,
    _profile: TempDir,
}

/// What a person in front of the window has, and what the browser complains of.
#[derive(Debug)]
pub struct Seen {
    pub title: String,
    pub text: String,
    /// How wide the window is, and how wide the page.
    pub window: i64,
    pub page: i64,
    /// The style was applied: the colour behind the page.
    pub ground: String,
    /// Everything that was asked of a server.
    pub requests: Vec<String>,
    /// Messages on the console, violations of the page's policy, exceptions.
    pub complaints: Vec<String>,
}

impl Browser {
    pub fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // The protocol is spoken on the descriptors 3 and 4.
        let command = format!(
            "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --disable-background-networking --disable-component-update \
             --user-data-dir='{}' --remote-debugging-pipe 3<&0 4>&1 >/dev/null 2>&1",
            profile.path().display()
        );
        let mut process = Command::new("bash")
            .args(["-c", &command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut browser = Browser {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            session: None,
            calls: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let tab = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Audits"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Opens a page in a window of this width, `light` or `dark`.
    pub fn visit(&mut self, url: &str, width: i64, scheme: &str) -> Seen {
        self.events.clear();
        self.call(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 600}),
        );
        let media = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"features": media}));
        self.call("Page.navigate", &json!({"url": url}));
        self.arrive();
        let title = self.text("document.title");
        let text = self.text("document.body.innerText");
        // Both at once, because a live page may get or lose its scroll bar between two questions.
        let page = "document.documentElement";
        let widths = self.text(&format!("[{page}.clientWidth, {page}.scrollWidth].join()"));
        let (window, page) = widths.split_once(',').expect("two widths");
        let [window, page] = [window, page].map(|width| width.parse().expect("a width"));
        let ground = self.text("getComputedStyle(document.body).backgroundColor");
        let mut requests = Vec::new();
        let mut complaints = Vec::new();
        for event in self.events.drain(..) {
            let what = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    requests.push(what["request"]["url"].as_str().unwrap().to_owned());
                }
                // That the page itself has an error's status is for the test to judge.
                "Log.entryAdded" if what["entry"]["url"] == *url => {}
                "Log.entryAdded"
                | "Runtime.consoleAPICalled"
                | "Runtime.exceptionThrown"
                | "Audits.issueAdded" => complaints.push(what.to_string()),
                _ => {}
            }
        }
        Seen {
            title,
            text,
            window,
            page,
            ground,
            requests,
            complaints,
        }
    }

    /// Writes a picture of the whole page to a file.
    pub fn picture(&mut self, file: &Path) {
        let whole = json!({"format": "png", "captureBeyondViewport": true});
        let answer = self.call("Page.captureScreenshot", &whole);
        let png = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
        std::fs::write(file, png).unwrap();
    }

    /// From now on pages have no scrollbars, which would cut off the right margin of a picture.
    pub fn hide_scrollbars(&mut self) {
        self.call("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    }

    /// Presses the button or link with this label, and waits for the page that it leads to. An id that is shown in short
    /// is its own label. A row that opens in the panel leads there. The press comes after the answer, which would be lost
    /// with the page.
    pub fn press(&mut self, label: &str) {
        self.events.clear();
        let found = self.evaluate(&format!(
            "(() => {{ const panel = document.querySelector('#panel:not([hidden])');
               const all = [panel, document].filter(Boolean)
                 .flatMap(root => [...root.querySelectorAll('button, a')]);
               const texts = it => [it.innerText?.trim(), it.dataset?.copy,
                 it.firstChild?.nodeType === 3 && it.firstChild.data.trim()];
               const button = all.find(it => texts(it).includes({}));
               setTimeout(() => button?.click());
               return button && (button.matches('.open') && innerWidth >= 1200 ? 'panel' : 'page'); }})()",
            json!(label)
        ));
        match found.as_str() {
            Some("panel") => self.wait("!document.getElementById('panel').hidden"),
            Some(_) => self.arrive(),
            None => panic!("there is no button or link {label}"),
        }
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        for _ in 0..1000 {
            if self.evaluate(expression) == true {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{expression} is not true after 20 seconds");
    }

    /// Waits until another page is there and loaded. That the one before was loaded may be reported
    /// late.
    pub fn arrive(&mut self) {
        let is = |event: &Value, method| event["method"] == method;
        loop {
            let mut events = self.events.iter();
            if events.any(|event| is(event, "Page.frameNavigated"))
                && events.any(|event| is(event, "Page.loadEventFired"))
            {
                return;
            }
            let event = self.read();
            self.events.push(event);
        }
    }

    /// Types into the field with this name.
    pub fn fill(&mut self, name: &str, value: &str) {
        let found = self.evaluate(&format!(
            "(() => {{ const field = document.querySelector('[name=' + {} + ']');
               if (field) field.value = {}; return field !== null; }})()",
            json!(name),
            json!(value)
        ));
        assert_eq!(found, true, "there is a field {name}");
    }

    pub fn text(&mut self, expression: &str) -> String {
        let value = self.evaluate(expression);
        value.as_str().expect("a text").to_owned()
    }

    pub fn number(&mut self, expression: &str) -> i64 {
        self.evaluate(expression).as_i64().expect("a number")
    }

    /// What the promise of an expression brings.
    pub fn promised(&mut self, expression: &str) -> Value {
        let arguments =
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &arguments);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].take()
    }

    /// A page that is left while it is asked gives no answer; the page after it is asked then.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let arguments = json!({"expression": expression, "returnByValue": true});
        loop {
            match self.answer("Runtime.evaluate", &arguments) {
                Ok(mut answer) => return answer["result"]["value"].take(),
                Err(error) => assert_eq!(
                    error["message"], "Inspected target navigated or closed",
                    "{expression}"
                ),
            }
        }
    }

    pub fn call(&mut self, method: &str, arguments: &Value) -> Value {
        let answer = self.answer(method, arguments);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What Chromium answers to a call, or the error that it reports.
    fn answer(&mut self, method: &str, arguments: &Value) -> Result<Value, Value> {
        self.calls += 1;
        let id = self.calls;
        let mut call = json!({"id": id, "method": method, "params": arguments});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        let sent = self.input.write_all(format!("{call}\0").as_bytes());
        sent.expect("Chromium runs; scripts/services install chromium brings it");
        loop {
            let mut message = self.read();
            if message["id"] == id {
                let error = message["error"].take();
                return if error.is_null() {
                    Ok(message["result"].take())
                } else {
                    Err(error)
                };
            }
            self.events.push(message);
        }
    }

    fn read(&mut self) -> Value {
        let mut message = Vec::new();
        self.output.read_until(0, &mut message).unwrap();
        message.pop();
        serde_json::from_slice(&message)
            .expect("Chromium answers; scripts/services install chromium brings it")
    }
}

impl Drop for Browser {
    /// A browser that may end by itself takes its helpers along.
    fn drop(&mut self) {
        let _ = self
            .input
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..250 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
