//! The prompt on a terminal: the program on a pseudo-terminal.
#![expect(
    clippy::panic,
    clippy::string_slice,
    reason = "a screen that cannot be read has failed the test"
)]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nanobot_testkit::{Gate, ModelServer, Reply};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::{DEADLINE, Home, assert_says};

const PATIENCE: Duration = DEADLINE;

/// The program on a terminal.
pub(crate) struct Screen {
    keyboard: File,
    /// Kept open, so that the mode can be read after the program ended.
    terminal: OwnedFd,
    shown: mpsc::Receiver<Vec<u8>>,
    /// The beginning of an incomplete frame: a terminal shows frames whole.
    undrawn: Vec<u8>,
    /// The first bytes of an incomplete character.
    unread: Vec<u8>,
    pub(crate) text: String,
    /// End of the text that was waited for so far.
    seen: usize,
    /// The screen as a person sees it.
    emulator: vt100::Parser,
    child: Child,
    before: Termios,
}

/// Kills the program if it still runs.
impl Drop for Screen {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Rows and columns of a terminal.
const SIZE: (u16, u16) = (24, 100);

/// Opens both ends of a terminal; no program inherits the keyboard.
fn terminal((rows, columns): (u16, u16)) -> OpenptyResult {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let ends = openpty(Some(&size), None).unwrap();
    fcntl(&ends.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    ends
}

fn emulator((rows, columns): (u16, u16)) -> vt100::Parser {
    let [rows, columns] = [rows, columns].map(|length| length.try_into().unwrap());
    vt100::Parser::new(rows, columns, 0)
}

/// Returns the number of bytes at the end that belong to an incomplete frame (a synchronized
/// update).
fn open_update(bytes: &[u8]) -> usize {
    const BEGIN: &[u8] = b"\x1b[?2026h";
    const END: &[u8] = b"\x1b[?2026l";
    let drawn = bytes
        .windows(END.len())
        .rposition(|window| window == END)
        .map_or(0, |end| end + END.len());
    let open = (drawn..bytes.len()).find(|begin| {
        let rest = bytes.get(*begin..).unwrap_or_default();
        rest.starts_with(BEGIN) || BEGIN.starts_with(rest)
    });
    open.map_or(0, |begin| bytes.len() - begin)
}

impl Screen {
    pub(crate) fn open(home: &Home, arguments: &[&str]) -> Self {
        Self::open_with(home, arguments, SIZE, &[])
    }

    /// Opens a terminal of a size for a program with further variables.
    pub(crate) fn open_with(
        home: &Home,
        arguments: &[&str],
        size: (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        Self::open_from(home, arguments, size, variables, None)
    }

    /// Opens a terminal for a program whose standard input may be a file.
    pub(crate) fn open_from(
        home: &Home,
        arguments: &[&str],
        size: (u16, u16),
        variables: &[(&str, &str)],
        input: Option<File>,
    ) -> Self {
        let OpenptyResult { master, slave } = terminal(size);
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let before = tcgetattr(&slave).unwrap();
        let mut program = home.program();
        // A process group of its own, as a shell makes one, so that it can be suspended.
        program
            .args(arguments)
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .process_group(0)
            .stdin(input.map_or_else(stdio, Stdio::from))
            .stdout(stdio())
            .stderr(stdio());
        let child = program.spawn().unwrap();
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read) = screen.read(&mut buffer) {
                if read == 0 || sender.send(buffer[..read].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keyboard,
            terminal: slave,
            shown,
            undrawn: Vec::new(),
            unread: Vec::new(),
            text: String::new(),
            seen: 0,
            emulator: emulator(size),
            child,
            before,
        }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Reads the output of a short time.
    fn look(&mut self) {
        if let Ok(bytes) = self.shown.recv_timeout(Duration::from_millis(10)) {
            self.take(&bytes);
        }
    }

    /// Adds output; an incomplete frame or character waits for its end.
    fn take(&mut self, bytes: &[u8]) {
        self.undrawn.extend_from_slice(bytes);
        let whole = self.undrawn.len() - open_update(&self.undrawn);
        let rest = self.undrawn.split_off(whole);
        let drawn = std::mem::replace(&mut self.undrawn, rest);
        self.emulator.process(&drawn);
        self.unread.extend_from_slice(&drawn);
        let whole = match std::str::from_utf8(&self.unread) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.unread.len(),
        };
        let rest = self.unread.split_off(whole);
        self.text += &String::from_utf8_lossy(&std::mem::replace(&mut self.unread, rest));
    }

    /// Waits until `part` is shown after the text that was waited for before, and returns the text
    /// in between.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = self.text[self.seen..].find(part) {
                let end = self.seen + found + part.len();
                let between = self.text[self.seen..end].to_owned();
                self.seen = end;
                return between;
            }
            match self
                .shown
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!(
                    "{part:?} is not shown behind byte {} of:\n{}",
                    self.seen, self.text
                ),
            }
        }
    }

    /// Returns the rows of the screen.
    pub(crate) fn rows(&self) -> Vec<String> {
        let contents = self.emulator.screen().contents();
        contents
            .lines()
            .map(|row| row.trim_end().to_owned())
            .collect()
    }

    /// Waits until the rows of the screen fulfil a condition, and returns them.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, is_met: impl Fn(&[String]) -> bool) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows();
            if is_met(&rows) {
                return rows;
            }
            match self
                .shown
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!(
                    "the screen does not become as expected:\n{}",
                    rows.join("\n")
                ),
            }
        }
    }

    /// Waits until a row of the screen is `expected`.
    #[track_caller]
    pub(crate) fn wait_for_row(&mut self, expected: &str) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let rows = self.rows();
            if rows.iter().any(|row| row == expected) {
                return rows;
            }
            match self
                .shown
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("no row is {expected:?}:\n{}", rows.join("\n")),
            }
        }
    }

    /// Waits for the end of the program, reads the rest of its output, and returns the exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                self.read_rest();
                return status.code();
            }
            self.look();
        }
        self.child.kill().unwrap();
        panic!("the program does not end:\n{}", self.text);
    }

    /// Reads everything that the ended program wrote: up to a mark that is written after it.
    fn read_rest(&mut self) {
        // A title, which no emulated screen shows.
        const MARK: &str = "\u{1b}]0;end of the program\u{7}";
        let mut terminal = File::from(self.terminal.try_clone().unwrap());
        terminal.write_all(MARK.as_bytes()).unwrap();
        let begin = self.text.len();
        // A killed program may leave a frame open.
        let is_held = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(MARK);
        while !is_held(&self.undrawn) {
            if let Some(found) = self.text[begin..].find(MARK) {
                self.text.replace_range(begin + found.., "");
                return;
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("the terminal does not show its end:\n{}", self.text),
            }
        }
    }

    fn is_in_first_mode(&self) -> bool {
        let now = tcgetattr(&self.terminal).unwrap();
        now.local_flags == self.before.local_flags && now.local_flags.contains(LocalFlags::ECHO)
    }

    /// Waits until the program is suspended, as by Ctrl-Z.
    #[track_caller]
    fn wait_for_stop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while waitpid(
            self.pid(),
            Some(WaitPidFlag::WUNTRACED | WaitPidFlag::WNOHANG),
        )
        .unwrap()
            == WaitStatus::StillAlive
        {
            assert!(
                Instant::now() < deadline,
                "the program does not stop:\n{}",
                self.text
            );
            self.look();
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

const CONTROL_C: &str = "\u{3}";
const CONTROL_D: &str = "\u{4}";
const CONTROL_Z: &str = "\u{1a}";

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_shown_and_remembered() {
    let home = Home::new();
    let mut screen = Screen::open(&home, &["agent", "--demo"]);
    let banner = screen.wait_for("You: ");
    assert_says(&banner, &["🐈 nanobot", "Demo model", "/help"]);
    screen.type_in("what files are here?\r");
    screen.wait_for("↳ ✓ list_dir");
    screen.wait_for("🐈 nanobot");
    screen.wait_for("AGENTS.md");
    screen.wait_for("You: ");
    screen.type_in("/stat\t");
    screen.wait_for("/status");
    screen.type_in("\r");
    screen.wait_for("messages");
    // A paste of several lines is one message.
    screen.type_in("\u{1b}[200~write a note: buy\rmilk\u{1b}[201~");
    screen.wait_for("milk");
    screen.type_in("\r");
    // Not the name of the assistant: earlier answers are redrawn around a longer line.
    screen.wait_for("Done: the note");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert!(screen.is_in_first_mode());

    let history = home.read("history/cli_history");
    let lines: Vec<&str> = history
        .lines()
        .filter(|line| line.starts_with('+'))
        .collect();
    assert_eq!(
        lines,
        [
            "+what files are here?",
            "+/status",
            "+write a note: buy",
            "+milk"
        ]
    );

    let mut again = Screen::open(&home, &["agent", "--demo"]);
    again.wait_for("You: ");
    // Up from the last line, from the first line, and through the history.
    again.type_in("\u{1b}[A\u{1b}[A\u{1b}[A");
    again.wait_for("/status");
    again.type_in(CONTROL_C);
    again.wait_for("Ctrl-C again leaves");
    again.type_in(CONTROL_C);
    assert_eq!(again.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn markdown_is_styled_unless_disabled() {
    let model = ModelServer::answering(|_| Reply::deltas(["# Ti", "tle\n\nsome **bold**\n"]))
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("hello\r");
    screen.wait_for("\u{1b}[1mbold\u{1b}[0m");
    screen.type_in("exit\r");
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert!(
        !screen.text.contains("**bold**"),
        "it is shown once: {}",
        screen.text
    );

    let mut plain = Screen::open(&home, &["agent", "--no-markdown"]);
    plain.wait_for("You: ");
    plain.type_in("hello\r");
    plain.wait_for("some **bold**");
    plain.type_in("quit\r");
    assert_eq!(plain.end(), Some(0), "{}", plain.text);

    let mut once = Screen::open(&home, &["agent", "-m", "hello"]);
    once.wait_for("\u{1b}[1mbold\u{1b}[0m");
    assert_eq!(once.end(), Some(0), "{}", once.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_c_stops_the_turn_then_warns_then_exits() {
    let model = ModelServer::answering(|_| Reply::text("never finished\n").then_stall())
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("hello\r");
    model.wait_for(1).await.unwrap();
    screen.type_in(CONTROL_C);
    screen.wait_for("Stopped 1 task");
    screen.wait_until(|rows| !rows.iter().any(|row| row.contains("· stopping")));
    screen.type_in(CONTROL_C);
    screen.wait_for("Ctrl-C again leaves");
    screen.type_in(CONTROL_C);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert!(screen.is_in_first_mode());
}

#[tokio::test(flavor = "multi_thread")]
async fn control_c_stops_a_turn_after_a_tool_message() {
    let model = ModelServer::answering(|request| match request.messages().last() {
        Some(last) if last["role"] == "tool" => Reply::text("never finished\n").then_stall(),
        _ => Reply::call("message", &json!({"content": "I am on it."})),
    });
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("hello\r");
    screen.wait_for("I am on it.");
    model.wait_for(2).await.unwrap();
    screen.type_in(CONTROL_C);
    screen.wait_for("Stopped 1 task");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_c_stops_a_queued_message() {
    let gate = Gate::new();
    let rest = gate.clone();
    let model = ModelServer::answering(move |request| {
        if request.json.to_string().contains("and the second") {
            Reply::text("never finished\n").then_stall()
        } else {
            Reply::deltas(["It begins.\n", "It ends.\n"]).holding(&rest)
        }
    });
    let model = model.await.unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("the first\r");
    model.wait_for(1).await.unwrap();
    screen.type_in("and the second\r");
    gate.open();
    screen.wait_for("It ends.");
    model.wait_for(2).await.unwrap();
    screen.type_in(CONTROL_C);
    screen.wait_for("Stopped ");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_before_the_next_prompt_are_read() {
    // In one piece, so that the terminal has the last key before the program reads the line.
    for keys in [
        "/status\r\u{4}",
        "/status\r\u{3}\u{3}",
        "/status\rexit\r",
        "\r\u{4}",
    ] {
        let home = Home::new();
        let mut screen = Screen::open(&home, &["agent", "--demo"]);
        screen.wait_for("You: ");
        screen.type_in(keys);
        assert_eq!(screen.end(), Some(0), "{keys:?}: {}", screen.text);
        assert!(screen.is_in_first_mode(), "{keys:?}");
    }
    let model = ModelServer::answering(|_| Reply::text("never finished\n").then_stall())
        .await
        .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("hello\r\u{3}");
    screen.wait_for("Stopped 1 task");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
}

#[test]
fn control_z_restores_the_terminal_until_resumed() {
    let home = Home::new();
    let mut screen = Screen::open(&home, &["agent", "--demo"]);
    screen.wait_for("You: ");
    screen.type_in(CONTROL_Z);
    screen.wait_for_stop();
    assert!(screen.is_in_first_mode());
    kill(screen.pid(), Signal::SIGCONT).unwrap();
    screen.type_in("/status\r");
    screen.wait_for("messages");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert!(screen.is_in_first_mode());
}

#[test]
fn interrupted_secret_prompt_restores_the_terminal() {
    for (signal, code) in [
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
    ] {
        let home = Home::new();
        let mut screen = Screen::open(&home, &["channels", "login", "telegram"]);
        screen.wait_for("> ");
        assert!(!screen.is_in_first_mode());
        kill(screen.pid(), signal).unwrap();
        assert_eq!(screen.end(), Some(code), "{}", screen.text);
        assert!(screen.is_in_first_mode(), "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_during_a_turn_steers_it() {
    let model = ModelServer::answering(|request| {
        let text = request.json.to_string();
        if text.contains("in French") {
            Reply::text("Bonjour.")
        } else if text.contains("\"tool\"") {
            Reply::text("Hello.")
        } else {
            Reply::call(
                "exec",
                &json!({"command": "while [ ! -e go ]; do sleep 0.05; done"}),
            )
        }
    })
    .await
    .unwrap();
    let home = Home::with_model(&model.base_url());
    let mut screen = Screen::open(&home, &["agent"]);
    screen.wait_for("You: ");
    screen.type_in("greet me\r");
    screen.wait_for("exec(\"while");
    screen.type_in("in French, please\r");
    screen.wait_for("French, please");
    screen.wait_for("You: ");
    home.write("workspace/go", "");
    screen.wait_for("Bonjour.");
    screen.type_in(CONTROL_D);
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert_eq!(model.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_restore_the_terminal() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let home = Home::new();
        let mut screen = Screen::open(&home, &["agent", "--demo"]);
        screen.wait_for("You: ");
        kill(screen.pid(), signal).unwrap();
        assert_eq!(screen.end(), Some(code), "{}", screen.text);
        assert!(screen.is_in_first_mode(), "{}", screen.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setup_asks_and_writes_at_the_end() {
    let model = ModelServer::with_key("key-of-ann", []).await.unwrap();
    let home = Home::new();
    let mut screen = Screen::open(&home, &["onboard"]);
    screen.wait_for("Which provider answers?");
    screen.wait_for("(Enter skips): ");
    screen.type_in("custom\r");
    screen.wait_for("Address");
    screen.type_in(&format!("{}\r", model.base_url()));
    screen.wait_for("(it is not shown): ");
    screen.type_in("wrong\r");
    screen.wait_for("It does not work");
    screen.wait_for("Try again? [Y/n] ");
    screen.type_in("\r");
    screen.wait_for("Address (Enter: ");
    screen.type_in("\r");
    screen.wait_for("Enter keeps it): ");
    screen.type_in("key-of-ann\r");
    screen.wait_for("It works.");
    screen.wait_for("1. scripted-model (default)");
    screen.wait_for("(Enter takes scripted-model): ");
    screen.type_in("\r");
    screen.wait_for("What shall I call you? ");
    screen.type_in("Ann\r");
    screen.wait_for("Your time zone");
    screen.type_in("Asia/Tokyo\r");
    screen.wait_for("Which chat platform?");
    screen.wait_for("(Enter skips): ");
    screen.type_in("\r");
    screen.wait_for("as a service? [y/N] ");
    screen.type_in("\r");
    screen.wait_for("Write this? [Y/n] ");
    assert_eq!(home.names("."), Vec::<String>::new(), "nothing yet");
    screen.type_in("\r");
    screen.wait_for("Talk now? [Y/n] ");
    screen.type_in("n\r");
    assert_eq!(screen.end(), Some(0), "{}", screen.text);
    assert!(!screen.text.contains("key-of-ann"), "{}", screen.text);
    assert!(screen.is_in_first_mode(), "{}", screen.text);
    let config: serde_json::Value = serde_json::from_str(&home.read("config.json")).unwrap();
    assert_eq!(
        config,
        json!({
            "$schema": "./config.schema.json",
            "agents": {"defaults": {"provider": "custom", "model": "scripted-model", "timezone": "Asia/Tokyo"}},
            "providers": {"custom": {"apiKey": "key-of-ann", "apiBase": model.base_url()}},
            "channels": {},
        })
    );
    assert_says(
        &home.read("workspace/USER.md"),
        &["- Name: Ann\n", "- Time zone: Asia/Tokyo\n"],
    );
}

#[test]
fn interrupted_setup_leaves_everything_as_it_was() {
    for (is_interrupt, code) in [(true, 130), (false, 1)] {
        let home = Home::new();
        home.configure(&json!({"agents": {"defaults": {"temperature": 0.2}}}));
        let before = (home.names("."), home.read("config.json"));
        let mut screen = Screen::open(&home, &["onboard"]);
        screen.wait_for("Which provider answers?");
        screen.wait_for("(Enter skips): ");
        screen.type_in("openai\r");
        screen.wait_for("(it is not shown): ");
        if is_interrupt {
            kill(screen.pid(), Signal::SIGINT).unwrap();
        } else {
            // The end of the input, as Ctrl-D sends it.
            screen.type_in("\u{4}");
        }
        screen.wait_for("Nothing was written.");
        assert_eq!(screen.end(), Some(code), "{}", screen.text);
        assert!(screen.is_in_first_mode(), "{}", screen.text);
        assert_eq!((home.names("."), home.read("config.json")), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dumb_terminal_prints_plain_lines() {
    let home = Home::new();
    let OpenptyResult { master, slave } = terminal(SIZE);
    let stdio = || Stdio::from(slave.try_clone().unwrap());
    let mut command = home.program();
    command.env("TERM", "dumb").args(["agent", "--demo"]);
    let mut child = command
        .stdin(stdio())
        .stdout(stdio())
        .stderr(stdio())
        .spawn()
        .unwrap();
    drop((command, slave));
    let mut keyboard = File::from(master);
    keyboard.write_all(b"what files are here?\nexit\n").unwrap();
    let mut shown = Vec::new();
    // Reading fails once no process has the terminal open.
    drop(keyboard.read_to_end(&mut shown));
    let shown = String::from_utf8_lossy(&shown);
    assert_says(&shown, &["AGENTS.md"]);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn skill_installation_asks_for_consent() {
    let home = Home::new();
    home.write(
        "from/receipts/SKILL.md",
        "---\nname: receipts\ndescription: Sort receipts.\n---\nBody.",
    );
    let folder = home.path().join("from/receipts");
    for (answer, code, says) in [("\n", 1, "nothing was changed"), ("y\n", 0, "Installed: ")] {
        let mut screen = Screen::open(&home, &["skills", "install", folder.to_str().unwrap()]);
        assert_says(
            &screen.wait_for("with all of this? [y/N] "),
            &["scripts: none", "in every prompt: no"],
        );
        screen.type_in(answer);
        screen.wait_for(says);
        assert_eq!(screen.end(), Some(code), "{}", screen.text);
    }
    assert_eq!(home.names("workspace/skills"), [".lock.json", "receipts"]);
}
