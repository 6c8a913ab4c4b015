//! Questions about calls: asked in the chat, answered by its person, bound to the call.

use nanobot_channel_telegram_fake::{Incoming, Person, SentMessage, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::gateway::Running;
use crate::support::{Home, Run, assert_says, until};

/// The command of the scripted model.
const COMMAND: &str = "echo fine >> made.txt";

/// A gateway on Telegram whose model runs a command for every message, and who may talk to it.
struct Setting {
    home: Home,
    telegram: TelegramFake,
    /// Answers until the end.
    model: ModelServer,
    ann: Person,
}

impl Setting {
    async fn new(arguments: Value, tools: &Value) -> Self {
        let model = ModelServer::answering(move |request| match request.tool_results().last() {
            Some(result) => Reply::text(format!("Result: {result}")),
            None => Reply::call("exec", &arguments),
        });
        let (model, telegram, home) = (
            model.await.unwrap(),
            TelegramFake::start().await.unwrap(),
            Home::new(),
        );
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
            "channels": {"telegram": {
                "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(),
                "allowFrom": ["7", "8"], "groupPolicy": "open",
            }},
            "tools": tools,
        }));
        Self {
            home,
            telegram,
            model,
            ann: Person::new(7, "Ann", "ann_x"),
        }
    }

    /// Waits for the question number `number`, from 1.
    async fn question(&self, number: usize) -> SentMessage {
        let found = self.telegram.wait_for("a question", |sent| {
            let mut questions = sent
                .iter()
                .filter(|sent| sent.text.starts_with("May I run"));
            questions.nth(number - 1).cloned()
        });
        found.await.unwrap()
    }

    fn questions(&self) -> usize {
        let sent = self.telegram.sent();
        sent.iter()
            .filter(|sent| sent.text.starts_with("May I run"))
            .count()
    }

    fn press(&self, question: &SentMessage, person: &Person, word: &str) {
        let label = label(question, word);
        let pressed = self
            .telegram
            .press(question.chat_id, question.message_id, person, &label);
        assert!(pressed.is_some());
    }

    /// Waits for a reply in the chat of a person with this in it.
    async fn says(&self, part: &str) {
        until(part, async || {
            let texts = self.telegram.texts_in(7);
            texts.iter().any(|text| text.contains(part))
        })
        .await;
    }

    fn made(&self) -> Option<String> {
        std::fs::read_to_string(self.home.workspace().join("made.txt")).ok()
    }

    fn say(&self, text: &str) {
        self.telegram.push(Incoming::private(&self.ann, text));
    }
}

/// Returns the label of the button that begins with a word.
fn label(question: &SentMessage, word: &str) -> String {
    let keyboard = question.reply_markup.clone().unwrap();
    let row = keyboard["inline_keyboard"][0].as_array().unwrap().clone();
    let labels = row.iter().map(|button| button["text"].as_str().unwrap());
    let mut fitting = labels.filter(|label| label.starts_with(word));
    fitting.next().unwrap().to_owned()
}

fn asks() -> Value {
    json!({"approvals": {"tools": {"exec": "ask"}}, "exec": {"sandbox": "off"}})
}

#[tokio::test]
async fn call_waits_for_the_button_of_the_person_who_asked() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let gateway = Running::start(&setting.home).await;
    setting.say("go on");
    let question = setting.question(1).await;
    assert_says(&question.text, &[COMMAND, "yes or no", "10 minutes"]);
    assert_eq!(setting.made(), None);
    // A shell command has no rule that later commands could have.
    let keyboard = question.reply_markup.clone().unwrap().to_string();
    assert!(!keyboard.contains("Always"), "{keyboard}");
    setting.press(&question, &setting.ann, "Yes");
    setting.says("Result:").await;
    assert_eq!(setting.made().as_deref(), Some("fine\n"));
    // The same button answers no later question.
    setting.say("once more");
    let second = setting.question(2).await;
    setting.press(&question, &setting.ann, "Yes");
    setting.says("no longer open").await;
    setting.press(&second, &setting.ann, "No");
    setting.says("the user refused this call").await;
    assert_eq!(setting.made().as_deref(), Some("fine\n"));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let audit = setting.home.run(&["audit", "--json"]).await.stdout;
    assert_says(&audit, &["\"approval\"", "allowed once", "refused"]);
    assert!(!setting.model.requests().is_empty());
}

#[tokio::test]
async fn other_people_of_a_group_cannot_answer() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let gateway = Running::start(&setting.home).await;
    let bob = Person::new(8, "Bob", "bob_x");
    setting
        .telegram
        .push(Incoming::group(-100, &setting.ann, "go on"));
    let question = setting.question(1).await;
    setting.press(&question, &bob, "Yes");
    until("Bob is told", async || {
        let texts = setting.telegram.texts_in(-100);
        texts.iter().any(|text| text.contains("no longer open"))
    })
    .await;
    assert_eq!(setting.made(), None);
    setting.press(&question, &setting.ann, "Yes");
    until("it ran", async || setting.made().is_some()).await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn question_and_answer_outlive_the_gateway() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let gateway = Running::start(&setting.home).await;
    setting.say("go on");
    let question = setting.question(1).await;
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
    // The answer arrives while nothing runs.
    setting.press(&question, &setting.ann, "Yes");
    let gateway = Running::start(&setting.home).await;
    setting.says("Result:").await;
    assert_eq!(setting.made().as_deref(), Some("fine\n"));
    assert_eq!(setting.questions(), 1);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn always_holds_for_the_parsed_command_until_it_is_revoked() {
    let setting = Setting::new(json!({"command": "touch made.txt"}), &asks()).await;
    let gateway = Running::start(&setting.home).await;
    setting.say("go on");
    let question = setting.question(1).await;
    assert_says(&question.text, &["like this one: touch made.txt"]);
    setting.press(&question, &setting.ann, "Always");
    setting.says("Result:").await;
    setting.say("again");
    until("it runs without a question", async || {
        setting.model.requests().len() >= 4
    })
    .await;
    assert_eq!(setting.questions(), 1);
    let list = setting.home.run(&["approvals", "list"]).await;
    assert_says(&list.stdout, &["always: exec touch made.txt in telegram:7"]);
    let id = list.stdout.split_whitespace().next().unwrap().to_owned();
    let unknown = setting.home.run(&["approvals", "revoke", "0"]).await;
    assert_eq!(unknown.code, 1, "{}", unknown.stderr);
    let revoked = setting.home.run(&["approvals", "revoke", &id]).await;
    assert_eq!(revoked.stdout, "Revoked: 1\n");
    setting.say("and again");
    let question = setting.question(2).await;
    // Words that are no answer refuse, and are read by the model.
    setting.say("rather not, list the files");
    setting.says("the user refused this call").await;
    let told = format!("{:?}", setting.model.requests().last().unwrap().messages());
    assert!(told.contains("rather not, list the files"), "{told}");
    assert!(question.text.contains("touch made.txt"));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn single_message_has_no_one_to_ask() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let run = setting.home.run(&["agent", "-m", "go on"]).await;
    assert_says(&run.stdout, &["nobody can be asked", "nanobot agent"]);
    assert_eq!(setting.made(), None);
}

impl Setting {
    /// Runs two turns by lines, of which the second is refused.
    async fn two_turns_by_lines(&self, input: &[u8]) -> Run {
        let arguments = ["agent", "--lines"];
        let run = self.home.run_with_input(&arguments, input).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.stdout.matches("Result:").count(), 2, "{}", run.stdout);
        assert_says(&run.stdout, &["the user refused this call"]);
        run
    }
}

#[tokio::test]
async fn line_after_a_question_is_its_answer() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let input = b"go on\nyes\nonce more\n\nrather not, list the files\n";
    let run = setting.two_turns_by_lines(input).await;
    assert_says(&run.stderr, &["May I run `exec`", COMMAND]);
    assert_eq!(setting.made().as_deref(), Some("fine\n"));
    let told = format!("{:?}", setting.model.requests().last().unwrap().messages());
    assert!(told.contains("rather not, list the files"), "{told}");
}

#[tokio::test]
async fn end_of_input_refuses_at_once() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    for (input, arguments) in [
        (&b"go on"[..], &["agent", "--lines"][..]),
        (b"go on\nexit\nyes\n", &["agent", "--lines", "--json"]),
        (b"go on", &["agent", "--lines", "--quiet"]),
    ] {
        let run = setting.home.run_with_input(arguments, input).await;
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_says(&run.stdout, &["the user refused this call"]);
        let shown = run.stdout + &run.stderr;
        assert_says(&shown, &["May I run `exec`"]);
        assert_eq!(
            shown.contains("{\"answers\":[\"Yes "),
            arguments.contains(&"--json")
        );
    }
    assert_eq!(setting.made(), None);
}

#[tokio::test]
async fn lines_through_a_gateway_answer_its_questions() {
    let setting = Setting::new(json!({"command": COMMAND}), &asks()).await;
    let gateway = Running::start(&setting.home).await;
    let input = b"go on\nyes\nonce more\n";
    setting.two_turns_by_lines(input).await;
    assert_eq!(setting.made().as_deref(), Some("fine\n"));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// A picture of one pixel.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\0IEND\xaeB`\x82";

#[tokio::test]
async fn received_text_marks_the_turn_and_a_picture_does_not() {
    let home = Home::new();
    home.write("media/telegram/letter.txt", "Dear Ann, buy milk.");
    std::fs::write(home.path().join("media/telegram/cat.png"), PIXEL).unwrap();
    let made = home.workspace().join("made.txt");
    for (file, is_asked) in [("letter.txt", true), ("cat.png", false)] {
        let path = home.path().join("media/telegram").join(file);
        let replies = [
            Reply::call("read_file", &json!({"path": path})),
            Reply::call("exec", &json!({"command": COMMAND})),
            Reply::text("Done."),
        ];
        let model = ModelServer::scripted(replies).await.unwrap();
        home.configure(&json!({
            "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
            "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
            "tools": {"exec": {"sandbox": "off"}},
        }));
        let run = home.run(&["agent", "-m", "look at it", "-s", file]).await;
        assert_eq!(run.stdout, "Done.\n", "{}", run.stderr);
        let requests = model.requests();
        let results = [1, 2].map(|number| requests[number].tool_results().concat());
        assert!(!results[0].starts_with("Error"), "{results:?}");
        let question = "a file that somebody sent";
        assert_eq!(results[1].contains(question), is_asked, "{results:?}");
        assert_eq!(made.exists(), !is_asked, "{file}");
    }
}
