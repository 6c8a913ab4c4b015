//! Entry point for other programs: a configuration with everything that is plugged in.
//!
//! Decision: parts are collected before the configuration is read, because they declare its keys.
//! The shipped binaries use the same builder and nothing else.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::ChannelFactory;
use nanobot_config::{Config, ConfigError, Environment};
use nanobot_provider::ProviderFactory;
use nanobot_tool::Tool;
use nanobot_types::Event;

use super::extensions::{EventObserver, Extensions};
use super::load::{self, LoadOptions};
use super::shipped;
use crate::RuntimeError;

/// A loaded configuration together with the channels, tools, providers, skills and observers of
/// the program. Cheap to clone. Nothing runs: [`Gateway::start`](crate::Gateway::start) and
/// [`Terminal::start`](crate::Terminal::start) do.
#[derive(Clone, Debug)]
pub struct Runtime {
    config: Arc<Config>,
    extensions: Arc<Extensions>,
}

impl Runtime {
    /// Starts from a place of configuration and the channels that this build ships.
    #[must_use]
    pub fn builder(config: LoadOptions) -> RuntimeBuilder {
        RuntimeBuilder {
            load: config,
            environment: None,
            channels: shipped::channels(),
            tools: Vec::new(),
            providers: Vec::new(),
            skills: Vec::new(),
            observers: Vec::new(),
        }
    }

    /// The loaded configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    pub(crate) fn shared_extensions(&self) -> Arc<Extensions> {
        self.extensions.clone()
    }

    /// Loads the configuration with this text in place of the file, to check it before it is
    /// written.
    pub(crate) fn with_file_text(&self, text: &str) -> Result<Self, ConfigError> {
        let schema = load::schema(&self.extensions)?;
        let loader = self.config.loader(schema).with_content(text);
        Ok(Self {
            config: Arc::new(loader.load()?),
            extensions: self.extensions.clone(),
        })
    }

    /// Reads the configuration again, from the same place and with the same parts.
    ///
    /// # Errors
    /// Returns [`ConfigError`] if it cannot be used.
    pub fn reload(&self) -> Result<Self, ConfigError> {
        let schema = load::schema(&self.extensions)?;
        Ok(Self {
            config: Arc::new(self.config.loader(schema).load()?),
            extensions: self.extensions.clone(),
        })
    }
}

/// A runtime for tests, in an environment of theirs.
#[cfg(test)]
pub(crate) fn in_environment(environment: Environment, options: LoadOptions) -> Runtime {
    let builder = Runtime::builder(options).environment(environment);
    builder.build().unwrap()
}

/// Collects what a program plugs in.
#[derive(Clone)]
pub struct RuntimeBuilder {
    load: LoadOptions,
    environment: Option<Environment>,
    channels: Vec<Arc<dyn ChannelFactory>>,
    tools: Vec<Arc<dyn Tool>>,
    providers: Vec<Arc<dyn ProviderFactory>>,
    skills: Vec<PathBuf>,
    observers: Vec<EventObserver>,
}

impl RuntimeBuilder {
    /// Adds a chat platform. Its [kind](ChannelFactory::kind) becomes a section of `channels`.
    #[must_use]
    pub fn channel(mut self, factory: impl ChannelFactory + 'static) -> Self {
        self.channels.push(Arc::new(factory));
        self
    }

    /// Adds a tool for the assistant and its subagents.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds a provider of models.
    #[must_use]
    pub fn provider(mut self, factory: impl ProviderFactory + 'static) -> Self {
        self.providers.push(Arc::new(factory));
        self
    }

    /// Adds a library of skills: an absolute path of a folder with one folder per skill. Tools may
    /// read it and never write to it.
    #[must_use]
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> Self {
        self.skills.push(folder.into());
        self
    }

    /// Adds an observer of turns. Events are lossy, see [`EventObserver`].
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Uses an environment other than that of this process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Adds a key with its value to the strongest layer of the configuration.
    #[must_use]
    pub fn with_override(mut self, key: &str, value: &str) -> Self {
        self.load.overrides.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Ignores the content of the configuration file, which is about to be replaced.
    #[must_use]
    pub fn replaces_file(mut self) -> Self {
        self.load.replaces_file = true;
        self
    }

    /// Accepts that the named configuration file does not exist, because it is about to be written.
    #[must_use]
    pub fn may_be_missing(mut self) -> Self {
        self.load.may_be_missing = true;
        self
    }

    /// Returns the location of the configuration and its overrides.
    #[must_use]
    pub fn load_options(&self) -> &LoadOptions {
        &self.load
    }

    /// Loads the configuration. Connects to nothing and writes nothing.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used,
    /// [`RuntimeError::Channels`] or [`RuntimeError::DuplicateProvider`] if two parts have one
    /// name.
    pub fn build(&self) -> Result<Runtime, RuntimeError> {
        let mut extensions = Extensions {
            tools: self.tools.clone(),
            skills: self.skills.clone(),
            observers: self.observers.clone(),
            ..Extensions::default()
        };
        for factory in &self.channels {
            extensions.channels.register(factory.clone())?;
        }
        for factory in &self.providers {
            extensions.add_provider(factory.clone())?;
        }
        let environment = self
            .environment
            .clone()
            .unwrap_or_else(Environment::of_process);
        let config = load::load(&extensions, environment, &self.load)?;
        Ok(Runtime {
            config: Arc::new(config),
            extensions: Arc::new(extensions),
        })
    }
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use nanobot_channel::{Channel, ChannelError, ChannelName, RawConfig};
    use nanobot_provider::{ProviderConfigError, RawProviderConfig, provider_factory};
    use nanobot_testkit::{Reply, ScriptedProvider};
    use serde_json::{Value, json};

    use super::*;
    use crate::assembly::model;
    use crate::{TerminalOptions, ask};

    /// A platform of which nothing is made.
    #[derive(Debug)]
    struct Platform(&'static str);

    #[async_trait]
    impl ChannelFactory for Platform {
        fn kind(&self) -> &'static str {
            self.0
        }

        fn default_config(&self) -> Value {
            json!({"enabled": false})
        }

        fn create(&self, _: ChannelName, _: &RawConfig) -> Result<Arc<dyn Channel>, ChannelError> {
            Err(ChannelError::Unavailable("not built".to_owned()))
        }
    }

    fn provider(name: &'static str) -> impl ProviderFactory {
        provider_factory(name, json!({"apiBase": null}), |_| {
            Ok(Arc::new(ScriptedProvider::answering(|_| Reply::text("hi"))))
        })
    }

    fn builder(home: &std::path::Path, keys: &[(&str, &str)]) -> RuntimeBuilder {
        let environment = Environment::new([], Some(home.to_owned()), home.to_owned());
        let builder = Runtime::builder(LoadOptions::default()).environment(environment);
        keys.iter().fold(builder, |builder, (key, value)| {
            builder.with_override(key, value)
        })
    }

    #[test]
    fn duplicate_names_are_refused() {
        let nowhere = std::path::Path::new("/nowhere");
        let twice = builder(nowhere, &[])
            .channel(Platform("relay"))
            .channel(Platform("relay"));
        let error = twice.build().unwrap_err();
        assert!(matches!(error, RuntimeError::Channels(_)), "{error}");
        for names in [["echo", "echo"], ["echo", "anthropic"]] {
            let builder = names
                .into_iter()
                .fold(builder(nowhere, &[]), |builder, name| {
                    builder.provider(provider(name))
                });
            let error = builder.build().unwrap_err();
            let name = names[1];
            assert!(
                matches!(error, RuntimeError::DuplicateProvider { name: found } if found == name),
                "{error}"
            );
        }
    }

    #[test]
    fn provider_is_selected_by_name_or_model_prefix() {
        let nowhere = std::path::Path::new("/nowhere");
        for (provider_name, model, expected) in [
            ("echo", "any", "any (echo)"),
            ("echo", "echo/any", "any (echo)"),
            ("auto", "echo/any", "any (echo)"),
            ("auto", "echoes/any", "no key is set"),
            ("auto", "any", "no key is set"),
        ] {
            // An address alone makes a section of an unknown name a server; not this one.
            let keys = [
                ("agents.defaults.provider", provider_name),
                ("agents.defaults.model", model),
                ("providers.echo.apiBase", "http://127.0.0.1:1/v1"),
            ];
            let runtime = builder(nowhere, &keys).provider(provider("echo")).build();
            let described = model::describe(&runtime.unwrap()).unwrap();
            assert!(
                described.contains(expected),
                "{provider_name}, {model}: {described}"
            );
        }
    }

    #[tokio::test]
    async fn refused_provider_section_names_its_key() {
        let home = tempfile::tempdir().unwrap();
        let strict = provider_factory(
            "strict",
            json!({"region": ""}),
            |raw: &RawProviderConfig| {
                Err(ProviderConfigError {
                    key: "region".to_owned(),
                    message: format!("{} is unknown", raw.section["region"]),
                })
            },
        );
        let keys = [
            ("agents.defaults.provider", "strict"),
            ("providers.strict.region", "x"),
        ];
        let runtime = builder(home.path(), &keys)
            .provider(strict)
            .build()
            .unwrap();
        let error = model::choose_for_gateway(&runtime).await.unwrap_err();
        let text = crate::chain(&error);
        assert_eq!(text, "providers.strict: region: \"x\" is unknown");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn added_skill_library_is_scanned() {
        let home = tempfile::tempdir().unwrap();
        let library = home.path().join("library-of-mine");
        std::fs::create_dir_all(library.join("tea")).unwrap();
        let text = "---\nname: tea\ndescription: Makes tea.\n---\nBoil water.";
        std::fs::write(library.join("tea/SKILL.md"), text).unwrap();
        let names = |builder: RuntimeBuilder| {
            let skills = crate::skills(&builder.build().unwrap()).unwrap();
            skills
                .scan()
                .into_iter()
                .map(|found| found.name)
                .collect::<Vec<_>>()
        };
        assert!(!names(builder(home.path(), &[])).contains(&"tea".to_owned()));
        let with_library = builder(home.path(), &[]).skills(&library);
        assert!(names(with_library).contains(&"tea".to_owned()));
    }

    #[tokio::test]
    async fn observer_receives_all_events_of_a_turn() {
        crate::install_tls();
        let home = tempfile::tempdir().unwrap();
        let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
        let (observed, keys) = (seen.clone(), [("agents.defaults.provider", "echo")]);
        let runtime = builder(home.path(), &keys)
            .provider(provider("echo"))
            .observer(move |event| observed.lock().unwrap().push(event.clone()))
            .build()
            .unwrap();
        let options = TerminalOptions::default();
        let answer = ask(&runtime, options, "hello".into(), |_, _| {}, |_| {}).await;
        assert!(answer.unwrap().ok);
        let seen = seen.lock().unwrap();
        assert!(
            matches!(seen.first(), Some(Event::TurnStarted { .. })),
            "{seen:?}"
        );
        assert!(
            seen.iter()
                .any(|event| matches!(event, Event::TurnFinished { .. })),
            "{seen:?}"
        );
    }
}
