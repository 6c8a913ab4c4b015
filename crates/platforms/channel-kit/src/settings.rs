//! Configuration keys, declared once.
//!
//! Decision: one declaration per key gives the field, its default, its check, the advice for an
//! unreadable value, the credential with its prompt, the section of a new configuration and the row
//! of the documentation. A platform declares its section by [`settings!`](crate::settings!); checks
//! of several keys together are ordinary code.

use std::ops::RangeInclusive;

use nanobot_channel::{ChannelError, Credential, Map, Value};
use serde_json::json;

use crate::section::camel_case;
use crate::{Secret, wrong};

/// A declared key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its name in camelCase.
    pub name: String,
    /// Its value in a new configuration.
    pub default: Value,
    /// Its meaning, in Markdown.
    pub help: String,
    /// The advice for an unreadable value.
    pub expected: &'static str,
    /// The type and the allowed values, as JSON Schema.
    pub schema: Value,
}

impl Key {
    /// Creates a key from the name of its field, for [`settings!`](crate::settings!).
    #[must_use]
    pub fn new(
        field: &str,
        default: Value,
        help: &[&str],
        expected: &'static str,
        schema: Value,
    ) -> Self {
        let help: Vec<&str> = help.iter().map(|line| line.trim()).collect();
        Self {
            name: camel_case(field),
            default,
            help: help.join(" ").trim_end_matches('.').to_owned(),
            expected,
            schema,
        }
    }

    fn row(&self) -> String {
        let default = match &self.default {
            Value::Null => "–".to_owned(),
            Value::String(text) if text.is_empty() => "–".to_owned(),
            value => {
                let shown = value.to_string();
                format!("`{}`", shown.strip_suffix(".0").unwrap_or(&shown))
            }
        };
        format!("| `{}` | {default} | {} |\n", self.name, self.help)
    }
}

/// Returns the section of a new configuration.
#[must_use]
pub fn default_section(keys: Vec<Key>) -> Map {
    let entries = keys.into_iter().map(|key| (key.name, key.default));
    entries.collect()
}

/// Returns the JSON Schema of a section.
#[must_use]
pub fn section_schema(keys: Vec<Key>) -> Value {
    let property = |key: Key| {
        let mut schema = key.schema;
        if let Some(members) = schema.as_object_mut() {
            members.insert("description".to_owned(), format!("{}.", key.help).into());
        }
        (key.name, schema)
    };
    let properties: Map = keys.into_iter().map(property).collect();
    json!({ "type": "object", "properties": properties })
}

/// Adds a range to the JSON Schema of a value, for [`settings!`](crate::settings!).
#[must_use]
pub fn bounded<T: Setting>(mut schema: Value, range: &RangeInclusive<T>) -> Value {
    if let Some(members) = schema.as_object_mut() {
        members.insert("minimum".to_owned(), range.start().shown());
        members.insert("maximum".to_owned(), range.end().shown());
    }
    schema
}

/// Returns the table of the keys for the documentation.
#[must_use]
pub fn markdown(keys: &[Key]) -> String {
    let rows: String = keys.iter().map(Key::row).collect();
    format!("| key | default | meaning |\n|---|---|---|\n{rows}")
}

/// Fails for a value outside of its range, for [`settings!`](crate::settings!).
///
/// # Errors
/// [`ChannelError::Config`] naming the key.
pub fn check(field: &str, is_within: bool, message: &str) -> Result<(), ChannelError> {
    if is_within {
        Ok(())
    } else {
        Err(wrong(&camel_case(field), message))
    }
}

/// A section of the configuration, as [`settings!`](crate::settings!) declares it.
pub trait ConfigSection: Sized {
    /// Returns the keys of the section, as they are documented.
    fn keys() -> Vec<Key>;

    /// Returns the values that a person is asked for, in the order of their keys.
    fn credentials() -> &'static [Credential];

    /// Reads and checks a section.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    fn from_section(section: &Value) -> Result<Self, ChannelError>;
}

/// Returns the credential of a field, for [`settings!`](crate::settings!). Its name lives as long
/// as the program: call this once per field.
#[must_use]
pub fn credential(
    create: fn(&'static str, &'static str) -> Credential,
    field: &str,
    prompt: &'static str,
) -> Credential {
    create(camel_case(field).leak(), prompt)
}

/// A type of settings.
pub trait Setting {
    /// The advice for a value that does not read.
    const EXPECTED: &'static str;

    /// Returns the value as a new configuration holds it. Secrets are left out.
    fn shown(&self) -> Value;

    /// Returns the type and the allowed values as JSON Schema. By default any value is allowed.
    fn schema() -> Value {
        json!({})
    }
}

macro_rules! setting {
    ($($type:ty: $expected:literal, $schema:tt;)+) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = $expected;

            fn shown(&self) -> Value {
                nanobot_channel::Value::from(Clone::clone(self))
            }

            fn schema() -> Value {
                json!($schema)
            }
        }
    )+};
}

setting! {
    bool: "write true or false", {"type": "boolean"};
    f64: "write a number of seconds", {"type": "number"};
    u8: "write a whole number", {"type": "integer", "minimum": 0, "maximum": 255};
    u16: "write a whole number", {"type": "integer", "minimum": 0, "maximum": 65535};
    u32: "write a whole number", {"type": "integer", "minimum": 0};
    u64: "write a whole number", {"type": "integer", "minimum": 0};
    usize: "write a whole number", {"type": "integer", "minimum": 0};
    String: "write a text in quotes", {"type": "string"};
    Vec<String>: "write a list of texts", {"type": "array", "items": {"type": "string"}};
}

impl Setting for Secret {
    const EXPECTED: &'static str = "write a text in quotes";

    fn shown(&self) -> Value {
        "".into()
    }

    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl Setting for std::path::PathBuf {
    const EXPECTED: &'static str = "write a text in quotes";

    fn shown(&self) -> Value {
        self.to_string_lossy().into()
    }

    fn schema() -> Value {
        json!({"type": "string"})
    }
}

impl<T: Setting> Setting for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn shown(&self) -> Value {
        self.as_ref().map_or(Value::Null, Setting::shown)
    }

    fn schema() -> Value {
        T::schema()
    }
}

/// Declares a section: its struct with [`Default`], and
///
/// - `keys() -> Vec<Key>`: what [`default_section`] and [`markdown`] take,
/// - `read(section) -> Result<Self, ChannelError>`: reads a section and checks the ranges.
///
/// The documentation of a field is its help text. `expects` is the advice for a value that cannot
/// be read, unless it is that of the field's [`Setting`] type; `within` is the range of a value,
/// and the message for one outside of it; `credential` is the kind of a [`Credential`] and its
/// prompt, with `optional` the consequence of leaving it empty, with `unless` the key that replaces
/// it. With `validate` after the struct, checks of several keys follow, and the struct gets
/// `from_section` and implements [`ConfigSection`].
///
/// ```
/// use nanobot_channel::json;
/// use serde::Deserialize;
///
/// nanobot_channel_kit::settings! {
///     /// The settings of one bot.
///     #[derive(Debug, Deserialize)]
///     #[serde(rename_all = "camelCase", default)]
///     pub struct Settings {
///         /// Runs the channel.
///         enabled: bool = false;
///         /// Time that an answer may take, in seconds.
///         request_timeout: f64 = 30.0, within 0.1..=3600.0 => "has to be a number from 0.1 up";
///     }
/// }
///
/// let error = Settings::read(&json::from_str(r#"{"requestTimeout": 0}"#).unwrap()).unwrap_err();
/// assert_eq!(error.to_string(), "requestTimeout: has to be a number from 0.1 up");
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident {$(
            $(#[doc = $help:literal])+
            $field:ident: $type:ty = $default:expr
            $(, expects $expected:literal)?
            $(, within $range:expr => $wrong:literal)?
            $(, credential $kind:ident $prompt:literal
                $(optional $when_empty:literal)? $(unless $other:literal)?)?;
        )+}
        $(validate $validate:path;)?
    ) => {
        $(#[$attribute])*
        $visible struct $name {$(
            $(#[doc = $help])+
            pub $field: $type,
        )+}

        impl Default for $name {
            fn default() -> Self {
                Self {$($field: $default,)+}
            }
        }

        impl $name {
            /// Returns the keys of the section, as they are documented.
            #[must_use]
            $visible fn keys() -> Vec<$crate::settings::Key> {
                let default = Self::default();
                vec![$({
                    let _expected = <$type as $crate::settings::Setting>::EXPECTED;
                    $(let _expected = $expected;)?
                    let _schema = <$type as $crate::settings::Setting>::schema();
                    $(let _schema = $crate::settings::bounded::<$type>(_schema, &($range));)?
                    $crate::settings::Key::new(
                        stringify!($field),
                        $crate::settings::Setting::shown(&default.$field),
                        &[$($help),+],
                        _expected,
                        _schema,
                    )
                }),+]
            }

            /// Reads a section and checks the range of each key. `null` says nothing, unknown keys
            /// are left alone.
            ///
            /// # Errors
            /// [`nanobot_channel::ChannelError::Config`] naming the key.
            fn read(
                section: &nanobot_channel::Value,
            ) -> Result<Self, nanobot_channel::ChannelError> {
                let expected = |name: &str| {
                    let mut keys = Self::keys().into_iter();
                    let key = keys.find(|key| key.name == name);
                    key.map_or("write a text in quotes", |key| key.expected)
                };
                let settings: Self = $crate::read_section(section, expected)?;
                $($($crate::settings::check(
                    stringify!($field),
                    ($range).contains(&settings.$field),
                    $wrong,
                )?;)?)+
                Ok(settings)
            }

            $(
                /// Reads a section and checks it. `null` counts as absent, unknown keys are
                /// ignored.
                ///
                /// # Errors
                /// [`nanobot_channel::ChannelError::Config`] naming the key.
                $visible fn from_section(
                    section: &nanobot_channel::Value,
                ) -> Result<Self, nanobot_channel::ChannelError> {
                    $validate(Self::read(section)?)
                }
            )?
        }

        $crate::settings!(@section $name, [$($validate)?], [$($(
            $kind $field $prompt [$($when_empty)?] [$($other)?],
        )?)+]);
    };
    (@section $name:ident, [], [$($credential:tt)*]) => {};
    (@section $name:ident, [$validate:path], [$(
        $kind:ident $field:ident $prompt:literal [$($when_empty:literal)?] [$($other:literal)?],
    )*]) => {
        impl $crate::settings::ConfigSection for $name {
            fn keys() -> Vec<$crate::settings::Key> {
                Self::keys()
            }

            fn credentials() -> &'static [nanobot_channel::Credential] {
                static CREDENTIALS: std::sync::LazyLock<Vec<nanobot_channel::Credential>> =
                    std::sync::LazyLock::new(|| {
                        vec![$($crate::settings::credential(
                            nanobot_channel::Credential::$kind,
                            stringify!($field),
                            $prompt,
                        )$(.optional($when_empty))?$(.unless($other))?),*]
                    });
                &CREDENTIALS
            }

            fn from_section(
                section: &nanobot_channel::Value,
            ) -> Result<Self, nanobot_channel::ChannelError> {
                Self::from_section(section)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    crate::settings! {
        /// The settings of a test.
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Settings {
            /// Runs the channel.
            enabled: bool = false;
            /// The bot's token.
            token: Secret = Secret::default();
            /// The name of the bot,
            /// as people see it.
            bot_name: Option<String> = Some("bot".to_owned());
            /// Seconds of a poll.
            poll_timeout: u32 = 25, expects "write seconds", within 0..=50 => "has to be up to 50";
            /// Seconds of an answer.
            request_timeout: f64 = 30.0;
        }
    }

    #[test]
    fn declaration_generates_section_and_documentation() {
        assert_eq!(
            Value::Object(default_section(Settings::keys())),
            json!({
                "enabled": false, "token": "", "botName": "bot", "pollTimeout": 25, "requestTimeout": 30.0
            })
        );
        let table = "| key | default | meaning |\n\
                     |---|---|---|\n\
                     | `enabled` | `false` | Runs the channel |\n\
                     | `token` | – | The bot's token |\n\
                     | `botName` | `\"bot\"` | The name of the bot, as people see it |\n\
                     | `pollTimeout` | `25` | Seconds of a poll |\n\
                     | `requestTimeout` | `30` | Seconds of an answer |\n";
        assert_eq!(markdown(&Settings::keys()), table);
        let schema = section_schema(Settings::keys());
        assert_eq!(
            schema["properties"]["pollTimeout"],
            json!({"description": "Seconds of a poll.", "type": "integer", "minimum": 0, "maximum": 50})
        );
    }

    #[test]
    fn values_are_read_and_checked() {
        let read = |section: Value| {
            Settings::read(&section)
                .map(|settings| settings.poll_timeout)
                .map_err(|error| error.to_string())
        };
        let table = [
            (json!({"poll_timeout": 50}), Ok(50)),
            (json!({"pollTimeout": null}), Ok(25)),
            (
                json!({"pollTimeout": 51}),
                Err("pollTimeout: has to be up to 50"),
            ),
            (
                json!({"poll_timeout": "x"}),
                Err("poll_timeout: holds a text that cannot be used here; write seconds"),
            ),
            (
                json!({"enabled": 1}),
                Err("enabled: holds a number that cannot be used here; write true or false"),
            ),
        ];
        for (section, expected) in table {
            assert_eq!(read(section), expected.map_err(str::to_owned));
        }
    }
}
