//! What an operator has to put right before the tools can be built.

/// Why the tools could not be built from their configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// An entry of `denyPatterns` or `allowPatterns` is not a regular expression.
    #[error("tools.exec: '{pattern}' is not a regular expression")]
    Pattern {
        /// The entry.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: regex_lite::Error,
    },
    /// An entry of `ssrfWhitelist` is not a network.
    #[error("tools.ssrfWhitelist: '{network}' is not a network such as 192.168.1.0/24")]
    Network {
        /// The entry.
        network: String,
        /// What is wrong with it.
        #[source]
        source: ipnet::AddrParseError,
    },
}
