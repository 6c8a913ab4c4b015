//! Makes the parts of an assistant from a configuration and from what the program plugs in.

pub(crate) mod access;
pub(crate) mod assistant;
pub(crate) mod audit;
mod budget;
pub(crate) mod channels;
pub(crate) mod cron;
pub(crate) mod extensions;
pub(crate) mod first_run;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod older_tasks;
pub(crate) mod path_rules;
pub(crate) mod paths;
pub(crate) mod process;
pub(crate) mod prompts;
pub(crate) mod provider_sections;
mod redacting_notes;
pub(crate) mod rotating_file;
pub(crate) mod runtime;
pub(crate) mod secrets;
pub(crate) mod settings;
pub(crate) mod shipped;
pub(crate) mod skills;
pub(crate) mod transcription;
pub(crate) mod without_effect;
