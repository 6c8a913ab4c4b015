//! The setup conversation: its steps, without a terminal or a network of its own.
//!
//! Decision: it only collects answers. The caller writes all of them at the end, so that an
//! interruption at any step leaves everything as it was.

mod provider;

use nanobot_runtime::{OfferedProvider, ProviderAnswer, ProviderTrial};

use self::provider::{is_reference, provider_and_model};
use super::dialogue::{Choice, Dialogue, Entry, Interruption, choose, line, yes};

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

async fn tries_again(talk: &mut impl Dialogue) -> Result<bool, Interruption> {
    Ok(yes(talk, "Try again? [Y/n] ").await?.unwrap_or(true))
}

#[cfg(test)]
mod tests;
