//! Conversations with prepared answers.

use std::collections::VecDeque;
use std::io;

use super::*;

/// A user with prepared answers; the input ends after them.
struct Script {
    answers: VecDeque<&'static str>,
    shown: String,
}

impl Script {
    fn new(answers: &[&'static str]) -> Self {
        Self {
            answers: answers.iter().copied().collect(),
            shown: String::new(),
        }
    }
}

impl Dialogue for Script {
    async fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        self.say(question)?;
        Ok(self.answers.pop_front().map(str::to_owned))
    }

    async fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>> {
        self.ask(question).await
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.shown += text;
        self.shown.push('\n');
        Ok(())
    }
}

/// A vendor that accepts the key `good`, and a server.
#[derive(Default)]
struct World {
    configured: Option<(String, Option<String>)>,
    /// Number of logins to Telegram that fail before one works.
    login_failures: usize,
}

fn offer(name: &str) -> OfferedProvider {
    OfferedProvider {
        name: name.to_owned(),
        label: name.to_uppercase(),
        default_model: Some(format!("{name}-best")),
        variable: None,
        api_base: None,
        needs_key: true,
    }
}

impl SetupHost for World {
    async fn providers(&self) -> Result<Vec<OfferedProvider>, Interruption> {
        let server = OfferedProvider {
            api_base: Some("http://127.0.0.1:11434/v1".to_owned()),
            needs_key: false,
            default_model: None,
            ..offer("ollama")
        };
        let keyed = OfferedProvider {
            variable: Some("ANTHROPIC_API_KEY".to_owned()),
            ..offer("anthropic")
        };
        let custom = OfferedProvider {
            needs_key: false,
            default_model: None,
            ..offer("custom")
        };
        Ok(vec![server, keyed, offer("openai"), custom])
    }

    fn configured(&self) -> Option<(String, Option<String>)> {
        self.configured.clone()
    }

    async fn try_provider(&self, answer: &ProviderAnswer) -> Result<ProviderTrial, String> {
        if answer.key.as_deref() == Some("bad") {
            return Err("not authorised".to_owned());
        }
        if answer.api_base.as_deref() == Some("http://wrong/v1") {
            return Err("connection failed".to_owned());
        }
        let mut models: Vec<String> = (1..=20).map(|index| format!("model-{index}")).collect();
        models.push(format!("{}-best-2026", answer.name));
        Ok(ProviderTrial {
            models,
            is_checked: true,
        })
    }

    fn has_open_profile(&self) -> bool {
        self.configured.is_none()
    }

    fn host_zone(&self) -> String {
        "Europe/Berlin".to_owned()
    }

    fn zone(&self, name: &str) -> Option<String> {
        (name == "Asia/Tokyo").then(|| name.to_owned())
    }

    fn platforms(&self) -> Vec<String> {
        vec!["slack".to_owned(), "telegram".to_owned()]
    }

    async fn log_in(&mut self, platform: &str) -> Result<(), String> {
        match platform {
            "telegram" if self.login_failures == 0 => Ok(()),
            _ => {
                self.login_failures = self.login_failures.saturating_sub(1);
                Err("the token is needed".to_owned())
            }
        }
    }

    fn has_services(&self) -> bool {
        true
    }
}

async fn run(
    world: World,
    answers: &[&'static str],
) -> (Result<Option<SetupAnswers>, Interruption>, String) {
    let (mut script, mut world) = (Script::new(answers), world);
    let outcome = converse(&mut script, &mut world).await;
    (outcome, script.shown)
}

fn provider(name: &str, key: Option<&str>, base: Option<&str>) -> Option<ProviderAnswer> {
    Some(ProviderAnswer {
        name: name.to_owned(),
        key: key.map(str::to_owned),
        api_base: base.map(str::to_owned),
    })
}

#[tokio::test]
async fn enter_skips_every_step() {
    let (outcome, shown) = run(World::default(), &["", "", "", "", "", ""]).await;
    assert_eq!(outcome.unwrap(), Some(SetupAnswers::default()));
    assert!(shown.contains("nothing chosen"), "{shown}");
}

#[tokio::test]
async fn variable_is_offered_as_reference() {
    let (outcome, shown) = run(
        World::default(),
        &["2", "", "Ann", "nowhere", "Asia/Tokyo", "tele", "y", "y"],
    )
    .await;
    let expected = SetupAnswers {
        provider: provider("anthropic", Some("${ANTHROPIC_API_KEY}"), None),
        model: Some(("anthropic".to_owned(), "anthropic-best".to_owned())),
        user: Some("Ann".to_owned()),
        zone: Some("Asia/Tokyo".to_owned()),
        channel: Some("telegram".to_owned()),
        service: true,
    };
    assert_eq!(outcome.unwrap(), Some(expected));
    for part in [
        "ANTHROPIC (ANTHROPIC_API_KEY)",
        "OLLAMA on this computer",
        "anthropic-best (default)",
        "IANA name",
        "key ${ANTHROPIC_API_KEY}",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[tokio::test]
async fn refused_key_is_asked_again_or_kept() {
    let answers = [
        "openai", "bad", "", "good", "model-1", "model-11", "", "slack", "n", "", "",
    ];
    let (outcome, shown) = run(World::default(), &answers).await;
    let expected = SetupAnswers {
        provider: provider("openai", Some("good"), None),
        // A part that is in several names shows them; the exact name decides.
        model: Some(("openai".to_owned(), "model-1".to_owned())),
        ..SetupAnswers::default()
    };
    let outcome = outcome.unwrap();
    // `model-1` is a name, so `model-11` answers the next question.
    let named = SetupAnswers {
        user: Some("model-11".to_owned()),
        ..expected
    };
    assert_eq!(outcome, Some(named));
    assert!(shown.contains("not authorised"), "{shown}");
    assert!(!shown.contains("good"), "{shown}");
    assert!(shown.contains("nanobot channels login slack"), "{shown}");

    let kept = ["openai", "bad", "n", "y", "mine", "y", "", "", "", "", ""];
    let (outcome, _) = run(World::default(), &kept).await;
    let outcome = outcome.unwrap().unwrap();
    assert_eq!(outcome.provider, provider("openai", Some("bad"), None));
}

#[tokio::test]
async fn long_list_is_searched_and_other_text_confirmed() {
    let answers = ["1", "del-1", "3", "", "", "", "", ""];
    let (outcome, shown) = run(World::default(), &answers).await;
    let outcome = outcome.unwrap().unwrap();
    assert_eq!(
        outcome.provider,
        provider("ollama", None, Some("http://127.0.0.1:11434/v1"))
    );
    assert_eq!(
        outcome.model,
        Some(("ollama".to_owned(), "model-11".to_owned()))
    );
    assert!(shown.contains("more: type a part"), "{shown}");
    let answers = ["1", "own", "n", "own", "y", "", "", "", "", ""];
    let (outcome, _) = run(World::default(), &answers).await;
    assert_eq!(
        outcome.unwrap().unwrap().model,
        Some(("ollama".to_owned(), "own".to_owned()))
    );
}

#[tokio::test]
async fn second_run_keeps_what_is_set() {
    let world = || World {
        configured: Some(("openai".to_owned(), Some("model-7".to_owned()))),
        ..World::default()
    };
    let (outcome, shown) = run(world(), &["", "", "", "", "y"]).await;
    assert_eq!(outcome.unwrap(), Some(SetupAnswers::default()));
    assert!(shown.contains("Enter keeps openai"), "{shown}");
    assert!(shown.contains("Enter keeps model-7"), "{shown}");
    let (outcome, _) = run(world(), &["", "model-8", "", "", "n", ""]).await;
    assert_eq!(outcome.unwrap(), None);
}

#[tokio::test]
async fn wrong_address_is_asked_again_with_its_key() {
    let answers = [
        "custom",
        "http://wrong/v1",
        "钥匙",
        "",
        "http://right/v1",
        "",
        "model-2",
        "",
        "",
        "",
        "",
        "",
    ];
    let (outcome, shown) = run(World::default(), &answers).await;
    assert_eq!(
        outcome.unwrap().unwrap().provider,
        provider("custom", Some("钥匙"), Some("http://right/v1"))
    );
    for part in ["connection failed", "Address (Enter: http://wrong/v1)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("钥匙"), "{shown}");
    // The same address again, then neither another try nor that one.
    let answers = [
        "custom",
        "http://wrong/v1",
        "",
        "",
        "",
        "",
        "n",
        "n",
        "",
        "",
        "",
        "",
        "",
    ];
    let (outcome, shown) = run(World::default(), &answers).await;
    assert_eq!(outcome.unwrap(), Some(SetupAnswers::default()));
    assert_eq!(shown.matches("connection failed").count(), 2, "{shown}");
}

#[tokio::test]
async fn failed_login_is_repeated() {
    let world = World {
        login_failures: 2,
        ..World::default()
    };
    let answers = ["", "", "", "telegram", "", "y", "", ""];
    let (outcome, shown) = run(world, &answers).await;
    let channel = outcome.unwrap().unwrap().channel;
    assert_eq!(channel.as_deref(), Some("telegram"), "{shown}");
    assert!(!shown.contains("Skipped"), "{shown}");
}

#[tokio::test]
async fn answers_can_be_changed_before_they_are_written() {
    let answers = [
        "openai",
        "good",
        "model-1",
        "Ann",
        "",
        "",
        "",
        "n",
        "name",
        "安娜 🌸",
        "",
        "n",
        "1",
        "anthropic",
        "",
        "y",
    ];
    let (outcome, shown) = run(World::default(), &answers).await;
    let answers = outcome.unwrap().unwrap();
    assert_eq!(answers.user.as_deref(), Some("安娜 🌸"));
    assert_eq!(
        answers.model,
        Some(("anthropic".to_owned(), "anthropic-best".to_owned()))
    );
    assert_eq!(shown.matches("Write this?").count(), 3, "{shown}");
}

#[tokio::test]
async fn end_of_input_ends_at_every_step() {
    let answers = ["2", "", "Ann", "", "", "", "y"];
    for length in 0..answers.len() {
        let (outcome, _) = run(World::default(), &answers[..length]).await;
        assert!(
            matches!(outcome, Err(Interruption::Ended)),
            "{length}: {outcome:?}"
        );
    }
}
