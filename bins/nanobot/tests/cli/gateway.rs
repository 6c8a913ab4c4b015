//! The gateway: start, health, a client, a second one, signals.

use std::path::Path;
use std::process::Stdio;

use nanobot_testkit::{ModelServer, Reply, ReservedPort, WebSocketClient};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{DEADLINE, Home, assert_says, until};

/// A running gateway.
pub(crate) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    /// Its output up to the address of its health endpoint.
    summary: String,
    /// `host:port` of its health endpoint.
    health: String,
}

impl Running {
    pub(crate) async fn start(home: &Home) -> Self {
        Self::start_with(home, &[]).await
    }

    /// Starts it with further arguments.
    pub(crate) async fn start_with(home: &Home, arguments: &[&str]) -> Self {
        tokio::time::timeout(DEADLINE, Self::started(home, arguments))
            .await
            .expect("the gateway starts in time")
    }

    /// Returns `host:port` of its health endpoint.
    pub(crate) fn address(&self) -> &str {
        &self.health
    }

    /// Returns the answer of its health endpoint.
    pub(crate) async fn health(&self) -> String {
        get(&self.health, "/health").await
    }

    async fn started(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.program();
        command.args(["gateway", "--port", "0"]).args(arguments);
        Self::of(command).await
    }

    /// Starts a gateway with a limit of open files.
    pub(crate) async fn start_with_files(home: &Home, files: u32) -> Self {
        let mut command = home.of(Path::new("/bin/sh"));
        let script = format!("ulimit -n {files} && exec \"$0\" gateway --port 0");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_nanobot")]);
        tokio::time::timeout(DEADLINE, Self::of(command))
            .await
            .expect("the gateway starts in time")
    }

    /// Starts a gateway by this command, which makes it the child of the test.
    #[cfg(target_os = "linux")]
    pub(crate) async fn run(command: std::process::Command) -> Self {
        tokio::time::timeout(DEADLINE, Self::of(command))
            .await
            .expect("the gateway starts in time")
    }

    async fn of(command: std::process::Command) -> Self {
        let mut command = Command::from(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut summary = String::new();
        loop {
            let line = stdout
                .next_line()
                .await
                .unwrap()
                .expect("a gateway that starts");
            summary += &format!("{line}\n");
            let address = line
                .strip_prefix("Health: http://")
                .and_then(|rest| rest.strip_suffix("/health"));
            if let Some(health) = address {
                let health = health.to_owned();
                return Self {
                    child,
                    stdout,
                    summary,
                    health,
                };
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), signal).unwrap();
    }

    /// Returns the rest of its output, and its exit code.
    pub(crate) async fn end(self) -> (String, Option<i32>) {
        tokio::time::timeout(DEADLINE, self.ended())
            .await
            .expect("the gateway ends in time")
    }

    async fn ended(mut self) -> (String, Option<i32>) {
        let mut rest = String::new();
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            rest += &format!("{line}\n");
        }
        let output = self.child.wait_with_output().await.unwrap();
        rest += &String::from_utf8_lossy(&output.stderr);
        (rest, output.status.code())
    }
}

pub(crate) async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )
        .await
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn gateway_is_healthy_until_a_signal() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    for (signal, name) in [
        (Signal::SIGTERM, "terminate"),
        (Signal::SIGINT, "interrupt"),
        (Signal::SIGHUP, "hangup"),
    ] {
        let gateway = Running::start(&home).await;
        assert_says(
            &gateway.summary,
            &["🐈 nanobot", "gateway", "Model: test-model (custom)"],
        );
        assert_says(
            &get(&gateway.health, "/health").await,
            &["200 OK", env!("CARGO_PKG_VERSION")],
        );
        gateway.signal(signal);
        let (rest, code) = gateway.end().await;
        assert_eq!(code, Some(0), "{name}: {rest}");
        assert_says(&rest, &["No channel is enabled", "gateway stopped"]);
    }
    assert_says(
        &home.read("logs/gateway.log"),
        &["gateway started", "gateway stopped"],
    );
}

#[tokio::test]
async fn second_gateway_names_the_first_process() {
    let home = Home::with_model("http://127.0.0.1:1/v1");
    let first = Running::start(&home).await;
    // It ends while the first one runs, so it does not wait for it.
    let second = home.run(&["gateway", "--port", "0"]).await;
    assert_eq!(
        (second.code, second.stdout.as_str()),
        (1, ""),
        "{}",
        second.stderr
    );
    assert_says(
        &second.stderr,
        &["another gateway", &first.pid().to_string(), "try:"],
    );
    // Other commands work next to it.
    let asked = home
        .run(&["agent", "--demo", "-m", "what files are here?"])
        .await;
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.end().await.1, Some(0));
}

#[tokio::test]
async fn mistakes_of_the_configuration_are_reported_before_a_taken_port() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let custom = json!({"custom": {"apiKey": "k", "apiBase": "http://127.0.0.1:1/v1"}});
    for (change, expected, code) in [
        (json!({}), address.clone(), 1),
        (
            json!({"providers": {"custom": {"apiKey": "k", "apiBase": "127.0.0.1:1/v1"}}}),
            "127.0.0.1:1/v1".to_owned(),
            2,
        ),
        (
            json!({"providers": {"custom": {"apiKey": "${NOT_SET_HERE}"}}}),
            "NOT_SET_HERE".to_owned(),
            2,
        ),
        (
            json!({"cron": {"timezone": "Mars/Base"}}),
            "Mars/Base".to_owned(),
            2,
        ),
        (
            json!({"retention": {"logDays": "long"}}),
            "retention.logDays".to_owned(),
            2,
        ),
        (
            json!({"channels": {"sendMaxRetries": "many"}}),
            "channels.sendMaxRetries".to_owned(),
            2,
        ),
    ] {
        let home = Home::new();
        let mut config = json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": custom,
            "gateway": {"port": port},
        });
        let change = change.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(change);
        home.configure(&config);
        let run = home.run(&["gateway"]).await;
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (code, ""),
            "{}",
            run.stderr
        );
        assert_says(&run.stderr, &[&expected]);
        let names_port = run.stderr.contains(&address);
        assert_eq!(names_port, code == 1, "{}", run.stderr);
    }
}

/// Returns a home whose gateway uses this model and listens for clients on this port.
fn home_with_clients(model: &ModelServer, port: &ReservedPort) -> Home {
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"websocket": {
            "enabled": true, "port": port.number(), "websocketRequiresToken": false, "allowFrom": ["*"],
        }},
    }));
    home
}

async fn connect(port: &ReservedPort) -> WebSocketClient {
    let url = format!("ws://{}/?client_id=me", port.address());
    let mut client = WebSocketClient::connect_soon(&url).await.unwrap();
    client.receive_until("ready").await.unwrap();
    client
}

#[tokio::test]
async fn websocket_client_receives_the_reply() {
    let model = ModelServer::scripted([Reply::deltas(["Hel", "lo."])])
        .await
        .unwrap();
    let port = ReservedPort::new().unwrap();
    let gateway = Running::start(&home_with_clients(&model, &port)).await;
    let mut client = connect(&port).await;
    client.send_text("hello").await.unwrap();
    let events = client.receive_until("stream_end").await.unwrap();
    let text: String = events
        .iter()
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_says(&text, &["Hello."]);
    assert_eq!(model.violations(), Vec::<String>::new());
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn second_signal_ends_the_gateway_at_once() {
    let model = ModelServer::answering(|_| Reply::hang()).await.unwrap();
    let port = ReservedPort::new().unwrap();
    let home = home_with_clients(&model, &port);
    let gateway = Running::start(&home).await;
    let mut client = connect(&port).await;
    client.send_text("hello").await.unwrap();
    model.wait_for(1).await.unwrap();
    gateway.signal(Signal::SIGTERM);
    // Two pending signals arrive in any order, so the first one has to be handled first.
    until("the first signal is taken", async || {
        home.read("logs/gateway.log").contains("shutting down")
    })
    .await;
    // The running turn has a grace period; the second signal does not wait for it.
    gateway.signal(Signal::SIGINT);
    assert_eq!(gateway.end().await.1, Some(130));
}

#[tokio::test]
async fn commands_use_the_running_gateway() {
    let written = Reply::call("message", &json!({"content": "By the tool."}));
    let replies = [
        Reply::deltas(["One ", "owner."]),
        Reply::text("Still here."),
        written,
        Reply::text("done"),
    ];
    let model = ModelServer::scripted(replies).await.unwrap();
    let home = Home::with_model(&model.base_url());
    assert_eq!(home.run(&["inbox"]).await.stdout, "Nothing.\n");
    assert!(
        !home.names("").contains(&"state.db".to_owned()),
        "reading does not create a ledger"
    );
    let gateway = Running::start(&home).await;
    let asked = home.run(&["agent", "-m", "who has this session?"]).await;
    assert_eq!(
        (asked.code, asked.stdout.as_str()),
        (0, "One owner.\n"),
        "{}",
        asked.stderr
    );
    let piped = home
        .run_with_input(&["agent", "--lines"], b"and now?\n/status\n")
        .await;
    assert_eq!(piped.code, 0, "{}", piped.stderr);
    assert_says(
        &piped.stdout,
        &["Still here.", "Session cli:direct: 4 messages"],
    );
    let written = home
        .run(&["agent", "-s", "notes", "-m", "write to me"])
        .await;
    assert_eq!(
        (written.code, written.stdout.as_str()),
        (0, "By the tool.\ndone\n"),
        "{}",
        written.stderr
    );
    let session = home.read("workspace/sessions/cli_direct.jsonl");
    assert_eq!(
        session.matches("who has this session?").count(),
        1,
        "{session}"
    );

    // A reply is shown before it is recorded as sent.
    until("everything is settled", async || {
        home.run(&["inbox", "--pending"]).await.stdout == "Nothing.\n"
    })
    .await;
    let listed = home.run(&["inbox", "--all", "--json"]).await;
    let entries: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let states: Vec<&str> = entries
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["state"].as_str())
        .collect();
    assert_eq!(states, ["sent", "answered"].repeat(4));
    assert_says(
        &home.run(&["status"]).await.stdout,
        &[
            "Messages: 0 pending, 0 uncertain, 0 failed",
            "On disk: state ",
        ],
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert!(!home.names("").contains(&"gateway.sock".to_owned()));

    // The same without a gateway, on the file.
    let id = entries[0]["id"].as_str().unwrap();
    assert_says(
        &home.run(&["inbox", "show", id]).await.stdout,
        &["sent", "to cli:notes"],
    );
    let refused = home.run(&["inbox", "retry", id]).await;
    assert_eq!(refused.code, 1);
    assert_says(
        &refused.stderr,
        &["is sent and cannot be changed that way", "try:"],
    );
    assert_eq!(model.violations(), Vec::<String>::new());
}
