//! The loaded configuration: four layers merged, each value knowing its layer.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use figment::Figment;
use figment::value::{Tag, Value as FigmentValue};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::document::{self, Document, Node};
use crate::draft::{self, Draft};
use crate::extract::{Extraction, check_classes};
use crate::key::KeyPath;
use crate::layer::{Layer, Source};
use crate::schema::Shape;
use crate::{ConfigError, Environment, Finding, Origin, Paths, Schema, fold, migrate};

const WORKSPACE_KEY: &str = "agents.defaults.workspace";

/// Collects what a configuration is made of; [`Loader::load`] makes it.
#[derive(Clone, Debug)]
pub struct Loader {
    schema: Schema,
    paths: Paths,
    environment: Environment,
    overrides: Vec<(String, String)>,
    may_be_missing: bool,
}

impl Loader {
    /// A loader of `paths.config_file` for the sections of `schema`.
    #[must_use]
    pub fn new(schema: Schema, paths: Paths, environment: Environment) -> Self {
        Self {
            schema,
            paths,
            environment,
            overrides: Vec::new(),
            may_be_missing: false,
        }
    }

    /// Adds a setting of the command line: a dotted key (any spelling) and its text, which is
    /// read as the type of the key's default. Later ones win.
    #[must_use]
    pub fn with_override(mut self, key: impl Into<String>, text: impl Into<String>) -> Self {
        self.overrides.push((key.into(), text.into()));
        self
    }

    /// Takes a file that was named explicitly and does not exist for an empty one: for whoever is
    /// about to write it.
    #[must_use]
    pub fn may_be_missing(mut self) -> Self {
        self.may_be_missing = true;
        self
    }

    /// Reads the file and merges defaults < file < environment < command line.
    ///
    /// A file that does not exist means defaults, unless it was named explicitly and has to be
    /// there. Nothing is written.
    ///
    /// # Errors
    /// When the file cannot be read, is not UTF-8 or not a JSON object, sets one key to two
    /// values, or when an override names a key that does not exist. Types and `${…}` references
    /// are checked by [`Config::section`].
    pub fn load(self) -> Result<Config, ConfigError> {
        let file = self.paths.config_file.clone();
        let mut shape = self.schema.into_root();
        let mut findings = Vec::new();
        let original = read(&file)?;
        if original.is_none() && self.paths.is_explicit() && !self.may_be_missing {
            return Err(ConfigError::Missing { path: file });
        }
        let root = match original.as_deref() {
            Some(bytes) => match document::parse(&file, bytes)? {
                Document::Object(node) => Some(node),
                Document::Empty => {
                    findings.push(Finding::EmptyFile {
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
            layers,
            figment,
            merged,
            findings,
            root,
            original,
            paths: self.paths,
            environment: self.environment,
            overrides: self.overrides,
        })
    }
}

/// The content of a file; `None` if there is no such file.
pub(crate) fn read(file: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Read {
            path: file.to_path_buf(),
            source,
        }),
    }
}

fn file_start(file: &Path) -> Origin {
    Origin::File {
        path: file.to_path_buf(),
        line: 1,
        column: 1,
    }
}

/// A configuration, read once; hands out typed sections and says where every value is from.
///
/// `Debug` shows the paths and never a value.
pub struct Config {
    pub(crate) shape: Shape,
    /// Weakest first.
    pub(crate) layers: Vec<Layer>,
    figment: Figment,
    pub(crate) merged: FigmentValue,
    findings: Vec<Finding>,
    pub(crate) root: Node,
    original: Option<Vec<u8>>,
    paths: Paths,
    environment: Environment,
    overrides: Vec<(String, String)>,
}

impl Config {
    /// What reads the same file with the same environment and command line, for whoever sees that
    /// the file changed. A file that is gone by then is an error if it was there now.
    #[must_use]
    pub fn loader(&self, schema: Schema) -> Loader {
        Loader {
            schema,
            paths: self.paths.clone(),
            environment: self.environment.clone(),
            overrides: self.overrides.clone(),
            may_be_missing: !self.has_file(),
        }
    }

    /// The section at a dotted key, `${…}` references resolved; `T` is what was registered there
    /// or any other struct with the fields that the caller needs. Nothing set and nothing
    /// registered reads as an empty object.
    ///
    /// # Errors
    /// [`ConfigError::UnsetVariable`] for a reference without a variable, and
    /// [`ConfigError::WrongType`] or [`ConfigError::Unacceptable`] for a value that `T` refuses,
    /// each with file, line and full key.
    pub fn section<T: DeserializeOwned>(&self, key: &str) -> Result<T, ConfigError> {
        self.extraction(key)?.into_typed()
    }

    /// A section whose type is not known here, as JSON with canonical keys and references
    /// resolved: what a channel's factory is given. `None` if there is nothing at that key.
    ///
    /// # Errors
    /// As [`Config::section`]; a value is refused if its JSON type is not the default's.
    pub fn raw(&self, key: &str) -> Result<Option<Value>, ConfigError> {
        let path = self.path(key)?;
        if self.find(&path).is_none() {
            return Ok(None);
        }
        let value: Value = self.extraction(key)?.into_typed()?;
        check_classes(self, &path, &value)?;
        Ok(Some(value))
    }

    /// The names of the sections directly under a key, in order: the configured channels,
    /// providers, MCP servers.
    ///
    /// # Errors
    /// [`ConfigError::BadKey`] if `key` cannot be a key.
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

    /// Who set a key: [`Origin::Default`] when nobody did. For a section it is the strongest
    /// layer that says anything inside it.
    ///
    /// # Errors
    /// [`ConfigError::BadKey`] if `key` cannot be a key.
    pub fn origin(&self, key: &str) -> Result<Origin, ConfigError> {
        let path = self.path(key)?;
        Ok(self.origin_of(&path))
    }

    /// Whether any layer above the built-in defaults sets this key.
    ///
    /// # Errors
    /// [`ConfigError::BadKey`] if `key` cannot be a key.
    pub fn is_set(&self, key: &str) -> Result<bool, ConfigError> {
        Ok(self.origin(key)? != Origin::Default)
    }

    /// What is worth saying about this configuration, in the order of the file.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Where things are on disk.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The environment that this was loaded with.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Whether the configuration file exists.
    #[must_use]
    pub fn has_file(&self) -> bool {
        self.original.is_some()
    }

    /// The workspace, absolute: `agents.defaults.workspace`, else the home's own.
    ///
    /// # Errors
    /// When the setting is not text, or refers to a variable that is not set.
    pub fn workspace(&self) -> Result<PathBuf, ConfigError> {
        let path = KeyPath::parse(WORKSPACE_KEY)?;
        if self.find(&path).is_none() {
            return Ok(self.paths.default_workspace.clone());
        }
        let text: String = self.extraction(WORKSPACE_KEY)?.into_typed()?;
        Ok(self.paths.expand(&text))
    }

    /// The file's own content, to be changed and saved: older keys migrated, references as
    /// written, nothing from the environment or the command line.
    #[must_use]
    pub fn draft(&self) -> Draft {
        Draft::new(
            self.paths.config_file.clone(),
            self.original.clone(),
            self.root.clone(),
            self.shape.clone(),
        )
    }

    /// Copies the configuration file as it was read to `<name>.bak-<time>` beside it, readable by
    /// its owner only and on disk when this returns; `None` if there is no file. A save does this
    /// by itself; this is for whoever is about to write elsewhere in somebody's home.
    ///
    /// # Errors
    /// [`ConfigError::Write`] from the system.
    pub fn back_up(&self, now: DateTime<Utc>) -> Result<Option<PathBuf>, ConfigError> {
        draft::back_up(&self.paths.config_file, self.original.as_deref(), now)
    }

    /// Whether somebody's configuration is here and this program never kept state beside it: the
    /// moment for an [`ImportReport`](crate::ImportReport).
    #[must_use]
    pub fn is_first_run(&self) -> bool {
        self.has_file() && !self.paths.state_db.exists()
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

    pub(crate) fn find(&self, path: &KeyPath) -> Option<&FigmentValue> {
        path.parts()
            .iter()
            .try_fold(&self.merged, |value, part| value.as_dict()?.get(part))
    }

    pub(crate) fn source_of(&self, tag: Tag) -> Source {
        let name = self
            .figment
            .get_metadata(tag)
            .map(|layer| layer.name.as_ref());
        self.layers
            .iter()
            .map(|layer| layer.source)
            .find(|source| Some(source.name()) == name)
            .unwrap_or(Source::Defaults)
    }

    /// The origin of a path, which may lead into a list.
    pub(crate) fn origin_of(&self, path: &KeyPath) -> Origin {
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
        Origin::Default
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
