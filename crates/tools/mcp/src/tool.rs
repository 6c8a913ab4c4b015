//! A tool of a server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use nanobot_tool::{CallReview, Tool, ToolContext};
use nanobot_types::{ToolResult, ToolSource, ToolSpec};
use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::server::{CallFailure, Server};
use crate::session::RequestFailure;

/// A tool of a server, with the definition that was approved.
#[derive(Debug)]
pub(crate) struct McpTool {
    spec: ToolSpec,
    pub(crate) definition: Definition,
    /// `true` if requests do not list it.
    pub(crate) is_deferred: bool,
    server: Weak<Server>,
    is_withheld: AtomicBool,
}

impl McpTool {
    pub(crate) fn new(
        name: String,
        definition: Definition,
        server: &Arc<Server>,
        is_deferred: bool,
    ) -> Self {
        let spec = ToolSpec {
            name: name.into(),
            description: definition.description.clone(),
            parameters: definition.schema.clone(),
            effect: definition.effect,
            source: ToolSource::External,
        };
        Self {
            spec,
            definition,
            is_deferred,
            server: Arc::downgrade(server),
            is_withheld: AtomicBool::new(false),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.spec.name.as_str()
    }

    /// Refuses calls, or allows them again.
    pub(crate) fn withhold(&self, is_withheld: bool) {
        self.is_withheld.store(is_withheld, Ordering::Relaxed);
    }

    /// `true` if calls are refused because the definition changed.
    pub(crate) fn is_withheld(&self) -> bool {
        self.is_withheld.load(Ordering::Relaxed)
    }

    fn withheld(&self, server: &str) -> ToolResult {
        ToolResult::error(format!(
            "Error: the MCP server {server} changed the definition of this tool. It is withheld until the \
             operator has read the change and approved it with: nanobot mcp approve {}",
            nanobot_escape::shell_word(server)
        ))
    }
}

impl McpTool {
    async fn connect_and_call(
        &self,
        server: &Arc<Server>,
        arguments: Map<String, Value>,
    ) -> ToolResult {
        // Connecting may show that the server changed the definition.
        if let Err(error) = server.session().await {
            return failed(server, &CallFailure::Unavailable(error));
        }
        if self.is_withheld() {
            return self.withheld(&server.name);
        }
        match server.call(&self.definition, arguments).await {
            Ok(answer) => answer.into_result().from_strangers(self.name()),
            Err(failure) => failed(server, &failure),
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn review(&self, _: &Value, _: &ToolContext) -> CallReview {
        let server = self.server.upgrade();
        CallReview {
            destination: server.map(|server| format!("the MCP server {}", server.name)),
            ..CallReview::of_effect(self.spec.effect)
        }
        .with_rule("any arguments")
    }

    async fn execute(&self, arguments: Value, context: &ToolContext) -> ToolResult {
        let Some(server) = self.server.upgrade() else {
            return ToolResult::error("Error: the MCP server is not configured any more");
        };
        if self.is_withheld() {
            return self.withheld(&server.name);
        }
        let text = arguments.to_string();
        if *server.shared.secrets.redact(&text) != *text {
            return ToolResult::error(
                "Error: an argument contains a secret of the configuration, which is not sent to an MCP server",
            );
        }
        let Value::Object(arguments) = arguments else {
            return ToolResult::error("Error: the arguments are no object");
        };
        let call = self.connect_and_call(&server, arguments);
        match context.cancel.run_until_cancelled(call).await {
            None => ToolResult::error("Error: cancelled"),
            Some(result) => result,
        }
    }
}

fn failed(server: &Server, failure: &CallFailure) -> ToolResult {
    let seconds = server.config.timeout().as_secs();
    let text = match failure {
        CallFailure::Timeout => format!("(MCP tool call timed out after {seconds}s)"),
        CallFailure::Request(RequestFailure::Cancelled) => {
            "(MCP tool call was cancelled)".to_owned()
        }
        CallFailure::Request(RequestFailure::NotSent) => {
            "(MCP tool call failed: ConnectionLost: it did not run)".to_owned()
        }
        CallFailure::Request(RequestFailure::Lost) => {
            "(MCP tool call failed: ConnectionLost: it may have run)".to_owned()
        }
        CallFailure::Request(RequestFailure::Refused(reason)) => {
            format!("(MCP tool call failed: McpError: {reason})")
        }
        CallFailure::Unavailable(error) => {
            format!("(MCP tool call failed: ServerUnavailable: {error})")
        }
    };
    let result = ToolResult::error(text);
    let did_not_run = matches!(
        failure,
        CallFailure::Unavailable(_) | CallFailure::Request(RequestFailure::NotSent)
    );
    ToolResult {
        should_retry: did_not_run,
        ..result
    }
}
