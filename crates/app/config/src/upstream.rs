//! Tables of the Python program's keys that this program does not read itself.
//!
//! There are two kinds: keys of its later releases that are accepted and kept, and older keys with
//! their successors. They are tables and not code, so that a new section only has to be registered.

/// Keys that are kept and not reported as unknown; a registered section takes precedence. `*` is
/// any entry of a map.
pub(crate) const NOT_READ: &[&str] = &[
    "agents.defaults.modelPreset",
    "agents.defaults.contextBlockLimit",
    "agents.defaults.fallbackModels",
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
    "providers.*.displayName",
    "providers.*.apiType",
    "providers.*.extraBody",
    "providers.*.extraQuery",
    "providers.*.proxy",
    "providers.*.thinkingStyle",
    "providers.*.region",
    "providers.*.profile",
    "modelPresets",
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
    "channels.matrix",
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

/// Keys of [`NOT_READ`] that enable a protection. They are reported at every start.
pub(crate) const PROTECTIONS: &[&str] = &["tools.exec.sandbox"];

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
