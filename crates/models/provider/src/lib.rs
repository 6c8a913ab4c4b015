//! The model provider contract: one stream per request, folded into one response.
//!
//! Decision: [`Provider::stream`] is the only method with logic to write, and the complete response
//! is derived from it. A provider never retries and never fails over: it reports a
//! [`ProviderError`], and only [`ProviderRouter`] decides what follows.
//!
//! ```
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use nanobot_provider::{
//!     CallAccount, CallContext, Candidate, ChatRequest, ChatStream, Generation, Provider, ProviderError,
//!     ProviderRouter, RetryPolicy, StreamEvent, ToolChoice, TurnMemo, complete_answer,
//! };
//! use nanobot_types::{ChatMessage, ProviderName, Transcript};
//!
//! #[derive(Debug)]
//! struct Echo(ProviderName);
//!
//! #[async_trait]
//! impl Provider for Echo {
//!     fn name(&self) -> &ProviderName {
//!         &self.0
//!     }
//!
//!     async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
//!         Ok(complete_answer(vec![StreamEvent::Text(request.last_user_text())]))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let candidate = Candidate {
//!     provider: Arc::new(Echo("echo".into())),
//!     model: "echo".into(),
//!     generation: Generation::default(),
//! };
//! let router = ProviderRouter::new([candidate], RetryPolicy::default());
//! let hello = Arc::new(ChatMessage::user("hello"));
//! let request = ChatRequest {
//!     model: "echo".into(),
//!     system: "".into(),
//!     transcript: Transcript::repair([hello]).transcript,
//!     tools: Arc::new([]),
//!     tool_choice: ToolChoice::None,
//!     generation: Generation::default(),
//!     cache_key: None,
//!     estimated_tokens: None,
//!     memo: TurnMemo::default(),
//! };
//! let context = CallContext {
//!     trace: "example".into(),
//!     deltas: None,
//!     cancel: tokio_util::sync::CancellationToken::new(),
//!     account: CallAccount::default(),
//! };
//! let response = router.chat_with_failover(request, &context).await;
//! assert_eq!(response.content.as_deref(), Some("hello"));
//! # }
//! ```

mod arguments;
mod charge;
mod error;
mod factory;
mod fold;
mod handover;
mod limit;
mod memo;
mod meter;
mod price;
mod request;
mod router;
mod spend;
mod stream;
mod window;

use async_trait::async_trait;
use nanobot_types::{ModelId, ProviderName};

pub use arguments::parse_lenient;
pub use error::{ProviderError, Recovery};
pub use factory::{ProviderConfigError, ProviderFactory, RawProviderConfig, provider_factory};
pub use fold::{Fold, Folded, sanitize_name};
pub use handover::handed_over;
pub use memo::TurnMemo;
pub use meter::{CallAccount, CallPurpose, Consumption, ConsumptionByPurpose, UsageMeter};
pub use price::ModelPrice;
pub use request::{ChatRequest, Generation, ToolChoice};
pub use router::{
    CallContext, Candidate, Cooldown, CooldownKind, CooldownStore, Delta, DeltaSink,
    ProviderRouter, RetryPolicy,
};
pub use spend::{SpendAttempt, SpendLedger, SpendVerdict, Spent, Unlimited};
pub use stream::{ChatStream, StreamEvent, complete_answer};
pub use window::ContextWindow;

/// A model vendor, or a service with a compatible interface.
#[async_trait]
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Returns the name of its entry in the provider table, or the name that the user gave it.
    fn name(&self) -> &ProviderName;

    /// Sends one request. This is one HTTP exchange without retries, except when the vendor rejects
    /// an optional member of the request. Dropping the stream ends the exchange. A stream that ends
    /// without [`StreamEvent::Finished`] was truncated.
    ///
    /// # Errors
    /// Returns the error if the request fails before the first event; later errors come in the
    /// stream.
    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError>;

    /// `true` if the model runs on a machine of the user, which may need minutes to load it and to
    /// read a long prompt. The router waits longer for the first event then
    /// ([`RetryPolicy::local_first`]).
    fn is_local(&self) -> bool {
        false
    }

    /// Returns the context window with which the server runs a model now, which may be far smaller
    /// than the model's own; `None` if the server does not say so, as no vendor does. Takes at most
    /// 2 s. An implementation remembers the answer, so that callers may ask before each request.
    async fn context_window(&self, _model: &ModelId) -> Option<ContextWindow> {
        None
    }
}
