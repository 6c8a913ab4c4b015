//! Registry of the available platforms.

use std::collections::BTreeMap;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelFactory, ChannelName, RawConfig};

use crate::{ChannelSettings, ChannelsError, DeliverySettings};

/// Factories of all platforms, built in or added by an embedding program.
#[derive(Clone, Debug, Default)]
pub struct ChannelRegistry {
    factories: BTreeMap<&'static str, Arc<dyn ChannelFactory>>,
}

impl ChannelRegistry {
    /// Creates a registry without platforms.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a platform.
    ///
    /// # Errors
    /// Returns [`ChannelsError::DuplicateKind`] if the kind is taken.
    pub fn register(&mut self, factory: Arc<dyn ChannelFactory>) -> Result<(), ChannelsError> {
        let kind = factory.kind();
        if self.factories.contains_key(kind) {
            return Err(ChannelsError::DuplicateKind { kind });
        }
        self.factories.insert(kind, factory);
        Ok(())
    }

    /// Returns the registered kinds in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.factories.keys().copied()
    }

    /// Returns the factories in alphabetical order of their kinds.
    pub fn factories(&self) -> impl Iterator<Item = &Arc<dyn ChannelFactory>> {
        self.factories.values()
    }

    /// Returns the factory of a kind.
    ///
    /// # Errors
    /// Returns [`ChannelsError::UnknownKind`], which lists the registered kinds.
    pub fn factory(&self, kind: &str) -> Result<&Arc<dyn ChannelFactory>, ChannelsError> {
        self.factories
            .get(kind)
            .ok_or_else(|| ChannelsError::UnknownKind {
                kind: kind.to_owned(),
                known: self.kinds().collect::<Vec<_>>().join(", "),
            })
    }

    /// Creates the channel `name` of a kind. Does no I/O.
    ///
    /// # Errors
    /// Returns [`ChannelsError::UnknownKind`] if the kind is not registered, and
    /// [`ChannelsError::Create`] if the channel rejects its section.
    pub fn create(
        &self,
        kind: &str,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelsError> {
        let factory = self.factory(kind)?;
        factory
            .create(name.clone(), config)
            .map_err(|source| ChannelsError::Create { name, source })
    }

    /// Resolves the settings that the manager needs for the channel `name` of a kind.
    ///
    /// # Errors
    /// Returns [`ChannelsError::UnknownKind`] if the kind is not registered, and
    /// [`ChannelsError::Settings`] if a key has an invalid value.
    pub fn settings(
        &self,
        kind: &str,
        name: &ChannelName,
        shared: &DeliverySettings,
        config: &RawConfig,
    ) -> Result<ChannelSettings, ChannelsError> {
        ChannelSettings::resolve(
            name,
            shared,
            &self.factory(kind)?.default_config(),
            &config.section,
        )
    }
}
