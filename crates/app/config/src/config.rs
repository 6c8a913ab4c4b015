//! The loaded configuration: four merged layers with the origin of each value.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use figment::Figment;
use figment::value::{Tag, Value as FigmentValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::description::Descriptions;
use crate::document::{self, ConfigDocument, Node};
use crate::draft::{self, ConfigDraft};
use crate::external::ExternalSecret;
use crate::extract::{Extraction, check_classes};
use crate::file::read;
use crate::key::KeyPath;
use crate::layer::{Layer, LayerSource};
use crate::redact::is_named_secret;
use crate::schema::KeyShape;
use crate::{ConfigError, ConfigFinding, Environment, Paths, Schema, ValueOrigin, fold, migrate};

const WORKSPACE_KEY: &str = "agents.defaults.workspace";

/// Collects the sources of a configuration; [`Loader::load`] reads and merges them.
#[derive(Clone, Debug)]
pub struct Loader {
    schema: Schema,
    paths: Paths,
    environment: Environment,
    overrides: Vec<(String, String)>,
    may_be_missing: bool,
    content: Option<Vec<u8>>,
    replaces_file: bool,
}

impl Loader {
    /// Creates a loader of `paths.config_file` for the sections of `schema`.
    #[must_use]
    pub fn new(schema: Schema, paths: Paths, environment: Environment) -> Self {
        Self {
            schema,
            paths,
            environment,
            overrides: Vec::new(),
            may_be_missing: false,
            content: None,
            replaces_file: false,
        }
    }

    /// Uses this text in place of the content of the file, to check it before it is written.
    #[must_use]
    pub fn with_content(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.content = Some(text.into());
        self
    }

    /// Adds a setting of the command line: a dotted key (any spelling) and its text, which is
    /// parsed as the type of the key's default. Later ones take precedence.
    #[must_use]
    pub fn with_override(mut self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.overrides.push((key.into(), text.into()));
        self
    }

    /// Treats a missing file as empty even if it was named explicitly, for callers that are about
    /// to write it.
    #[must_use]
    pub fn may_be_missing(mut self) -> Self {
        self.may_be_missing = true;
        self
    }

    /// Treats the content of the file as empty, for callers that are about to replace it. A save
    /// still keeps a backup of it.
    #[must_use]
    pub fn replaces_file(mut self) -> Self {
        self.replaces_file = true;
        self
    }

    /// Reads the file and merges defaults < file < environment < command line.
    ///
    /// A missing file means defaults, unless it was named explicitly and has to exist. Nothing is
    /// written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not UTF-8 or not a JSON object, or sets one
    /// key to two values, or if an override names a key that does not exist. Types and `${…}`
    /// references are checked by [`Config::section`].
    pub fn load(self) -> Result<Config, ConfigError> {
        let file = self.paths.config_file.clone();
        let (mut shape, descriptions) = self.schema.into_parts();
        let mut findings = Vec::new();
        let original = match self.content {
            Some(content) => Some(content),
            None => read(&file)?,
        };
        if original.is_none() && self.paths.is_explicit() && !self.may_be_missing {
            return Err(ConfigError::Missing { path: file });
        }
        let root = match original.as_deref().filter(|_| !self.replaces_file) {
            Some(bytes) => match document::parse(&file, bytes)? {
                ConfigDocument::Object(node) => Some(node),
                ConfigDocument::Empty => {
                    findings.push(ConfigFinding::EmptyFile {
                        origin: file_start(&file),
                    });
                    None
                }
            },
            None => None,
        };
        let mut root = root.unwrap_or(Node::Object(Vec::new()));
        fold::fold(&mut root, &mut shape, &file, &mut findings)?;
        migrate::migrate(&mut root, &file, &mut findings);
        fold::review(&root, &shape, &file, &mut findings);
        let from_file = Layer::file(fold::values(&root, &shape), &file);
        let from_environment = Layer::environment(&self.environment, &mut shape, &mut findings)?;
        let from_command_line = Layer::command_line(&self.overrides, &mut shape)?;
        let layers = vec![
            Layer::defaults(&shape),
            from_file,
            from_environment,
            from_command_line,
        ];
        let figment = layers.iter().fold(Figment::new(), Figment::merge);
        let merged = figment
            .find_value("")
            .map_err(|error| ConfigError::Defaults {
                section: "(all)".to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Config {
            shape,
            descriptions,
            layers,
            figment,
            merged,
            findings,
            root,
            original,
            paths: self.paths,
            environment: self.environment,
            overrides: self.overrides,
            external: Mutex::default(),
        })
    }
}

fn file_start(file: &Path) -> ValueOrigin {
    ValueOrigin::File {
        path: file.to_path_buf(),
        line: 1,
        column: 1,
    }
}

/// A configuration snapshot that provides typed sections and the origin of every value.
///
/// `Debug` shows the paths and never a value.
pub struct Config {
    pub(crate) shape: KeyShape,
    descriptions: Descriptions,
    /// The layers, in order of increasing precedence.
    pub(crate) layers: Vec<Layer>,
    figment: Figment,
    pub(crate) merged: FigmentValue,
    findings: Vec<ConfigFinding>,
    pub(crate) root: Node,
    original: Option<Vec<u8>>,
    paths: Paths,
    environment: Environment,
    overrides: Vec<(String, String)>,
    /// Secrets outside the file that were resolved, by their reference.
    external: Mutex<BTreeMap<String, Result<String, String>>>,
}

impl Config {
    /// Returns a loader with the same file, environment and command line, for reloading after the
    /// file changed. If the file exists now, a file that is missing then is an error.
    #[must_use]
    pub fn loader(&self, schema: Schema) -> Loader {
        Loader {
            schema,
            paths: self.paths.clone(),
            environment: self.environment.clone(),
            overrides: self.overrides.clone(),
            may_be_missing: !self.has_file(),
            content: None,
            replaces_file: false,
        }
    }

    /// Returns the section at a dotted key, with `${…}`, `file:` and `exec:` references resolved. `T` is the registered
    /// type or any other struct with the fields that the caller needs. A section that is neither
    /// set nor registered is read as an empty object.
    ///
    /// # Errors
    /// Returns [`ConfigError::UnsetVariable`] for a reference to an unset variable,
    /// [`ConfigError::ExternalSecret`] for a file or command that yields no secret, and
    /// [`ConfigError::WrongType`] or [`ConfigError::Unacceptable`] for a value that `T` rejects,
    /// each with file, line and full key.
    pub fn section<T: DeserializeOwned>(&self, key: &str) -> Result<T, ConfigError> {
        self.extraction(key)?.into_typed()
    }

    /// Returns a section of unknown type as JSON, with canonical keys and resolved references, as a
    /// channel's factory receives it. Returns `None` if there is nothing at that key.
    ///
    /// # Errors
    /// Returns the errors of [`Config::section`]; a value is rejected if its JSON type differs from
    /// that of its default.
    pub fn raw(&self, key: &str) -> Result<Option<Value>, ConfigError> {
        let path = self.path(key)?;
        if self.find(&path).is_none() {
            return Ok(None);
        }
        let value: Value = self.extraction(key)?.into_typed()?;
        check_classes(self, &path, &value)?;
        Ok(Some(value))
    }

    /// Returns the sorted names of the sections directly below a key: the configured channels,
    /// providers or MCP servers.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadKey`] if `key` is not a valid key.
    pub fn names(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        let path = self.path(key)?;
        let children = self.find(&path).and_then(FigmentValue::as_dict);
        Ok(children
            .into_iter()
            .flatten()
            .filter(|(_, value)| value.as_dict().is_some())
            .map(|(name, _)| name.clone())
            .collect())
    }

    /// Returns the origin of a key's value: [`ValueOrigin::Default`] if no layer sets it. For a
    /// section it is the layer of highest precedence that sets anything inside it.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadKey`] if `key` is not a valid key.
    pub fn origin(&self, key: &str) -> Result<ValueOrigin, ConfigError> {
        let path = self.path(key)?;
        Ok(self.origin_of(&path))
    }

    /// Returns `true` if any layer above the built-in defaults sets this key.
    ///
    /// # Errors
    /// Returns [`ConfigError::BadKey`] if `key` is not a valid key.
    pub fn is_set(&self, key: &str) -> Result<bool, ConfigError> {
        Ok(self.origin(key)? != ValueOrigin::Default)
    }

    /// Returns the findings about this configuration, in the order of the file.
    #[must_use]
    pub fn findings(&self) -> &[ConfigFinding] {
        &self.findings
    }

    /// Returns the paths of this instance.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// Returns the environment that this configuration was loaded with.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns `true` if the configuration file exists.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.original.is_some()
    }

    /// Returns the absolute path of the workspace: `agents.defaults.workspace`, or the home's
    /// default.
    ///
    /// # Errors
    /// Returns an error if the setting is not text, or refers to a variable that is not set.
    pub fn workspace(&self) -> Result<PathBuf, ConfigError> {
        let path = KeyPath::parse(WORKSPACE_KEY)?;
        if self.find(&path).is_none() {
            return Ok(self.paths.default_workspace.clone());
        }
        let text: String = self.extraction(WORKSPACE_KEY)?.into_typed()?;
        Ok(self.paths.expand(&text))
    }

    /// Returns an editable draft of the file's own content: with older keys migrated, references
    /// unresolved, and nothing from the environment or the command line. A file that does not exist
    /// yet will name its schema (see [`Config::write_schema`]).
    #[must_use]
    pub fn draft(&self) -> ConfigDraft {
        let mut draft = ConfigDraft::new(
            self.paths.config_file.clone(),
            self.original.clone(),
            self.root.clone(),
            self.shape.clone(),
        );
        if !self.has_file() {
            draft.name_schema();
        }
        draft
    }

    /// Copies the configuration file as it was read to `<name>.bak-<time>` in the same folder (of
    /// its target, if it is a link), readable by its owner only and durable when this returns. The
    /// newest backup is returned instead if it has the same content. Returns `None` if there is no
    /// file. A save makes this copy itself; other callers use it before they write elsewhere in a
    /// user's home.
    ///
    /// # Errors
    /// Returns [`ConfigError::Write`] if the system fails.
    pub fn back_up(&self, now: DateTime<Utc>) -> Result<Option<PathBuf>, ConfigError> {
        // Where a save puts it.
        let file = fs::canonicalize(&self.paths.config_file);
        let file = file.unwrap_or_else(|_| self.paths.config_file.clone());
        draft::back_up(&file, self.original.as_deref(), now)
    }

    /// Returns `true` if the home has files of the Python program and this program has no state in
    /// it yet: the time for an [`ImportReport`](crate::ImportReport). A configuration file alone
    /// may have been written for this program.
    #[must_use]
    pub fn is_first_run(&self) -> bool {
        self.has_file() && !self.paths.state_db.exists() && self.has_earlier_files()
    }

    fn has_earlier_files(&self) -> bool {
        let workspace = self
            .workspace()
            .unwrap_or_else(|_| self.paths.default_workspace.clone());
        let in_workspace = [
            "sessions",
            "memory",
            "skills",
            "AGENTS.md",
            "SOUL.md",
            "cron",
        ]
        .map(|name| workspace.join(name));
        let data = &self.paths.data_dir;
        let in_home = [
            data.join("cron"),
            data.join("bridge"),
            data.join("sessions"),
            self.paths.legacy_sessions.clone(),
            self.paths.history.clone(),
        ];
        in_workspace
            .iter()
            .chain(&in_home)
            .any(|path| path.exists())
    }

    /// Resolves the reference of a secret to a file or a command, once for this configuration.
    /// Returns `None` if the text is no such reference.
    pub(crate) fn external_secret(
        &self,
        source: LayerSource,
        path: &KeyPath,
        text: &str,
    ) -> Option<Result<String, String>> {
        if source != LayerSource::File || !is_named_secret(path.parts()) {
            return None;
        }
        let secret = ExternalSecret::parse(text)?;
        let mut resolved = self.external.lock().unwrap_or_else(PoisonError::into_inner);
        let resolve = || secret.resolve(&self.paths, &self.environment);
        Some(
            resolved
                .entry(text.to_owned())
                .or_insert_with(resolve)
                .clone(),
        )
    }

    fn extraction(&self, key: &str) -> Result<Extraction<'_>, ConfigError> {
        let path = self.path(key)?;
        let value = self
            .find(&path)
            .cloned()
            .unwrap_or_else(|| FigmentValue::from(figment::value::Dict::new()));
        Extraction::resolve(self, &path, value)
    }

    pub(crate) fn path(&self, key: &str) -> Result<KeyPath, ConfigError> {
        Ok(self.shape.canonical(&KeyPath::parse(key)?))
    }

    /// Returns the known keys with meanings, types and allowed values.
    pub(crate) fn described(&self) -> &KeyShape {
        self.descriptions.of(&self.shape)
    }

    pub(crate) fn find(&self, path: &KeyPath) -> Option<&FigmentValue> {
        path.parts()
            .iter()
            .try_fold(&self.merged, |value, part| value.as_dict()?.get(part))
    }

    pub(crate) fn source_of(&self, tag: Tag) -> LayerSource {
        let name = self
            .figment
            .get_metadata(tag)
            .map(|layer| layer.name.as_ref());
        self.layers
            .iter()
            .map(|layer| layer.source)
            .find(|source| Some(source.name()) == name)
            .unwrap_or(LayerSource::Defaults)
    }

    /// Returns the origin of a path, which may lead into a list.
    pub(crate) fn origin_of(&self, path: &KeyPath) -> ValueOrigin {
        let mut here = Some(path.clone());
        while let Some(key) = here {
            let layer = self
                .layers
                .iter()
                .rev()
                .find(|layer| layer.value(key.parts()).is_some());
            if let Some(layer) = layer {
                return layer.origin(&key);
            }
            here = key.parent();
        }
        ValueOrigin::Default
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Config")
            .field("paths", &self.paths)
            .field("findings", &self.findings.len())
            .finish_non_exhaustive()
    }
}
