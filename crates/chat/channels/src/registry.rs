//! Which platforms there are.

use std::collections::BTreeMap;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelFactory, ChannelName, RawConfig};

use crate::{ChannelSettings, ChannelsError, DeliverySettings};

/// The factories of all platforms, built in or brought along by an embedding program.
#[derive(Clone, Debug, Default)]
pub struct ChannelRegistry {
    factories: BTreeMap<&'static str, Arc<dyn ChannelFactory>>,
}

impl ChannelRegistry {
    /// A registry without platforms.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a platform.
    ///
    /// # Errors
    /// [`ChannelsError::DuplicateKind`] when the kind is taken.
    pub fn register(&mut self, factory: Arc<dyn ChannelFactory>) -> Result<(), ChannelsError> {
        let kind = factory.kind();
        if self.factories.contains_key(kind) {
            return Err(ChannelsError::DuplicateKind { kind });
        }
        self.factories.insert(kind, factory);
        Ok(())
    }

    /// The kinds there are, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.factories.keys().copied()
    }

    /// The factories, in alphabetical order of their kinds.
    pub fn factories(&self) -> impl Iterator<Item = &Arc<dyn ChannelFactory>> {
        self.factories.values()
    }

    /// The factory of a kind.
    ///
    /// # Errors
    /// [`ChannelsError::UnknownKind`], which names the kinds there are.
    pub fn factory(&self, kind: &str) -> Result<&Arc<dyn ChannelFactory>, ChannelsError> {
        self.factories
            .get(kind)
            .ok_or_else(|| ChannelsError::UnknownKind {
                kind: kind.to_owned(),
                known: self.kinds().collect::<Vec<_>>().join(", "),
            })
    }

    /// Makes the channel `name` of a kind. Does no I/O.
    ///
    /// # Errors
    /// [`ChannelsError::UnknownKind`]; [`ChannelsError::Create`] when the channel refuses its section.
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

    /// The settings that the manager needs for the channel `name` of a kind.
    ///
    /// # Errors
    /// [`ChannelsError::UnknownKind`] and [`ChannelsError::Settings`].
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
