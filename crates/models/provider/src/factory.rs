//! Providers that a program makes from its configuration.

use std::sync::Arc;

use serde_json::Value;

use crate::Provider;

/// Makes a provider from a section of the configuration. A program that has a provider of its own
/// registers a factory; an embedding program that builds its router itself needs none.
pub trait ProviderFactory: Send + Sync + std::fmt::Debug {
    /// Name of its section under `providers`, in lower case. `agents.defaults.provider` selects it
    /// by this name, and so does the prefix `name/` of a model.
    fn name(&self) -> &'static str;

    /// Section of a new configuration: an object with every key that the provider reads, in
    /// camelCase, and its default. Keys that hold secrets are named so (`apiKey`, `token`).
    fn default_config(&self) -> Value;

    /// Makes the provider. Opens nothing: the first request connects.
    ///
    /// # Errors
    /// Returns [`ProviderConfigError`] if the section cannot be used.
    fn create(&self, config: &RawProviderConfig) -> Result<Arc<dyn Provider>, ProviderConfigError>;
}

/// Section of a provider with the defaults filled in, and settings of all providers.
#[derive(Clone)]
pub struct RawProviderConfig {
    /// The section, keys in camelCase, references to environment variables resolved.
    pub section: Value,
    /// Proxy for all HTTP clients; `None` if none is configured, empty to ignore the environment's.
    pub proxy: Option<String>,
}

impl std::fmt::Debug for RawProviderConfig {
    /// Leaves the section out, because it holds secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawProviderConfig").finish_non_exhaustive()
    }
}

/// A section of a provider that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct ProviderConfigError {
    /// Key within the section.
    pub key: String,
    /// What is wrong with it and what to write instead.
    pub message: String,
}

/// Makes a factory of a function, for a provider that needs no type of its own: `default_config`
/// is the section of a new configuration.
#[must_use]
pub fn provider_factory<F>(
    name: &'static str,
    default_config: Value,
    create: F,
) -> impl ProviderFactory
where
    F: Fn(&RawProviderConfig) -> Result<Arc<dyn Provider>, ProviderConfigError>
        + Send
        + Sync
        + 'static,
{
    FactoryFn {
        name,
        default_config,
        create,
    }
}

struct FactoryFn<F> {
    name: &'static str,
    default_config: Value,
    create: F,
}

impl<F> std::fmt::Debug for FactoryFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FactoryFn")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<F> ProviderFactory for FactoryFn<F>
where
    F: Fn(&RawProviderConfig) -> Result<Arc<dyn Provider>, ProviderConfigError>
        + Send
        + Sync
        + 'static,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn default_config(&self) -> Value {
        self.default_config.clone()
    }

    fn create(&self, config: &RawProviderConfig) -> Result<Arc<dyn Provider>, ProviderConfigError> {
        (self.create)(config)
    }
}
