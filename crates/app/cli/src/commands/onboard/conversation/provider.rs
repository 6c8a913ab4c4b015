//! The step of the provider and its model.
//!
//! Decision: a provider is tried with one cheap request before it is an answer, and the user repeats
//! what does not work, or keeps it anyway.

use nanobot_runtime::{OfferedProvider, ProviderAnswer, ProviderTrial};

use super::{SetupAnswers, SetupHost, tries_again};
use crate::commands::onboard::dialogue::{
    Choice, Dialogue, Entry, Interruption, choose, line, secret, yes,
};

/// Asks which provider answers and with which model. An answer replaces both; Enter keeps what is
/// configured.
///
/// # Errors
/// Returns [`Interruption`] if the user ends the input, or a question cannot be asked.
pub(super) async fn provider_and_model(
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

/// `true` if a key is the reference to a variable of the environment.
pub(super) fn is_reference(key: &str) -> bool {
    key.starts_with("${") && key.ends_with('}')
}
