//! One dependency for programs that embed the agent or add parts to it.
//!
//! Every public contract is a module here, next to the shipped tools and providers; the
//! [`prelude`] has the names that most programs need. Nothing is defined here: a type is the same
//! one, whichever crate it is taken from. A program that wants the whole command line and gateway
//! uses `nanobot-cli` in addition.
//!
//! ```
//! use std::sync::Arc;
//!
//! use nanobot_sdk::prelude::*;
//! use nanobot_sdk::providers::Demo;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = embedded_agent(Arc::new(Demo::new("demo".into())), Registry::new(), ".");
//! let report = agent.process_direct(DirectRequest::new("hello")).await?;
//! assert!(report.visible.is_some());
//! # Ok(())
//! # }
//! ```

mod embed;

pub use nanobot_agent_core as agent;
pub use nanobot_approvals as approvals;
pub use nanobot_bus as bus;
pub use nanobot_channel as channel;
pub use nanobot_context as context;
pub use nanobot_extract as extract;
pub use nanobot_guard as guard;
pub use nanobot_memory as memory;
pub use nanobot_provider as provider;
pub use nanobot_providers as providers;
pub use nanobot_sandbox as sandbox;
pub use nanobot_session as session;
pub use nanobot_skill as skill;
pub use nanobot_tool as tool;
pub use nanobot_tools as tools;
pub use nanobot_types as types;

pub use embed::embedded_agent;

/// The names that most programs need.
pub mod prelude {
    pub use async_trait::async_trait;
    pub use nanobot_agent_core::{Agent, AgentParts, AgentSettings, DirectRequest, Signal};
    pub use nanobot_channel::{Channel, ChannelContext, ChannelError, ChannelFactory, RawConfig};
    pub use nanobot_provider::{
        ChatRequest, ChatStream, Provider, ProviderConfigError, ProviderError, ProviderFactory,
        RawProviderConfig, StreamEvent, complete_answer, provider_factory,
    };
    pub use nanobot_tool::{Registry, Tool, ToolContext, ToolError, Typed, TypedTool};
    pub use nanobot_types::{Effect, FinishReason, ProviderName, Usage};

    pub use crate::{embedded_agent, sandbox};
}
