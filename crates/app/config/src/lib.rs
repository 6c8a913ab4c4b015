//! Layered configuration with provenance.
//!
//! Built-in defaults < `config.json` < environment (`NANOBOT_A__B`) < command line. The crate does
//! not know the types of sections: a program describes its sections with a [`Schema`] (their
//! serialized defaults), loads with a [`Loader`], and requests any section from the [`Config`] as
//! any `Deserialize` type. Every value has an origin, down to the line of the file, which every
//! message includes. The Python program gives the file precedence over the environment; this is
//! deliberately not kept, because there the file written by `onboard` hid every variable.
//!
//! Decisions that are easy to trip over:
//!
//! - `""` and `null` count as absent, except in user data (see [`Schema`] for what that is and for
//!   how keys are spelled).
//! - Two spellings of one key in one object are an error that names both lines if their values
//!   differ, and a finding if they are equal.
//! - Types are strict: text in the file is never a number or a flag. Text that has no type of its
//!   own (environment, command line, a lone `${VARIABLE}`) is parsed as the type that the section
//!   expects; for a flag that is true/false, yes/no, on/off or 1/0.
//! - `${VARIABLE}` is resolved when a section is requested, in values of the file and the command
//!   line, and is never written back. References in values of the environment are not resolved.
//! - An empty file means defaults, with a finding; a broken one is an error. Loading never writes.
//!
//! It does not watch the file, lock it, or create directories other than the file's own on save.
//!
//! ```
//! use nanobot_config::{Environment, Loader, Paths, Schema};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Serialize, Deserialize, PartialEq)]
//! #[serde(rename_all = "camelCase", default)]
//! struct Gateway {
//!     host: String,
//!     port: u16,
//! }
//!
//! impl Default for Gateway {
//!     fn default() -> Self {
//!         Self { host: "127.0.0.1".into(), port: 18790 }
//!     }
//! }
//!
//! # fn main() -> Result<(), nanobot_config::ConfigError> {
//! let variables = [("NANOBOT_GATEWAY__PORT".to_owned(), "8080".to_owned())];
//! let environment = Environment::new(variables, Some("/nowhere".into()), "/".into());
//! let paths = Paths::resolve(&environment, None)?;
//! let schema = Schema::new().section("gateway", &Gateway::default())?;
//! let config = Loader::new(schema, paths, environment).load()?;
//! let gateway: Gateway = config.section("gateway")?;
//! assert_eq!(gateway, Gateway { host: "127.0.0.1".into(), port: 8080 });
//! # Ok(())
//! # }
//! ```

mod config;
mod describe;
mod description;
mod document;
mod draft;
mod edit;
mod environment;
mod error;
mod explain;
mod external;
mod extract;
mod facts;
mod file;
mod finding;
mod fold;
#[doc(hidden)]
pub mod fuzz;
mod import;
mod json_schema;
mod key;
mod layer;
mod migrate;
mod origin;
mod page;
mod paths;
mod redact;
mod reference;
mod registry;
mod running;
mod schema;
mod schema_file;
mod secret;
mod upstream;

pub use config::{Config, Loader};
pub use draft::{ConfigDraft, SavedConfig};
pub use edit::ConfigEdit;
pub use environment::Environment;
pub use error::ConfigError;
pub use explain::{Explanation, LayerValue, VariableReference};
pub use finding::{ConfigFinding, ConfigSeverity};
pub use import::{HomeContents, ImportReport};
pub use key::nearest;
pub use origin::ValueOrigin;
pub use paths::Paths;
pub use running::{RunningProgram, running_python_program};
pub use schema::Schema;
pub use secret::SecretValue;
