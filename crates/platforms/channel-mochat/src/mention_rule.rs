//! The keys `mention` and `groups`: which groups require a mention.

use std::collections::BTreeMap;

use nanobot_channel::Value;
use nanobot_channel_kit::settings::Setting;
use serde::Deserialize;
use serde_json::json;

/// The entry of all groups without one of their own.
const OTHER_GROUPS: &str = "*";

/// The key `mention`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MentionRule {
    /// Requires a mention in groups without a rule of their own.
    #[serde(alias = "require_in_groups")]
    pub require_in_groups: bool,
}

/// The key `groups`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct GroupMentions(BTreeMap<String, GroupMention>);

/// The rule of a group. Other keys of the entry are about access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GroupMention {
    #[serde(alias = "require_mention")]
    require_mention: Option<bool>,
}

impl GroupMentions {
    /// `true` if messages of a panel need a mention. The group's entry counts before that of the
    /// panel, and an entry for all groups before `mention`.
    pub(crate) fn requires_mention(&self, group: &str, panel: &str, other: &MentionRule) -> bool {
        [group, panel, OTHER_GROUPS]
            .into_iter()
            .filter(|id| !id.is_empty())
            .find_map(|id| self.0.get(id)?.require_mention)
            .unwrap_or(other.require_in_groups)
    }
}

impl Setting for MentionRule {
    const EXPECTED: &'static str = "write an object like {\"requireInGroups\": true}";

    fn shown(&self) -> Value {
        json!({"requireInGroups": self.require_in_groups})
    }

    fn schema() -> Value {
        let require = json!({
            "type": "boolean",
            "description": "Requires a mention in groups without a rule of their own.",
        });
        json!({"type": "object", "properties": {"requireInGroups": require}})
    }
}

impl Setting for GroupMentions {
    const EXPECTED: &'static str = "write an object like {\"*\": {\"requireMention\": true}}";

    fn shown(&self) -> Value {
        let rule = |(id, rule): (&String, &GroupMention)| {
            let rule = rule.require_mention.map(|it| json!({"requireMention": it}));
            (id.clone(), rule.unwrap_or_else(|| json!({})))
        };
        Value::Object(self.0.iter().map(rule).collect())
    }

    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": {
            "type": "object", "properties": {"requireMention": {"type": "boolean"}},
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rule_counts() {
        let groups: GroupMentions = serde_json::from_value(json!({
            "g1": {"requireMention": true}, "p2": {"require_mention": false},
            "g3": {"policy": "open"}, "*": {"requireMention": true},
        }))
        .unwrap();
        let table = [
            ("g1", "p1", false, true),
            ("g2", "p2", true, false),
            ("g3", "p3", false, true),
            ("", "p4", false, true),
        ];
        for (group, panel, other, expected) in table {
            let other = MentionRule {
                require_in_groups: other,
            };
            assert_eq!(
                groups.requires_mention(group, panel, &other),
                expected,
                "{group} {panel}"
            );
        }
        let none = GroupMentions::default();
        for required in [true, false] {
            let other = MentionRule {
                require_in_groups: required,
            };
            assert_eq!(none.requires_mention("g1", "p1", &other), required);
        }
        let shown = json!({
            "g1": {"requireMention": true}, "p2": {"requireMention": false}, "g3": {},
            "*": {"requireMention": true},
        });
        assert_eq!(groups.shown(), shown);
    }
}
