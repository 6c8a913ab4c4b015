//! Kills the real gateway while it asks whether a call may run: it asks once, and the call runs once.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nanobot_channel_telegram_fake::{Incoming, Person, SentMessage, TOKEN, TelegramFake};
use nanobot_crash_suite::{Nanobot, System as _};
use nanobot_testkit::{ModelServer, Reply};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Path of the executable, if it is not where Cargo builds it.
const BINARY: &str = "NANOBOT_CRASH_BINARY";
/// Time limit of every wait, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two looks at a file.
const PAUSE: Duration = Duration::from_millis(10);

/// A home, its gateway's world, and the gateway while it runs.
struct Home {
    folder: tempfile::TempDir,
    system: Nanobot,
    telegram: TelegramFake,
    _model: ModelServer,
    person: Person,
    gateway: Option<Child>,
}

impl Home {
    /// Creates a home whose model runs one command for every message.
    async fn new(binary: PathBuf) -> Self {
        let model = ModelServer::answering(|request| match request.tool_results().last() {
            Some(result) => Reply::text(format!("done: {result}")),
            None => Reply::call("exec", &json!({"command": "echo ran >> effects.log"})),
        });
        let (model, telegram) = (model.await.unwrap(), TelegramFake::start().await.unwrap());
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "agents": {"defaults": {"model": "custom/scripted", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "key", "apiBase": model.base_url()}},
            "tools": {"exec": {"sandbox": "off"}, "approvals": {"tools": {"exec": "ask"}}},
            "gateway": {"port": 0},
            "channels": {"sendProgress": false, "sendToolHints": false, "telegram": {
                "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(),
                "allowFrom": ["*"], "streaming": false, "pollTimeout": 1,
            }},
        });
        std::fs::create_dir_all(folder.path().join("workspace")).unwrap();
        std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        Self {
            folder,
            system: Nanobot::new(binary),
            telegram,
            _model: model,
            person: Person::new(7, "Ann", "ann_x"),
            gateway: None,
        }
    }

    async fn start(&mut self) {
        let mut command = Command::from(self.system.command(self.folder.path()));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if self.system.is_ready(&line) {
                    return true;
                }
            }
            false
        };
        assert!(tokio::time::timeout(LIMIT, ready).await.unwrap());
        self.gateway = Some(child);
    }

    async fn kill(&mut self) {
        self.gateway.take().unwrap().kill().await.unwrap();
        self.telegram.server().settled().await.unwrap();
    }

    async fn question(&self) -> SentMessage {
        let asked = self.telegram.wait_for("the question", |sent| {
            let mut questions = sent.iter().filter(|sent| is_question(sent));
            questions.next().cloned()
        });
        asked.await.unwrap()
    }

    fn press(&self, question: &SentMessage, word: &str) {
        let keyboard = question.reply_markup.clone().unwrap();
        let row = keyboard.pointer("/inline_keyboard/0").unwrap().as_array();
        let mut labels = row
            .unwrap()
            .iter()
            .filter_map(|button| button.get("text")?.as_str());
        let label = labels.find(|label| label.starts_with(word)).unwrap();
        let (chat, message) = (question.chat_id, question.message_id);
        assert!(
            self.telegram
                .press(chat, message, &self.person, label)
                .is_some()
        );
    }

    /// Waits until the turn has ended with a reply, and returns it.
    async fn reply(&self) -> String {
        let done = self.telegram.wait_for("the reply", |sent| {
            let mut replies = sent.iter().filter(|sent| sent.text.starts_with("done:"));
            replies.next().map(|sent| sent.text.clone())
        });
        done.await.unwrap()
    }

    fn questions(&self) -> usize {
        let sent = self.telegram.sent();
        sent.iter().filter(|sent| is_question(sent)).count()
    }

    fn effects(&self) -> usize {
        self.system.effects(self.folder.path()).len()
    }
}

fn is_question(sent: &SentMessage) -> bool {
    sent.text.starts_with("May I run")
}

/// The moment of the answer, between the kills.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// While no gateway runs.
    Down,
    /// After the second of two restarts.
    SecondLife,
    /// Before the kill, which comes as soon as the command has run.
    BeforeKill,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn question_is_asked_once_and_its_call_runs_once() {
    let named = std::env::var_os(BINARY).map(PathBuf::from);
    let Some(binary) = named.or_else(Nanobot::beside_this_program) else {
        eprintln!("SKIPPED: no gateway was built. Build it with `cargo build -p nanobot`.");
        return;
    };
    for (moment, word, expected) in [
        (Moment::Down, "Yes", 1),
        (Moment::SecondLife, "Yes", 1),
        (Moment::SecondLife, "No", 0),
        (Moment::BeforeKill, "Yes", 1),
    ] {
        let mut home = Home::new(binary.clone()).await;
        home.start().await;
        home.telegram.push(Incoming::private(&home.person, "go on"));
        let question = home.question().await;
        match moment {
            Moment::Down => {
                home.kill().await;
                home.press(&question, word);
                home.start().await;
            }
            Moment::SecondLife => {
                for _ in 0..2 {
                    home.kill().await;
                    home.start().await;
                }
                home.press(&question, word);
            }
            Moment::BeforeKill => {
                home.press(&question, word);
                let ran = async {
                    while home.effects() == 0 {
                        tokio::time::sleep(PAUSE).await;
                    }
                };
                tokio::time::timeout(LIMIT, ran).await.unwrap();
                home.kill().await;
                home.start().await;
            }
        }
        let reply = home.reply().await;
        assert_eq!(home.effects(), expected, "{moment:?}: {reply}");
        assert_eq!(home.questions(), 1, "{moment:?}: {reply}");
        assert_eq!(
            reply.contains("refused"),
            word == "No",
            "{moment:?}: {reply}"
        );
        home.kill().await;
    }
}
