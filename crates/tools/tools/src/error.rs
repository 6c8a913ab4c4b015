//! Configuration errors that an operator has to fix before the tools can be built.

/// Error while building the tools from their configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolsError {
    /// An entry of `denyPatterns` or `allowPatterns` is not a regular expression.
    #[error("tools.exec: '{pattern}' is not a regular expression")]
    Pattern {
        /// The entry.
        pattern: String,
        /// Reason why it is not valid.
        #[source]
        source: regex_lite::Error,
    },
    /// An entry of `ssrfWhitelist` is not a network.
    #[error("tools.ssrfWhitelist: '{network}' is not a network such as 192.168.1.0/24")]
    Network {
        /// The entry.
        network: String,
        /// Reason why it is not valid.
        #[source]
        source: ipnet::AddrParseError,
    },
}
