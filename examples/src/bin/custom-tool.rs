//! A tool defined by a Rust type: its schema is derived, and its arguments are validated.
//!
//! The model is a script that calls the tool twice, the first time with an unknown unit. The model
//! reads the error and corrects its call.
#![expect(clippy::print_stdout, reason = "the reply goes to the terminal")]

use std::sync::Arc;

use nanobot_sdk::prelude::*;
use nanobot_testkit::{Reply, ScriptedProvider};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// Converts temperatures.
struct ConvertTemperature;

/// Arguments of the tool. The model reads the comments of the fields.
#[derive(Deserialize, JsonSchema)]
struct Temperature {
    /// The temperature in degrees Celsius.
    celsius: f64,
    /// `fahrenheit` or `kelvin`.
    unit: String,
}

impl TypedTool for ConvertTemperature {
    type Args = Temperature;
    const NAME: &'static str = "convert_temperature";
    const DESCRIPTION: &'static str = "Convert a temperature from Celsius.";
    const EFFECT: Effect = Effect::Pure;

    async fn call(&self, arguments: Temperature, _: &ToolContext) -> Result<String, ToolError> {
        let Temperature { celsius, unit } = arguments;
        match unit.as_str() {
            "fahrenheit" => Ok(format!("{:.1} °F", celsius * 9.0 / 5.0 + 32.0)),
            "kelvin" => Ok(format!("{:.2} K", celsius + 273.15)),
            other => Err(ToolError::new(format!("there is no unit {other}"))
                .with_remedy("use fahrenheit or kelvin")),
        }
    }
}

/// Returns a scripted model.
fn model() -> ScriptedProvider {
    ScriptedProvider::answering(|request| {
        let unit = match request.tool_results().pop() {
            None => "rankine",
            Some(result) if result.contains("use fahrenheit") => "fahrenheit",
            Some(result) => return Reply::text(format!("Water boils at {result}.")),
        };
        Reply::call(
            ConvertTemperature::NAME,
            &json!({"celsius": "100", "unit": unit}),
        )
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let tool = Typed::new(ConvertTemperature).external();
    println!("schema: {}", tool.spec().parameters);
    let registry = Registry::new();
    registry.register(Arc::new(tool))?;
    let agent = embedded_agent(Arc::new(model()), registry, ".");
    let report = agent
        .process_direct(DirectRequest::new("When does water boil?"))
        .await?;
    println!("reply: {}", report.visible.unwrap_or_default());
    Ok(())
}
