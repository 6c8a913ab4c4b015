//! Tools written against a Rust type: the schema is derived, the arguments arrive parsed.

use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use nanobot_types::{Effect, ToolResult, ToolSource, ToolSpec};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::schema::is_required;
use crate::{Tool, ToolContext};

/// Why a typed tool did not do what was asked, in words for the model.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    message: String,
    remedy: Option<String>,
}

impl ToolError {
    /// An error with its reason.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            remedy: None,
        }
    }

    /// The same with advice what to try instead.
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

/// A tool whose arguments are a Rust type. Doc comments of the fields are the descriptions that
/// the model reads. Wrap it in [`Typed`] to get a [`Tool`].
pub trait TypedTool: Send + Sync + 'static {
    /// Its arguments.
    type Args: DeserializeOwned + JsonSchema + Send;
    /// Its name.
    const NAME: &'static str;
    /// What it does, for the model.
    const DESCRIPTION: &'static str;
    /// What running it again would do.
    const EFFECT: Effect;

    /// Runs it. Errors reach the model as `Error: …`.
    fn call(
        &self,
        arguments: Self::Args,
        context: &ToolContext,
    ) -> impl Future<Output = Result<String, ToolError>> + Send;
}

/// A [`TypedTool`] as a [`Tool`].
pub struct Typed<T> {
    spec: ToolSpec,
    tool: T,
}

impl<T: TypedTool> Typed<T> {
    /// Derives the schema once.
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

    /// The same tool, standing behind the built-in ones in a request.
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

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
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
            Ok(output) => ToolResult::ok(output),
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

/// The schema of a type as vendors want it: draft 7, nothing referenced, no titles.
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

/// Takes out what tells a model nothing and stands in every request: formats of numbers, defaults that
/// are empty, and that what may be left out may be null as well (which counts as left out).
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

/// The one type besides null.
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
