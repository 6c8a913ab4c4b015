//! The setup conversation: its steps, without a terminal or a network of its own.
//!
//! Decision: it only collects answers. The caller writes all of them at the end, so that an
//! interruption at any step leaves everything as it was.

use nanobot_runtime::{OfferedProvider, ProviderAnswer, ProviderTrial};

use super::dialogue::{Choice, Dialogue, Entry, Interruption, choose, line, secret, yes};

/// The home and the network, as the conversation needs them.
pub(super) trait SetupHost {
    /// Returns the providers to offer, the most likely first.
    async fn providers(&self) -> Result<Vec<OfferedProvider>, Interruption>;

    /// Returns the configured provider and its model.
    fn configured(&self) -> Option<(String, Option<String>)>;

    /// Tries a provider with one cheap request.
    async fn try_provider(&self, answer: &ProviderAnswer) -> Result<ProviderTrial, String>;

    /// `true` if the user's profile may still be written.
    fn has_open_profile(&self) -> bool;

    /// Returns the time zone of this computer.
    fn host_zone(&self) -> String;

    /// Returns the canonical name of a time zone, if there is one of this name.
    fn zone(&self, name: &str) -> Option<String>;

    /// Returns the chat platforms.
    fn platforms(&self) -> Vec<String>;

    /// Asks for the credentials of a platform and checks them.
    async fn log_in(&mut self, platform: &str) -> Result<(), String>;

    /// `true` if this system has a service manager that is supported.
    fn has_services(&self) -> bool;
}

/// The answers of a conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SetupAnswers {
    pub(super) provider: Option<ProviderAnswer>,
    /// Provider and model.
    pub(super) model: Option<(String, String)>,
    pub(super) user: Option<String>,
    pub(super) zone: Option<String>,
    /// The platform that was logged in.
    pub(super) channel: Option<String>,
    pub(super) service: bool,
}

/// A part of the conversation that can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Provider,
    Person,
    Channel,
    Service,
}

impl Step {
    /// Returns the name in the list of answers to change.
    fn label(self) -> &'static str {
        match self {
            Self::Provider => "provider and model",
            Self::Person => "name and time zone",
            Self::Channel => "chat platform",
            Self::Service => "service",
        }
    }

    /// `true` if there is something to ask.
    fn applies(self, host: &impl SetupHost) -> bool {
        match self {
            Self::Provider => true,
            Self::Person => host.has_open_profile(),
            Self::Channel => !host.platforms().is_empty(),
            Self::Service => host.has_services(),
        }
    }

    /// Asks its questions and replaces its answers.
    async fn ask(
        self,
        talk: &mut impl Dialogue,
        host: &mut impl SetupHost,
        answers: &mut SetupAnswers,
    ) -> Result<(), Interruption> {
        match self {
            Self::Provider => provider_and_model(talk, host, answers).await,
            Self::Person => person(talk, host, answers).await,
            Self::Channel => channel(talk, host, answers).await,
            Self::Service => service(talk, answers).await,
        }
    }
}

/// Asks everything and returns the answers; `None` if the user does not confirm them. Answers can
/// be changed before that.
///
/// # Errors
/// Returns [`Interruption`] if the user ends the input, or a question cannot be asked.
pub(super) async fn converse(
    talk: &mut impl Dialogue,
    host: &mut impl SetupHost,
) -> Result<Option<SetupAnswers>, Interruption> {
    talk.say("Enter skips a question and keeps what is set. Nothing is written before the end.")?;
    let mut answers = SetupAnswers::default();
    let mut steps = vec![Step::Provider, Step::Person, Step::Channel, Step::Service];
    steps.retain(|step| step.applies(host));
    for step in &steps {
        step.ask(talk, host, &mut answers).await?;
    }
    loop {
        talk.say("\nSummary:")?;
        for summary in summarize(&answers) {
            talk.say(&format!("  {summary}"))?;
        }
        if yes(talk, "Write this? [Y/n] ").await?.unwrap_or(true) {
            return Ok(Some(answers));
        }
        match step_to_change(talk, &steps).await? {
            Some(step) => step.ask(talk, host, &mut answers).await?,
            None => return Ok(None),
        }
    }
}

/// Asks which answers to change; `None` if nothing is to be written.
async fn step_to_change(
    talk: &mut impl Dialogue,
    steps: &[Step],
) -> Result<Option<Step>, Interruption> {
    talk.say("\nWhich answer do you want to change?")?;
    let entries: Vec<Entry> = steps
        .iter()
        .map(|step| Entry::named(step.label()))
        .collect();
    let chosen = choose(talk, &entries, "Enter leaves, and writes nothing", false).await?;
    Ok(match chosen {
        Choice::Entry(index) => steps.get(index).copied(),
        Choice::Skipped | Choice::Other(_) => None,
    })
}

async fn service(talk: &mut impl Dialogue, answers: &mut SetupAnswers) -> Result<(), Interruption> {
    talk.say("\nA service answers chats while no terminal is open.")?;
    let question = "Install the gateway as a service? [y/N] ";
    answers.service = yes(talk, question).await? == Some(true);
    Ok(())
}

fn summarize(answers: &SetupAnswers) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(provider) = &answers.provider {
        let key = match provider.key.as_deref() {
            Some(key) if is_reference(key) => format!(", key {key}"),
            Some(_) => ", key as entered".to_owned(),
            None => String::new(),
        };
        let address = provider
            .api_base
            .as_ref()
            .map(|base| format!(" at {base}"))
            .unwrap_or_default();
        lines.push(format!("provider: {}{address}{key}", provider.name));
    }
    lines.extend(
        answers
            .model
            .as_ref()
            .map(|(_, model)| format!("model: {model}")),
    );
    lines.extend(answers.user.as_ref().map(|user| format!("name: {user}")));
    lines.extend(
        answers
            .zone
            .as_ref()
            .map(|zone| format!("time zone: {zone}")),
    );
    lines.extend(
        answers
            .channel
            .as_ref()
            .map(|channel| format!("chat: {channel}")),
    );
    if answers.service {
        lines.push("service: yes".to_owned());
    }
    if lines.is_empty() {
        lines.push("nothing chosen: missing files are created, settings stay".to_owned());
    }
    lines
}

fn is_reference(key: &str) -> bool {
    key.starts_with("${") && key.ends_with('}')
}

async fn provider_and_model(
    talk: &mut impl Dialogue,
    host: &impl SetupHost,
    answers: &mut SetupAnswers,
) -> Result<(), Interruption> {
    (answers.provider, answers.model) = (None, None);
    let offers = host.providers().await?;
    let configured = host.configured();
    let entries: Vec<Entry> = offers.iter().map(entry_of).collect();
    let enter = match &configured {
        Some((name, _)) => format!("Enter keeps {name}"),
        None => "Enter skips".to_owned(),
    };
    talk.say("\nWhich provider answers?")?;
    let chosen = choose(talk, &entries, &enter, false).await?;
    let offer = match chosen {
        Choice::Entry(index) => offers.get(index),
        Choice::Skipped | Choice::Other(_) => None,
    };
    let (name, trial, usual) = match (offer, configured) {
        (Some(offer), _) => match set_up(talk, host, offer).await? {
            Some((answer, trial)) => {
                let name = answer.name.clone();
                answers.provider = Some(answer);
                (name, trial, offer.default_model.clone())
            }
            None => return Ok(()),
        },
        (None, Some((name, model))) => {
            let kept = ProviderAnswer {
                name: name.clone(),
                ..ProviderAnswer::default()
            };
            match host.try_provider(&kept).await {
                Ok(trial) => (name, trial, model),
                Err(why) => {
                    talk.say(&format!("{name} does not list its models: {why}"))?;
                    return Ok(());
                }
            }
        }
        (None, None) => return Ok(()),
    };
    answers.model = model(talk, name, &trial.models, usual, answers.provider.is_some()).await?;
    Ok(())
}

fn entry_of(offer: &OfferedProvider) -> Entry {
    let label = match (&offer.variable, &offer.api_base) {
        (Some(variable), _) => format!("{} ({variable})", offer.label),
        (None, Some(_)) => format!("{} on this computer", offer.label),
        (None, None) => offer.label.clone(),
    };
    Entry {
        name: offer.name.clone(),
        label,
    }
}

/// Asks for what a provider needs and tries it, until it works; `None` if the user skips it.
async fn set_up(
    talk: &mut impl Dialogue,
    host: &impl SetupHost,
    offer: &OfferedProvider,
) -> Result<Option<(ProviderAnswer, ProviderTrial)>, Interruption> {
    let mut answer = ProviderAnswer {
        name: offer.name.clone(),
        key: offer
            .variable
            .as_ref()
            .map(|variable| format!("${{{variable}}}")),
        api_base: offer.api_base.clone(),
    };
    let is_open_server = !offer.needs_key && offer.api_base.is_none();
    let asks_key = offer.needs_key || is_open_server;
    let mut is_repeated = false;
    loop {
        if is_open_server {
            answer.api_base = address(talk, answer.api_base).await?;
            if answer.api_base.is_none() {
                return skip(talk);
            }
        }
        if asks_key && (answer.key.is_none() || is_repeated) {
            answer.key = key(talk, offer, answer.key).await?;
            if answer.key.is_none() && offer.needs_key && !keeps_key(host, offer) {
                return skip(talk);
            }
        }
        talk.say("Trying it …")?;
        match host.try_provider(&answer).await {
            Ok(trial) => {
                talk.say(if trial.is_checked {
                    "It works."
                } else {
                    "Nothing checked the key."
                })?;
                return Ok(Some((answer, trial)));
            }
            Err(why) => {
                talk.say(&format!("It does not work: {why}"))?;
                talk.say(if is_open_server {
                    "Check the address, the key and the network."
                } else {
                    "Check the key and the network; vendors show keys on their sites."
                })?;
                if !tries_again(talk).await? {
                    if yes(talk, "Keep it anyway? [y/N] ").await? == Some(true) {
                        return Ok(Some((answer, ProviderTrial::default())));
                    }
                    return skip(talk);
                }
                is_repeated = true;
            }
        }
    }
}

/// Asks for the address of a server. Enter keeps an earlier answer; without one it skips.
async fn address(
    talk: &mut impl Dialogue,
    given: Option<String>,
) -> Result<Option<String>, Interruption> {
    let question = match &given {
        Some(base) => format!("Address (Enter: {base}): "),
        None => "Address (http://host:port/v1): ".to_owned(),
    };
    Ok(line(talk, &question).await?.or(given))
}

/// Asks for a key. Enter keeps an earlier answer.
async fn key(
    talk: &mut impl Dialogue,
    offer: &OfferedProvider,
    given: Option<String>,
) -> Result<Option<String>, Interruption> {
    let kept = match given.as_deref() {
        Some(key) if is_reference(key) => format!("; Enter: {key}"),
        Some(_) => "; Enter keeps it".to_owned(),
        None => String::new(),
    };
    let question = format!("Key of {} (it is not shown{kept}): ", offer.label);
    Ok(secret(talk, &question).await?.or(given))
}

async fn tries_again(talk: &mut impl Dialogue) -> Result<bool, Interruption> {
    Ok(yes(talk, "Try again? [Y/n] ").await?.unwrap_or(true))
}

/// `true` if the provider is the configured one, so that its key may stay.
fn keeps_key(host: &impl SetupHost, offer: &OfferedProvider) -> bool {
    host.configured()
        .is_some_and(|(name, _)| name == offer.name)
}

fn skip<T>(talk: &mut impl Dialogue) -> Result<Option<T>, Interruption> {
    talk.say("Skipped.")?;
    Ok(None)
}

/// Asks for the model. `usual` is the default of a new provider, or the configured model.
async fn model(
    talk: &mut impl Dialogue,
    provider: String,
    models: &[String],
    usual: Option<String>,
    is_new: bool,
) -> Result<Option<(String, String)>, Interruption> {
    let is_listed = |name: &String| {
        models.is_empty() || models.iter().any(|model| model.starts_with(name.as_str()))
    };
    let default = usual
        .filter(|name| !is_new || is_listed(name))
        .or_else(|| models.first().cloned());
    let rest = models
        .iter()
        .filter(|model| Some(*model) != default.as_ref());
    let names: Vec<&String> = default.iter().chain(rest).collect();
    let entries: Vec<Entry> = names
        .iter()
        .enumerate()
        .map(|(index, name)| Entry {
            name: (*name).clone(),
            label: match (index, &default) {
                (0, Some(_)) => format!("{name} (default)"),
                _ => (*name).clone(),
            },
        })
        .collect();
    let enter = match &default {
        Some(name) if is_new => format!("Enter takes {name}"),
        Some(name) => format!("Enter keeps {name}"),
        None => "Enter skips".to_owned(),
    };
    talk.say("\nWhich model?")?;
    let chosen = match choose(talk, &entries, &enter, true).await? {
        Choice::Entry(index) => names.get(index).map(|name| (*name).clone()),
        Choice::Other(name) => Some(name),
        Choice::Skipped => default.filter(|_| is_new),
    };
    Ok(chosen.map(|model| (provider, model)))
}

async fn person(
    talk: &mut impl Dialogue,
    host: &impl SetupHost,
    answers: &mut SetupAnswers,
) -> Result<(), Interruption> {
    (answers.user, answers.zone) = (None, None);
    answers.user = line(talk, "\nWhat shall I call you? ").await?;
    loop {
        let question = format!("Your time zone (Enter: {}): ", host.host_zone());
        let Some(name) = line(talk, &question).await? else {
            return Ok(());
        };
        match host.zone(&name) {
            Some(zone) => {
                answers.zone = Some(zone);
                return Ok(());
            }
            None => talk.say("Write an IANA name, such as Europe/Paris.")?,
        }
    }
}

async fn channel(
    talk: &mut impl Dialogue,
    host: &mut impl SetupHost,
    answers: &mut SetupAnswers,
) -> Result<(), Interruption> {
    answers.channel = None;
    let platforms = host.platforms();
    let entries: Vec<Entry> = platforms.iter().map(|name| Entry::named(name)).collect();
    talk.say("\nWhich chat platform?")?;
    let Choice::Entry(index) = choose(talk, &entries, "Enter skips", false).await? else {
        return Ok(());
    };
    let Some(platform) = platforms.get(index) else {
        return Ok(());
    };
    loop {
        let Err(why) = host.log_in(platform).await else {
            answers.channel = Some(platform.clone());
            return Ok(());
        };
        talk.say(&format!("It does not work: {why}"))?;
        if !tries_again(talk).await? {
            return talk
                .say(&format!(
                    "Skipped. Later: nanobot channels login {platform}"
                ))
                .map_err(Interruption::from);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
