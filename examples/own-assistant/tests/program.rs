//! The example's binary from end to end: its channel, tool and provider in the gateway and in the
//! commands that look at them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Limit of every wait, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(120);

fn program(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-assistant"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Output of a command that ends by itself, with what it reported.
fn output(home: &Path, arguments: &[&str]) -> String {
    let ended = program(home, arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&ended.stdout), text(&ended.stderr))
}

/// A gateway that is killed when the test ends.
struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The relay's end of a connection of the channel.
struct Relay {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Relay {
    /// Waits for the channel and reads its token.
    fn accept(listener: &TcpListener) -> Self {
        let (writer, _) = listener.accept().unwrap();
        writer.set_read_timeout(Some(DEADLINE)).unwrap();
        let reader = BufReader::new(writer.try_clone().unwrap());
        let mut relay = Self { reader, writer };
        assert_eq!(relay.read(), json!({"token": "secret-token"}));
        relay
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn write(&mut self, line: &Value) {
        writeln!(self.writer, "{line}").unwrap();
    }

    /// Reads up to the next text that is shown to a person, and confirms it.
    fn next_shown(&mut self) -> (String, String) {
        loop {
            let line = self.read();
            let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
            if let (Some(key), Some(to), Some(shown)) = (text("key"), text("to"), text("text")) {
                self.write(&json!({"taken": key}));
                return (to, shown);
            }
        }
    }
}

#[test]
fn own_parts_work_in_the_gateway_and_every_command() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let config = json!({
        "agents": {"defaults": {"provider": "gambler", "model": "any"}},
        "channels": {"relay": {
            "enabled": true, "server": server, "token": "secret-token", "allowFrom": ["ann"]
        }},
        "gateway": {"port": 0},
    });
    let folder = home.path().join(".nanobot");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();

    let checkup = output(home.path(), &["doctor"]);
    assert!(checkup.contains("channels.relay is set up"), "{checkup}");
    assert!(checkup.contains("any (gambler) is set up"), "{checkup}");

    let gateway = Gateway(program(home.path(), &["gateway"]).spawn().unwrap());
    let mut relay = Relay::accept(&listener);
    relay.write(&json!({"id": "1", "sender": "ann", "text": "roll the die"}));
    let answer = ("ann".to_owned(), "The die shows 6.".to_owned());
    assert_eq!(shown_answer(&mut relay), answer);

    let status = output(home.path(), &["channels", "status"]);
    assert!(status.contains("relay: running"), "{status}");

    let job = ["cron", "add", "-m", "roll again", "--every", "1"];
    let to = ["--deliver", "--channel", "relay", "--to", "ann"];
    let added = output(home.path(), &[&job[..], &to[..]].concat());
    assert!(added.contains("Created job"), "{added}");
    assert_eq!(shown_answer(&mut relay), answer);
    drop(gateway);
}

/// The next text that is no sign of work on the way.
fn shown_answer(relay: &mut Relay) -> (String, String) {
    loop {
        let shown = relay.next_shown();
        if shown.1.starts_with("The die") {
            return shown;
        }
    }
}

#[test]
fn the_example_is_short() {
    let source = include_str!("../src/main.rs");
    assert!(source.lines().count() <= 60);
}

#[test]
fn onboard_fills_in_the_sections_of_own_parts() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".nanobot/config.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, r#"{"channels": {"relay": {"enabled": false}}}"#).unwrap();
    let prepared = output(home.path(), &["onboard"]);
    let config = std::fs::read_to_string(file).expect(&prepared);
    let config: Value = serde_json::from_str(&config).unwrap();
    let relay = config.pointer("/channels/relay").unwrap();
    assert_eq!(relay, &json!({"enabled": false, "server": "", "token": ""}));
}
