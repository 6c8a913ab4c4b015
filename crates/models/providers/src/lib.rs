//! Clients of model vendors, the vendor table, speech to text, and the demo model.
//!
//! From a configuration to a response: [`select`] finds the vendor for a model among the configured
//! sections, [`build`] makes a [`nanobot_provider::Provider`] of it, and a
//! [`nanobot_provider::ProviderRouter`] sends the requests. Each vendor is a row of [`TABLE`];
//! four clients implement the protocols. Nothing is connected, and no certificate loaded, before
//! the first request.
//!
//! async-openai logs frames that are not JSON; a program whose logs must not contain model output
//! should disable its log target.

mod anthropic;
mod body;
mod build_error;
mod cache_view;
mod client;
mod demo;
mod discover;
mod event_stream;
mod factory;
mod fault;
#[doc(hidden)]
pub mod fuzz;
mod key;
mod list;
mod local_window;
mod openai;
mod refusal;
mod render;
mod responses;
mod sent;
mod settings;
mod sign_in;
mod speech;
mod table;

pub use build_error::BuildError;
pub use cache_view::render;
pub use client::{HttpClients, ProxyError};
pub use demo::Demo;
pub use discover::{LOCAL_SERVERS, LocalServer, discover_all, discover_local, discover_within};
pub use factory::{ClientConnection, base_address, build, is_base_address};
pub use key::{ApiKey, KeyError};
pub use list::{ListError, assistant_model, list_models};
pub use render::RenderedMessages;
pub use settings::{ApiType, ProviderSettings};
pub use sign_in::{PendingLogin, SignInError, begin_login, known_tokens, logged_in, logout};
pub use speech::{Speech, SpeechError, SpeechSettings, SpeechTimeouts};
pub use table::{
    CUSTOM, DEMO, ModelRule, ProviderKind, ProviderSpec, Quirks, ReasoningParam, Route, Section,
    SelectError, SelectRule, Selection, SignIn, TABLE, WindowApi, WireProtocol, context_window,
    model_price, preferred, price_date, route, select, suggestion, usable_names,
};
