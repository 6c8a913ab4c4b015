//! Tables of the Python program's keys that this program does not read itself.
//!
//! There are two kinds: keys of its later releases that are accepted and kept, and older keys with
//! their successors. They are tables and not code, so that a new section only has to be registered.

/// Keys that are kept and not reported as unknown; a registered section takes precedence. `*` is
/// any entry of a map.
pub(crate) const NOT_READ: &[&str] = &[
    "agents.defaults.contextBlockLimit",
    "agents.defaults.maxConcurrentSubagents",
    "agents.defaults.failOnToolError",
    "agents.defaults.maxToolResultChars",
    "agents.defaults.providerRetryMode",
    "agents.defaults.toolHintMaxLength",
    "agents.defaults.timezoneMode",
    "agents.defaults.botName",
    "agents.defaults.botIcon",
    "agents.defaults.unifiedSession",
    "agents.defaults.disabledSkills",
    "agents.defaults.idleCompactAfterMinutes",
    "agents.defaults.idleCompactCheckIntervalSeconds",
    "agents.defaults.consolidationRatio",
    "agents.defaults.dream",
    "providers.*.region",
    "providers.*.profile",
    "transcription",
    "api",
    "gateway.restartMode",
    "gateway.heartbeat.enabled",
    "gateway.heartbeat.intervalS",
    "gateway.heartbeat.keepRecentMessages",
    "channels.sendProgress",
    "channels.sendToolHints",
    "channels.showReasoning",
    "channels.sendMaxRetries",
    "channels.extractDocumentText",
    "channels.dingtalk",
    "channels.discord",
    "channels.email",
    "channels.feishu",
    "channels.feishu.instanceId",
    "channels.feishu.name",
    "channels.feishu.identityKey",
    "channels.matrix",
    "channels.matrix.maxConcurrentMediaDownloads",
    "channels.mattermost",
    "channels.mochat",
    "channels.msteams",
    "channels.napcat",
    "channels.qq",
    "channels.signal",
    "channels.slack",
    "channels.slack.webhookPath",
    "channels.slack.userTokenReadOnly",
    "channels.telegram",
    "channels.websocket",
    "channels.wecom",
    "channels.weixin",
    "channels.whatsapp",
    "channels.whatsapp.databasePath",
    "channels.whatsapp.lidMappings",
    "tools.web.enable",
    "tools.web.userAgent",
    "tools.web.search.timeout",
    "tools.web.fetch",
    "tools.exec.enable",
    "tools.exec.pathPrepend",
    "tools.exec.sandbox",
    "tools.exec.sandboxRoBinds",
    "tools.exec.sandboxRwBinds",
    "tools.exec.allowedEnvKeys",
    "tools.exec.allowPatterns",
    "tools.exec.denyPatterns",
    "tools.file",
    "tools.cliApps",
    "tools.my",
    "tools.imageGeneration",
    "tools.maxSessionMessagesPerMinute",
    "tools.webuiAllowLocalServiceAccess",
    "tools.webuiAllowRemotePackageInstall",
    "tools.ssrfWhitelist",
    "tools.mcpServers",
    "tools.mcpServers.*.auth",
    "tools.mcpServers.*.cwd",
];

/// Meanings of those keys of [`NOT_READ`] that no section of this program has.
pub(crate) const MEANINGS: &[(&str, &str)] = &[
    (
        "agents.defaults.contextBlockLimit",
        "Limit of the conversation in a request of the Python program, in tokens. Here the context window decides.",
    ),
    (
        "agents.defaults.failOnToolError",
        "Ends a subagent of the Python program when a tool fails. Here the model reads the error and goes on.",
    ),
    (
        "agents.defaults.providerRetryMode",
        "Retries of the Python program after an error of the provider. Here they are always limited.",
    ),
    (
        "agents.defaults.toolHintMaxLength",
        "Length of the lines about running tools in the Python program.",
    ),
    (
        "agents.defaults.timezoneMode",
        "Decides whether the Python program detects the time zone. Here it is that of the computer unless `agents.defaults.timezone` is set.",
    ),
    (
        "agents.defaults.botIcon",
        "Icon in the terminal of the Python program.",
    ),
    (
        "agents.defaults.unifiedSession",
        "One session for all chats in the Python program. Here every chat has its own.",
    ),
    (
        "agents.defaults.idleCompactAfterMinutes",
        "Pause after which the Python program shortens a session. Here sessions are append-only, and the context window decides.",
    ),
    (
        "agents.defaults.idleCompactCheckIntervalSeconds",
        "Interval at which the Python program looks for such sessions.",
    ),
    (
        "agents.defaults.consolidationRatio",
        "Share of the context window that the Python program keeps after a summary.",
    ),
    (
        "agents.defaults.dream",
        "Periodic revision of the memory by the Python program.",
    ),
    (
        "providers.*.region",
        "Region of Amazon Bedrock in the Python program.",
    ),
    (
        "providers.*.profile",
        "Profile of Amazon Bedrock in the Python program.",
    ),
    (
        "api",
        "HTTP interface of the Python program. This version has none.",
    ),
    (
        "gateway.restartMode",
        "Way in which the Python program restarts. Here the gateway starts itself again, or its service does.",
    ),
    (
        "channels.showReasoning",
        "Shows reasoning of the model in the chats of the Python program.",
    ),
    (
        "channels.extractDocumentText",
        "Has no effect in the Python program either.",
    ),
    (
        "channels.feishu.instanceId",
        "Name of an instance in the Python program. Here an instance is a section of its own with `kind`.",
    ),
    (
        "channels.feishu.name",
        "Label of an instance in the Python program.",
    ),
    (
        "channels.feishu.identityKey",
        "Key of an instance in the Python program.",
    ),
    (
        "channels.mattermost",
        "Mattermost in the Python program. This version has no such channel.",
    ),
    (
        "channels.msteams",
        "Microsoft Teams in the Python program. This version has no such channel.",
    ),
    (
        "channels.napcat",
        "NapCat (QQ) in the Python program. This version has no such channel.",
    ),
    (
        "channels.signal",
        "Signal in the Python program. This version has no such channel.",
    ),
    (
        "channels.weixin",
        "WeChat in the Python program. This version has no such channel.",
    ),
    (
        "channels.matrix.maxConcurrentMediaDownloads",
        "Number of downloads at once in the Python program. Here each room has one at a time.",
    ),
    (
        "channels.slack.webhookPath",
        "Has no effect in the Python program either: both use Socket Mode.",
    ),
    (
        "channels.slack.userTokenReadOnly",
        "Has no effect in the Python program either: both use the bot token.",
    ),
    (
        "channels.whatsapp.databasePath",
        "Database of a device that a later version of the Python program linked without a bridge.",
    ),
    (
        "channels.whatsapp.lidMappings",
        "Phone numbers of LIDs in the Python program. Here the bridge knows them.",
    ),
    (
        "tools.cliApps",
        "Command-line programs that the Python program installs and runs.",
    ),
    (
        "tools.my",
        "Tool of the Python program that shows and changes its own settings.",
    ),
    (
        "tools.imageGeneration",
        "Generation of images in the Python program.",
    ),
    (
        "tools.maxSessionMessagesPerMinute",
        "Limit of messages from one session to another in the Python program.",
    ),
    (
        "tools.webuiAllowLocalServiceAccess",
        "Access to local services from the Python program's web interface.",
    ),
    (
        "tools.webuiAllowRemotePackageInstall",
        "Installation of packages from the Python program's web interface.",
    ),
    (
        "tools.mcpServers",
        "MCP servers, by name. The model gets their tools.",
    ),
];

/// Paths of user data inside sections of the Python program.
pub(crate) const VERBATIM: &[&str] = &[
    "providers.*.extraHeaders",
    "providers.*.extraBody",
    "providers.*.extraQuery",
    "tools.mcpServers.*.env",
    "tools.mcpServers.*.headers",
];

/// An older key, and the key that it is read as.
#[derive(Debug)]
pub(crate) struct Renamed {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Older keys, in the order in which they are migrated.
pub(crate) const RENAMED: &[Renamed] = &[
    Renamed {
        from: "tools.exec.restrictToWorkspace",
        to: "tools.restrictToWorkspace",
    },
    Renamed {
        from: "tools.myEnabled",
        to: "tools.my.enable",
    },
    Renamed {
        from: "tools.mySet",
        to: "tools.my.allowSet",
    },
    Renamed {
        from: "agents.defaults.sessionTtlMinutes",
        to: "agents.defaults.idleCompactAfterMinutes",
    },
    Renamed {
        from: "channels.transcriptionProvider",
        to: "transcription.provider",
    },
    Renamed {
        from: "channels.transcriptionLanguage",
        to: "transcription.language",
    },
    Renamed {
        from: "tools.allowLocalPreviewAccess",
        to: "tools.webuiAllowLocalServiceAccess",
    },
    Renamed {
        from: "agents.defaults.dream.model",
        to: "agents.defaults.dream.modelOverride",
    },
];

/// An older key that is read only while its successor is not set.
pub(crate) const OUTDATED: Renamed = Renamed {
    from: "agents.defaults.memoryWindow",
    to: "agents.defaults.contextWindowTokens",
};
