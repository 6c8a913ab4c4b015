//! A strict MCP server over stdio for tests. Its behaviour is scripted by a JSON file, the first
//! argument:
//!
//! - `initialize`: `never` answers no initialize request, `exit` ends at once;
//! - `before`: text printed before the first message;
//! - `tools`: the list of tools; `changed`: the list after a call of `change`;
//! - `calls`: behaviour by tool name: `text` (an answer), `exit`, `hang`, `giant`, `env`, `change`,
//!   `garbage` (a line that is no message, then the answer).
//!
//! It ends with an error if the client breaks the protocol. Every start and every call is appended
//! to the file that the second argument names.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test server fails by panicking"
)]

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

struct Fake {
    script: Value,
    journal: std::fs::File,
    is_changed: bool,
    is_ready: bool,
}

impl Fake {
    fn note(&mut self, what: &str) {
        writeln!(self.journal, "{what}").expect("the journal is writable");
    }

    fn text<'a>(value: &'a Value, key: &str) -> &'a str {
        value.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Answers one message. Returns `false` to end.
    fn answer(&mut self, message: &Value) -> bool {
        assert_eq!(Self::text(message, "jsonrpc"), "2.0", "{message}");
        let id = message.get("id").cloned();
        let params = message.get("params").cloned().unwrap_or_default();
        let result = match Self::text(message, "method") {
            "initialize" => match Self::text(&self.script, "initialize") {
                "never" => return true,
                "exit" => {
                    eprintln!("cannot read the database");
                    return false;
                }
                _ => json!({
                    "protocolVersion": Self::text(&params, "protocolVersion"),
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "fake", "version": "1"},
                }),
            },
            "notifications/initialized" => {
                self.is_ready = true;
                return true;
            }
            "notifications/cancelled" => {
                self.note("cancelled");
                return true;
            }
            "tools/list" => {
                assert!(self.is_ready, "a request before the session");
                let key = if self.is_changed { "changed" } else { "tools" };
                json!({"tools": self.script.get(key).cloned().unwrap_or_else(|| json!([]))})
            }
            "tools/call" => match self.call(&params) {
                Some(Some(text)) => json!({"content": [{"type": "text", "text": text}]}),
                Some(None) => return true,
                None => return false,
            },
            other => panic!("unexpected method {other}"),
        };
        send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        true
    }

    /// Runs a call: `None` ends the server, `Some(None)` gives no answer.
    fn call(&mut self, params: &Value) -> Option<Option<String>> {
        let tool = Self::text(params, "name").to_owned();
        self.note(&format!("call {tool}"));
        let behaviour = self.script.pointer(&format!("/calls/{tool}")).cloned();
        let behaviour = behaviour.unwrap_or_default();
        match behaviour.as_str().unwrap_or_default() {
            "exit" => None,
            "hang" => Some(None),
            "giant" => {
                let piece = "x".repeat(1 << 20);
                let mut out = std::io::stdout().lock();
                for _ in 0..100 {
                    // The client closes the pipe when the line is too long.
                    if out.write_all(piece.as_bytes()).is_err() {
                        return None;
                    }
                }
                Some(None)
            }
            "env" => {
                let names = std::env::vars().map(|(name, _)| name);
                let mut names: Vec<String> = names.collect();
                names.sort();
                Some(Some(names.join(" ")))
            }
            "change" => {
                self.is_changed = true;
                send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                Some(Some("changed".to_owned()))
            }
            "garbage" => {
                println!("INFO this is no message {{");
                Some(Some("after garbage".to_owned()))
            }
            text => Some(Some(format!("{text}{}", Self::arguments(params)))),
        }
    }

    fn arguments(params: &Value) -> String {
        params
            .get("arguments")
            .cloned()
            .unwrap_or_default()
            .to_string()
    }
}

fn send(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").expect("the client reads");
    out.flush().expect("the client reads");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let script = std::fs::read(arguments.next().expect("a script")).expect("a script");
    let journal = std::fs::File::options()
        .append(true)
        .create(true)
        .open(arguments.next().expect("a journal"));
    let mut fake = Fake {
        script: serde_json::from_slice(&script).expect("JSON"),
        journal: journal.expect("a journal"),
        is_changed: false,
        is_ready: false,
    };
    fake.note("start");
    print!("{}", Fake::text(&fake.script, "before"));
    for line in std::io::stdin().lock().lines() {
        let message = serde_json::from_str(&line.expect("UTF-8")).expect("one message per line");
        if !fake.answer(&message) {
            std::process::exit(1);
        }
    }
    fake.note("end");
}
