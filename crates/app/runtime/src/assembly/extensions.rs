//! Parts that a program plugs in, the shipped ones among them.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_bus::EventFeed;
use nanobot_channels::ChannelRegistry;
use nanobot_provider::ProviderFactory;
use nanobot_tool::Tool;
use nanobot_types::Event;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::RuntimeError;
use crate::assembly::settings::AgentDefaults;

/// Receives events of turns. Called from one task, in order; a slow observer loses the oldest
/// events and delays nothing.
pub type EventObserver = Arc<dyn Fn(&Event) + Send + Sync>;

/// Channels, tools, providers, skills and observers of a program.
#[derive(Clone, Default)]
pub(crate) struct Extensions {
    pub(crate) channels: ChannelRegistry,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) providers: Vec<Arc<dyn ProviderFactory>>,
    /// Folders of skills, in addition to `skills.libraryDirs`.
    pub(crate) skills: Vec<PathBuf>,
    pub(crate) observers: Vec<EventObserver>,
}

impl Extensions {
    /// Every platform with the section of a new configuration.
    pub(crate) fn channel_defaults(&self) -> Vec<(&'static str, Value)> {
        let factories = self.channels.factories();
        factories
            .map(|factory| (factory.kind(), factory.default_config()))
            .collect()
    }

    /// `true` if everyone may use a platform unless its section says otherwise.
    pub(crate) fn is_open_by_default(&self, kind: &str) -> bool {
        let is_open = |section: &Value| {
            section
                .get("allowFrom")
                .and_then(Value::as_array)
                .is_some_and(|ids| ids.contains(&"*".into()))
        };
        self.channel_defaults()
            .iter()
            .any(|(known, section)| *known == kind && is_open(section))
    }

    /// Adds a provider.
    pub(crate) fn add_provider(
        &mut self,
        factory: Arc<dyn ProviderFactory>,
    ) -> Result<(), RuntimeError> {
        let name = factory.name();
        let is_taken = self.providers.iter().any(|known| known.name() == name)
            || nanobot_providers::ProviderSpec::find(name).is_some();
        if is_taken {
            return Err(RuntimeError::DuplicateProvider { name });
        }
        self.providers.push(factory);
        Ok(())
    }

    /// The plugged-in provider that the configuration selects, by name or by the prefix of its
    /// model, and the model without that prefix.
    pub(crate) fn selected_provider<'a>(
        &self,
        defaults: &'a AgentDefaults,
    ) -> Option<(&Arc<dyn ProviderFactory>, &'a str)> {
        let (model, provider) = (defaults.model.as_str(), defaults.provider.as_str());
        let prefixed = |name: &str| model.strip_prefix(name)?.strip_prefix('/');
        let is_automatic = provider.is_empty() || provider == "auto";
        self.providers.iter().find_map(|factory| {
            let name = factory.name();
            let is_selected = match is_automatic {
                true => prefixed(name).is_some(),
                false => provider == name,
            };
            is_selected.then(|| (factory, prefixed(name).unwrap_or(model)))
        })
    }

    /// Hands the events of a feed to the observers, from now until the result is finished or
    /// dropped.
    pub(crate) fn observe(self: Arc<Self>, events: &EventFeed) -> Observation {
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        if !self.observers.is_empty() {
            tasks.spawn(self.forward_events(events.subscribe(), end.clone()));
        }
        tasks.close();
        Observation {
            tasks,
            end: end.drop_guard(),
        }
    }

    async fn forward_events(self: Arc<Self>, mut events: Receiver<Event>, end: CancellationToken) {
        let forward_events =
            |event: &Event| self.observers.iter().for_each(|observer| observer(event));
        let all = async {
            loop {
                match events.recv().await {
                    Ok(event) => forward_events(&event),
                    // Too slow: the oldest events are lost.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        };
        end.run_until_cancelled(all).await;
        // The last turn may have ended just now.
        loop {
            match events.try_recv() {
                Ok(event) => forward_events(&event),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }
}

/// Observers at work.
#[derive(Debug)]
pub(crate) struct Observation {
    tasks: TaskTracker,
    end: DropGuard,
}

impl Observation {
    /// Hands over the events that were sent until now, then ends.
    pub(crate) async fn finish(self) {
        drop(self.end);
        self.tasks.wait().await;
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            channels,
            tools,
            providers,
            skills,
            observers,
        } = self;
        f.debug_struct("Extensions")
            .field("channels", channels)
            .field("tools", tools)
            .field("providers", providers)
            .field("skills", skills)
            .field("observers", &observers.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{Arrival, RawConfig};
    use nanobot_channels::{AccessVerdict, DeliverySettings};
    use nanobot_config::Environment;

    use crate::assembly::load::LoadOptions;
    use crate::assembly::runtime::in_environment;

    #[test]
    fn default_sections_admit_no_stranger() {
        let runtime = in_environment(
            Environment::new([], Some("/nowhere".into()), "/".into()),
            LoadOptions::default(),
        );
        let extensions = runtime.extensions();
        for (kind, section) in extensions.channel_defaults() {
            let shared = DeliverySettings::default();
            let settings = extensions
                .channels
                .settings(kind, &kind.into(), &shared, &RawConfig::new(section))
                .unwrap();
            let arrivals = [
                Arrival::direct(),
                Arrival::group(true),
                Arrival::group(false),
            ];
            let is_open = arrivals.iter().any(|arrival| {
                let (stranger, chat) = ("stranger".into(), "somewhere".into());
                let verdict = settings.access.judge(&stranger, &chat, arrival, false);
                verdict == AccessVerdict::Allowed
            });
            // Clients of this one authenticate with its token.
            assert_eq!(is_open, kind == "websocket", "{kind}");
        }
    }
}
