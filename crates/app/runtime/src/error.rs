//! Errors that keep the assistant from starting or running, with their remedies.

use std::io;
use std::path::PathBuf;

use nanobot_agent_core::{AgentError, DuplicateCommand};
use nanobot_approvals::ApprovalError;
use nanobot_bus::BusError;
use nanobot_channel::ChannelName;
use nanobot_channels::{ChannelsError, PairingError};
use nanobot_config::{ConfigError, nearest};
use nanobot_context::ContextError;
use nanobot_control::ControlError;
use nanobot_provider::ProviderConfigError;
use nanobot_providers::{BuildError, KeyError, ListError, ProxyError, SelectError, SignInError};
use nanobot_server::ServerError;
use nanobot_session::SessionError;
use nanobot_state::StateError;
use nanobot_tools::ToolsError;
pub use nanobot_types::{chain, disk_failure, is_disk_failure};

/// Remedy for a full disk, whichever file could not be written.
pub const MAKE_ROOM: &str =
    "Make room on that disk, or raise the limit. Nothing in the home has to be removed or moved.";

/// Remedy if no model is named and none can be chosen.
const NAME_A_MODEL: &str = "Name a model: `nanobot config set agents.defaults.model NAME`. A server of yours has to run to be asked for its models.";

/// An error that is shown to the user at the terminal.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configured model cannot be used.
    #[error("the model cannot be used")]
    Model(#[from] BuildError),
    /// The configuration names an unknown provider.
    #[error("agents.defaults.provider")]
    Provider(#[from] SelectError),
    /// No model is named, and the provider does not list its models.
    #[error("no model is named, and {provider} does not list its models")]
    Listing {
        /// The provider.
        provider: String,
        /// The cause.
        #[source]
        source: ListError,
    },
    /// The configuration names an unknown preset.
    #[error("{key}: {message}")]
    Preset {
        /// The key that names it.
        key: String,
        /// The mistake, and the known presets.
        message: String,
    },
    /// A model that is asked if the first one fails cannot be used.
    #[error("{key} cannot be used")]
    Fallback {
        /// Its configuration key.
        key: String,
        /// The cause.
        #[source]
        source: Box<Self>,
    },
    /// A plugged-in provider refuses its section.
    #[error("providers.{name}")]
    PluggedIn {
        /// The provider.
        name: &'static str,
        /// The key and the cause.
        #[source]
        source: ProviderConfigError,
    },
    /// Two providers have one name, or one has the name of a shipped provider.
    #[error("there is a provider {name:?} already")]
    DuplicateProvider {
        /// The name.
        name: &'static str,
    },
    /// The file of approvals cannot be used.
    #[error(transparent)]
    Approvals(#[from] ApprovalError),
    /// An MCP server cannot be used.
    #[error("tools.mcpServers: {0}")]
    Mcp(String),
    /// A login at a provider failed.
    #[error("{provider}")]
    SignIn {
        /// The provider's display name.
        provider: String,
        /// The cause.
        source: SignInError,
    },
    /// There is no such tool in a file.
    #[error("there is no tool {name:?} in a file")]
    UnknownToolFile {
        /// The name.
        name: String,
    },
    /// An API key is malformed.
    #[error("providers.{section}.apiKey cannot be used")]
    Key {
        /// The section.
        section: String,
        /// The cause.
        #[source]
        source: KeyError,
    },
    /// The time zone is unknown.
    #[error("{key}")]
    Zone {
        /// The key that names it.
        key: &'static str,
        /// The cause.
        #[source]
        source: nanobot_cron::ScheduleError,
    },
    /// The proxy cannot be used.
    #[error("the proxy cannot be used")]
    Proxy(#[from] ProxyError),
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used", path.display())]
    Workspace {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The files of the workspace cannot be created.
    #[error("the workspace cannot be prepared")]
    Context(#[from] ContextError),
    /// The tools are misconfigured.
    #[error("the tools cannot be used")]
    Tools(#[from] ToolsError),
    /// The home is in use, or its state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// Two commands have one name.
    #[error(transparent)]
    Commands(#[from] DuplicateCommand),
    /// The channels are misconfigured.
    #[error(transparent)]
    Channels(#[from] ChannelsError),
    /// The file of pairings cannot be read or changed.
    #[error(transparent)]
    Pairing(#[from] PairingError),
    /// The configuration has no such channel.
    #[error("no channel called `{name}` is configured; there are: {known}")]
    NoChannel {
        /// The name.
        name: ChannelName,
        /// The configured channels.
        known: String,
    },
    /// The health endpoint cannot listen.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The gateway refused the request, or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A process owns the home and does not answer.
    #[error("a gateway{} has this home and does not answer", process(*pid))]
    Silent {
        /// Its process id, if it can be read.
        pid: Option<u32>,
        /// The cause.
        #[source]
        source: ControlError,
    },
    /// The gateway ended before it answered a question.
    #[error("the gateway ended before it answered")]
    GatewayEnded {
        /// The session of the question.
        session: String,
        /// The cause.
        #[source]
        source: ControlError,
    },
    /// The prompt of another process has the session.
    #[error("another prompt{} has the session {session}", process(*pid))]
    SessionInUse {
        /// The session.
        session: String,
        /// The process id of that prompt, if it can be read.
        pid: Option<u32>,
    },
    /// A file cannot be attached to a message.
    #[error("cannot attach {}", path.display())]
    Attachment {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A long message cannot be kept in a file.
    #[error("cannot keep the long message in {}", path.display())]
    Unkept {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The ledger refused the operation, or failed.
    #[error(transparent)]
    Ledger(#[from] BusError),
    /// The conversations cannot be read.
    #[error(transparent)]
    Sessions(#[from] SessionError),
    /// The assistant failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})"))
        .unwrap_or_default()
}

fn silent_remedy(pid: Option<u32>) -> String {
    let end = match pid {
        Some(pid) => format!("`kill {pid}` ends it, `kill -9 {pid}` if that does nothing"),
        None => "end its process".to_owned(),
    };
    format!(
        "Wait if it is just starting. `nanobot gateway logs` shows what it does; {end}. \
         Then start it again with `nanobot gateway`."
    )
}

/// Other names of platforms.
const OTHER_NAMES: [(&str, &str); 4] = [
    ("lark", "feishu"),
    ("wework", "wecom"),
    ("mail", "email"),
    ("imap", "email"),
];

/// Returns the remedy for the name of a platform that is not among `known`.
fn platform_remedy(kind: &str, known: &str) -> String {
    let mut others = OTHER_NAMES.iter();
    let other = others.find(|(other, _)| other.eq_ignore_ascii_case(kind));
    let other = other.map(|(_, name)| (*name).to_owned());
    match other.or_else(|| nearest(kind, known.split(", "))) {
        Some(near) => format!(
            "Did you mean `{near}`? `nanobot channels login {near}` sets it up; a channel with a \
             name of your own needs `--kind {near}`."
        ),
        None => "Name one of these. A channel with a name of your own needs its platform, too: \
                 `nanobot channels login NAME --kind PLATFORM`."
            .to_owned(),
    }
}

impl RuntimeError {
    /// Returns the remedy to suggest.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        if is_disk_failure(self) {
            return Some(MAKE_ROOM.to_owned());
        }
        match self {
            Self::Config(error) => Some(error.remedy()),
            Self::Provider(SelectError::NoModel { .. }) => Some(NAME_A_MODEL.to_owned()),
            Self::Preset { .. } => Some(
                "Write a preset into modelPresets, or name another one; `nanobot config explain modelPresets` shows their keys."
                    .to_owned(),
            ),
            Self::Fallback { source, .. } => source.remedy(),
            Self::Model(_) | Self::Provider(_) | Self::PluggedIn { .. } | Self::Key { .. } => Some(
                "`nanobot config explain agents.defaults` shows which provider is taken and why; \
                 `nanobot agent --demo` works without one."
                    .to_owned(),
            ),
            Self::Listing { .. } => Some(NAME_A_MODEL.to_owned()),
            Self::Workspace { path, .. } => Some(format!(
                "Make {} a folder that you can read and write, or choose another with --workspace or \
                 agents.defaults.workspace.",
                path.display()
            )),
            Self::State(StateError::Owned { pid: Some(pid), .. }) => Some(format!(
                "Stop it with `nanobot gateway stop` (or `kill {pid}`), or use another home: NANOBOT_HOME=/some/folder."
            )),
            Self::State(_) => Some("Check the permissions and the free space of the folder it names.".to_owned()),
            Self::Channels(ChannelsError::UnknownKind { kind, known }) => {
                Some(platform_remedy(kind, known))
            }
            Self::Channels(_) => Some("`nanobot config explain channels` shows what is set and where.".to_owned()),
            Self::NoChannel { name, .. } => {
                Some(format!("`nanobot channels login {name}` sets one up where the platform is known."))
            }
            Self::Agent(_) | Self::Sessions(_) => Some(
                "Check the permissions and the free space of the workspace; `nanobot status` shows where it is."
                    .to_owned(),
            ),
            Self::GatewayEnded { session, .. } => Some(format!(
                "Start it again with `nanobot gateway`: it goes on with a question that it had stored, and the answer is \
                 then in the session {session}; `nanobot agent --session {session}` shows it."
            )),
            Self::SessionInUse { .. } => Some(
                "Continue there, or choose another session with `--session NAME`. While `nanobot gateway` runs, \
                 several prompts share a session; `/restart` makes a prompt that was open before join it."
                    .to_owned(),
            ),
            Self::Silent { pid, .. } => Some(silent_remedy(*pid)),
            Self::Attachment { .. } => Some(
                "Give the path of a regular file that you can read, of at most 20 MiB.".to_owned(),
            ),
            Self::Unkept { .. } => Some("Check the free space of that folder, or attach the text with --file.".to_owned()),
            Self::Control(ControlError::TooLong { .. }) => Some("Save the text to a file, and attach that with --file FILE.".to_owned()),
            Self::Control(_) => Some("Look at the gateway's log, and ask again.".to_owned()),
            Self::Ledger(BusError::Unknown { .. } | BusError::Conflict { .. }) => {
                Some("`nanobot inbox --all` lists every entry with its state.".to_owned())
            }
            Self::Ledger(_) => {
                Some("Check the free space of the folder that holds state.db, and try again.".to_owned())
            }
            Self::Pairing(PairingError::UnknownCode) => {
                Some("`nanobot pairing list` shows who waits; they get a new code when they write again.".to_owned())
            }
            Self::Pairing(_) | Self::Approvals(_) => Some("Look at that file, and at its permissions.".to_owned()),
            Self::Mcp(_) => Some("`nanobot mcp list` shows the servers and their last failures.".to_owned()),
            Self::SignIn { source: SignInError::None(_), .. } => {
                Some("`nanobot provider status` shows the providers with a login.".to_owned())
            }
            Self::SignIn { source: SignInError::Failed(_), .. } => {
                Some("Start the login again; `nanobot provider status` shows the logins.".to_owned())
            }
            Self::SignIn { source: SignInError::Store { .. }, .. } => {
                Some("Check the permissions and the free space of that folder.".to_owned())
            }
            Self::UnknownToolFile { .. } => {
                Some("`nanobot tools list` shows the tools, and why others are not loaded.".to_owned())
            }
            Self::Zone { .. } => Some("Write an IANA name, such as Europe/Paris.".to_owned()),
            Self::DuplicateProvider { .. } | Self::Proxy(_) | Self::Context(_) | Self::Tools(_) | Self::Commands(_) | Self::Server(_) => None,
        }
    }

    /// Returns the exit code of a program that ends with this error: 2 if the configuration has to
    /// change, 1 otherwise.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if is_disk_failure(self) {
            return 1;
        }
        match self {
            Self::Config(
                ConfigError::Write { .. }
                | ConfigError::ChangedOnDisk { .. }
                | ConfigError::NotOurs { .. },
            ) => 1,
            Self::Config(_)
            | Self::Model(_)
            | Self::Provider(_)
            | Self::Preset { .. }
            | Self::Fallback { .. }
            | Self::PluggedIn { .. }
            | Self::Key { .. }
            | Self::Proxy(_)
            | Self::Zone { .. }
            | Self::Tools(_)
            | Self::Channels(_)
            | Self::Workspace { .. }
            | Self::Server(ServerError::Host { .. })
            | Self::Attachment { .. }
            | Self::NoChannel { .. } => 2,
            _ => 1,
        }
    }
}
