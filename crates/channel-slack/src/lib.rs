//! Slack over Socket Mode and its Web API.
