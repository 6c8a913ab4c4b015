//! Checks the model: whether one is configured, and with `probe` whether it answers.

use std::sync::Arc;

use nanobot_config::Config;
use nanobot_provider::{
    CallAccount, CallContext, CallPurpose, ChatRequest, Generation, ToolChoice, TurnMemo,
};
use nanobot_providers::suggestion;
use nanobot_types::{ChatMessage, FinishReason, ModelId, TraceId, Transcript};
use tokio_util::sync::CancellationToken;

use super::{FindingLevel, FindingList};
use crate::assembly::model::{self, ModelChoice, ModelSource};
use crate::assembly::model_presets::{agent_defaults, other_models};
use crate::assembly::provider_sections::without_vendor;
use crate::assembly::settings::AgentDefaults;
use crate::assembly::spending;
use crate::error::chain;
use crate::{Runtime, RuntimeError};

/// Minimum window that suffices for work with tools, in tokens.
const SMALL_WINDOW: u32 = 16_384;

pub(super) async fn examine(list: &mut FindingList, runtime: &Runtime) {
    let config = runtime.config();
    let defaults = match agent_defaults(config) {
        Ok(defaults) => defaults,
        Err(error) => {
            return list.fault(
                "model.usable",
                chain(&error),
                error.remedy().unwrap_or_default(),
            );
        }
    };
    for section in without_vendor(runtime) {
        list.warn(
            "model.sections",
            format!("providers.{section} has a key, but there is no provider of that name"),
            match suggestion(&section) {
                Some(near) => format!("Rename it to providers.{near}, or set its apiBase."),
                None => "Set its apiBase, or remove it.".to_owned(),
            },
        );
    }
    let choice = match model::choose_for_gateway(runtime).await {
        Ok(choice) => choice,
        Err(error) => {
            let remedy = "Correct agents.defaults.provider, agents.defaults.model and the section of that provider.";
            return list.fault("model.usable", chain(&error), remedy);
        }
    };
    match &choice.source {
        ModelSource::Nobody { why } => {
            let remedy = "Put a key into providers.<name>.apiKey, or start a local server such as Ollama; \
                `nanobot agent --demo` needs neither.";
            return list.fault(
                "model.usable",
                format!("no model can answer: {why}"),
                remedy,
            );
        }
        ModelSource::Demo { .. } => {
            let remedy = Some("Set agents.defaults.model and a key for a real one.".to_owned());
            list.note(
                FindingLevel::Note,
                "model.usable",
                "the demo answers, which is no model",
                remedy,
            );
        }
        _ => list.good("model.usable", format!("{choice} is set up")),
    }
    if let Some(window) = choice.served_window().await {
        let what = format!(
            "the server runs it with a window of {} tokens",
            window.tokens
        );
        match window.tokens {
            ..SMALL_WINDOW => list.warn("model.window", what, window.advice),
            _ => list.good("model.window", what),
        }
    }
    if let Err(error) = other_models(runtime, &defaults) {
        let remedy = "Correct agents.defaults.fallbackModels, or the section of that provider.";
        list.fault("model.fallbacks", chain(&error), remedy);
    }
    if list.doctor.probe {
        probe(list, config, &defaults, &choice).await;
    }
}

async fn probe(
    list: &mut FindingList,
    config: &Config,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) {
    match query_model(config, defaults, choice).await {
        Ok(()) => list.good("model.answers", format!("{choice} answers")),
        Err(why) => {
            let remedy = "Check the key, the address and the name of the model with the vendor.";
            list.fault(
                "model.answers",
                format!("{choice} does not answer: {why}"),
                remedy,
            );
        }
    }
}

/// Asks the configured model a question of a few tokens. Returns the result as a sentence.
pub(crate) async fn probe_model(runtime: &Runtime) -> Result<String, RuntimeError> {
    let config = runtime.config();
    let choice = model::choose_for_gateway(runtime).await?;
    let defaults = agent_defaults(config)?;
    Ok(match query_model(config, &defaults, &choice).await {
        Ok(()) => "it answers".to_owned(),
        Err(why) => format!("it does not answer: {why}"),
    })
}

async fn query_model(
    config: &Config,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) -> Result<(), String> {
    let request = ChatRequest {
        model: ModelId::from(""),
        system: "Answer with one word.".into(),
        transcript: Transcript::repair([Arc::new(ChatMessage::user("Say ok."))]).transcript,
        tools: Arc::new([]),
        tool_choice: ToolChoice::Auto,
        generation: Generation {
            max_tokens: 16,
            ..Generation::default()
        },
        cache_key: None,
        estimated_tokens: None,
        memo: TurnMemo::default(),
    };
    let context = CallContext {
        trace: TraceId::from("doctor"),
        deltas: None,
        cancel: CancellationToken::new(),
        account: CallAccount {
            purpose: CallPurpose::Judgement,
            ..CallAccount::default()
        },
    };
    let mut router =
        model::router_of_one(config, defaults, choice).map_err(|error| chain(&error))?;
    // A new database would mark a home of the Python program as ours.
    let ledger = match config.paths().state_db.exists() {
        true => Some(spending::open(config).map_err(|error| error.to_string())?),
        false => None,
    };
    if let Some(ledger) = &ledger {
        router = router.with_ledger(ledger.clone());
    }
    let response = router.chat_with_failover(request, &context).await;
    if let Some(ledger) = &ledger {
        ledger.close().await;
    }
    match response.finish_reason {
        FinishReason::Error | FinishReason::ContextOverflow => Err(response
            .content
            .unwrap_or_else(|| "it said nothing".to_owned())),
        _ => Ok(()),
    }
}
