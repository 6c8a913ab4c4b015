//! Every command and the gateway, with one more channel (of `custom-channel`), tool and provider.

use std::process::ExitCode;
use std::sync::Arc;

use custom_channel::RelayFactory;
use nanobot_sdk::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Rolls a die that always shows its highest number.
struct LoadedDie;

#[derive(Deserialize, JsonSchema)]
struct Die {
    /// Number of sides.
    sides: u32,
}

impl TypedTool for LoadedDie {
    type Args = Die;
    const NAME: &'static str = "roll_die";
    const DESCRIPTION: &'static str = "Roll a die.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(&self, die: Die, _: &ToolContext) -> Result<String, ToolError> {
        Ok(die.sides.to_string())
    }
}

/// A model that answers everything by rolling the die.
#[derive(Debug)]
struct Gambler(ProviderName);

#[async_trait]
impl Provider for Gambler {
    fn name(&self) -> &ProviderName {
        &self.0
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let event = match request.tool_results().pop() {
            Some(number) => StreamEvent::Text(format!("The die shows {number}.")),
            None => StreamEvent::call(LoadedDie::NAME, &json!({"sides": 6})),
        };
        Ok(complete_answer(vec![event]))
    }
}

fn main() -> ExitCode {
    nanobot_cli::run(|runtime| {
        runtime
            .channel(RelayFactory)
            .tool(Typed::new(LoadedDie).external())
            .provider(provider_factory("gambler", json!({}), |_| {
                Ok(Arc::new(Gambler("gambler".into())))
            }))
    })
}
