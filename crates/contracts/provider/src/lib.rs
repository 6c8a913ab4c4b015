//! The model provider contract: one stream per request, folded into one response.
//!
//! Decision: [`Provider::stream`] is the only thing to write, and a whole response is derived
//! from it. A provider never retries and never fails over: it says what went wrong as a
//! [`ProviderError`], and [`ProviderRouter`] alone decides what follows.

mod arguments;
mod error;
mod factory;
mod fold;
mod handover;
mod limit;
mod request;
mod router;
mod stream;

use async_trait::async_trait;
use nanobot_types::ProviderName;

pub use error::{ProviderError, Recovery};
pub use factory::{ProviderConfigError, ProviderFactory, RawProviderConfig};
pub use fold::{Fold, Folded};
pub use handover::handed_over;
pub use request::{ChatRequest, Generation, ToolChoice};
pub use router::{CallContext, Candidate, Delta, DeltaSink, ProviderRouter, RetryPolicy};
pub use stream::{ChatStream, StreamEvent};

/// A model vendor, or anything that answers like one.
#[async_trait]
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// Its entry in the provider table, or the name the user gave it.
    fn name(&self) -> &ProviderName;

    /// Sends one request. One HTTP exchange, no retry, unless the vendor refuses a member of the
    /// request that it can do without. Dropping the stream ends the exchange. A stream that ends without [`StreamEvent::Finished`] was cut.
    ///
    /// # Errors
    /// What went wrong before the first event; later errors come in the stream.
    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError>;
}
