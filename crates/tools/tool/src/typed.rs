//! Tools with a Rust type as arguments: the schema is derived, and the arguments are parsed.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use nanobot_types::{Effect, ToolResult, ToolSource, ToolSpec};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::is_required;
use crate::{CallReview, Tool, ToolContext};

/// Reason why a typed tool failed, worded for the model.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    message: String,
    remedy: Option<String>,
}

impl ToolError {
    /// Creates an error with its reason.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            remedy: None,
        }
    }

    /// Adds advice on what to try instead.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// A tool whose arguments are a Rust type. The doc comments of the fields are the descriptions that
/// the model reads. Wrap it in [`Typed`] to get a [`Tool`].
pub trait TypedTool: Send + Sync + 'static {
    /// Type of the arguments.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// Name of the tool.
    const NAME: &'static str;
    /// Description for the model.
    const DESCRIPTION: &'static str;
    /// Effect of running the tool again.
    const EFFECT: Effect;

    /// Describes a call, as [`Tool::review`] does.
    fn review(
        &self,
        arguments: &Value,
        context: &ToolContext,
    ) -> impl Future<Output = CallReview> + Send {
        let _ = (arguments, context);
        std::future::ready(CallReview::of_effect(Self::EFFECT))
    }

    /// Returns the origin of the output of a call, if strangers may have written it.
    fn untrusted_origin(&self, arguments: &Value) -> Option<String> {
        let _ = arguments;
        None
    }

    /// Runs the tool. Errors reach the model as `Error: …`.
    fn call(
        &self,
        arguments: Self::Args,
        context: &ToolContext,
    ) -> impl Future<Output = Result<String, ToolError>> + Send;
}

/// Adapter that makes a [`TypedTool`] a [`Tool`].
pub struct Typed<T> {
    spec: ToolSpec,
    tool: T,
}

impl<T: TypedTool> Typed<T> {
    /// Wraps a tool and derives its schema.
    pub fn new(tool: T) -> Self {
        let spec = ToolSpec {
            name: T::NAME.into(),
            description: T::DESCRIPTION.to_owned(),
            parameters: schema_of::<T::Args>(),
            effect: T::EFFECT,
            source: ToolSource::BuiltIn,
        };
        Self { spec, tool }
    }

    /// Marks the tool as external, so that requests list it after the built-in ones.
    #[must_use]
    pub fn external(mut self) -> Self {
        self.spec.source = ToolSource::External;
        self
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn review(&self, arguments: &Value, context: &ToolContext) -> CallReview {
        self.tool.review(arguments, context).await
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        let untrusted = self.tool.untrusted_origin(&arguments);
        let parsed: T::Args = match serde_json::from_value(arguments) {
            Ok(parsed) => parsed,
            Err(error) => {
                return ToolResult::error(format!(
                    "Error: Invalid parameters for tool '{}': {error}",
                    T::NAME
                ));
            }
        };
        match self.tool.call(parsed, context).await {
            Ok(output) => ToolResult {
                untrusted,
                ..ToolResult::ok(output)
            },
            Err(error) => {
                let result = ToolResult::error(format!("Error: {error}"));
                match error.remedy {
                    Some(remedy) => result.with_remedy(remedy),
                    None => result,
                }
            }
        }
    }
}

/// Derives the schema of a type as vendors expect it: draft 7, subschemas inlined, no titles.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<A>()
        .to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.remove("description");
        object
            .entry("properties")
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    shorten(&mut schema);
    schema
}

/// Removes parts that tell a model nothing but would be in every request: number formats, empty
/// defaults, and `null` as a type of optional members (null counts as omitted).
fn shorten(schema: &mut Value) {
    let whole = schema.clone();
    for (name, property) in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        let is_optional = !is_required(&whole, name);
        if let Some(members) = property.as_object_mut() {
            members.remove("format");
            let is_empty =
                |value: &Value| value.is_null() || *value == false || *value == json!([]);
            if members.get("default").is_some_and(is_empty) {
                members.remove("default");
            }
            if members.get("minimum").is_some_and(|minimum| *minimum == 0) {
                members.remove("minimum");
            }
            if is_optional && let Some(kind) = single_type(members.get("type")) {
                members.insert("type".to_owned(), kind);
            }
        }
        shorten(property);
        if let Some(items) = property.get_mut("items") {
            shorten(items);
        }
    }
}

/// Returns the only type other than null, if there is exactly one.
fn single_type(types: Option<&Value>) -> Option<Value> {
    let others: Vec<&Value> = types?
        .as_array()?
        .iter()
        .filter(|name| **name != "null")
        .collect();
    match others.as_slice() {
        [one] => Some((*one).clone()),
        _ => None,
    }
}
