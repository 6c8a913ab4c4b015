//! Checks of the content of messages that the bot sends.

use serde_json::Value;

use crate::account::BOT_OPEN_ID;
use crate::api::ApiError;
use crate::card;
use crate::incoming::Person;
use crate::state::FeishuState;
use crate::text::post_body;

/// Maximum size of the content of a text, in bytes.
const TEXT_LIMIT: usize = 150 * 1024;
/// Maximum size of the content of a post or a card, in bytes.
const RICH_LIMIT: usize = 30 * 1024;
/// Types of the elements of a post, and the members that each needs.
const POST_TAGS: &[(&str, &[&str])] = &[
    ("text", &["text"]),
    ("a", &["text", "href"]),
    ("at", &["user_id"]),
    ("img", &["image_key"]),
    ("media", &["file_key"]),
    ("emotion", &["emoji_type"]),
    ("hr", &[]),
    ("code_block", &["text"]),
    ("md", &["text"]),
];

fn invalid(reason: &str) -> ApiError {
    ApiError::because(230001, reason)
}

impl FeishuState {
    /// Checks the content of a message of the bot. Returns the id of its card entity, if any.
    pub(crate) fn check_content(
        &self,
        kind: &str,
        content: &str,
    ) -> Result<Option<String>, ApiError> {
        let limit = if kind == "text" {
            TEXT_LIMIT
        } else {
            RICH_LIMIT
        };
        if content.len() > limit {
            return Err(ApiError::new(230025));
        }
        let parsed: Value = serde_json::from_str(content).unwrap_or_default();
        if !parsed.is_object() {
            return Err(invalid("content is not a string in json format"));
        }
        let member = |key: &str| parsed.get(key).and_then(Value::as_str);
        match kind {
            "text" => match member("text") {
                Some(text) if !text.is_empty() => Ok(None),
                _ => Err(invalid("text is missing")),
            },
            "post" => self.check_post(&parsed).map(|()| None),
            "image" => self
                .check_resource(member("image_key"), &["image"])
                .map(|()| None),
            "audio" => self
                .check_resource(member("file_key"), &["opus"])
                .map(|()| None),
            "media" => {
                if let Some(cover) = member("image_key") {
                    self.check_resource(Some(cover), &["image"])?;
                }
                self.check_resource(member("file_key"), &["mp4"])
                    .map(|()| None)
            }
            "file" => {
                let kinds = ["pdf", "doc", "xls", "ppt", "stream"];
                self.check_resource(member("file_key"), &kinds)
                    .map(|()| None)
            }
            "interactive" => self.check_card(&parsed),
            other => Err(invalid(&format!("unsupported msg_type {other}"))),
        }
    }

    /// Checks that a resource exists, that the bot uploaded it, and that its type is one of these.
    fn check_resource(&self, key: Option<&str>, kinds: &[&str]) -> Result<(), ApiError> {
        let key = key.unwrap_or_default();
        let Some(resource) = self.resources.get(key) else {
            return Err(invalid(&format!("invalid key {key:?}")));
        };
        if resource.message.is_some() {
            return Err(ApiError::new(230017));
        }
        if !kinds.contains(&resource.kind.as_str()) {
            return Err(ApiError::new(230055));
        }
        Ok(())
    }

    fn check_post(&self, content: &Value) -> Result<(), ApiError> {
        // Sent posts name their language; only received ones have none.
        let languages = content.as_object().into_iter().flatten();
        let is_language =
            |name: &str| matches!(name, "zh_cn" | "en_us" | "ja_jp" | "zh_hk" | "zh_tw");
        if content.get("content").is_some() || languages.clone().any(|(name, _)| !is_language(name))
        {
            return Err(invalid("a post needs a language"));
        }
        let paragraphs = post_body(content).get("content").and_then(Value::as_array);
        let Some(paragraphs) = paragraphs.filter(|paragraphs| !paragraphs.is_empty()) else {
            return Err(invalid("the post is empty"));
        };
        for paragraph in paragraphs {
            let Some(elements) = paragraph.as_array() else {
                return Err(invalid("a paragraph is no array"));
            };
            for element in elements {
                self.check_post_element(element)?;
            }
            let is_markdown = |element: &Value| element.get("tag").is_some_and(|tag| tag == "md");
            if elements.iter().any(is_markdown) && elements.len() > 1 {
                return Err(invalid("md must be alone in its paragraph"));
            }
        }
        Ok(())
    }

    fn check_post_element(&self, element: &Value) -> Result<(), ApiError> {
        let member = |key: &str| element.get(key).and_then(Value::as_str);
        let tag = member("tag").unwrap_or_default();
        let Some((_, needs)) = POST_TAGS.iter().find(|(known, _)| *known == tag) else {
            return Err(invalid(&format!("unknown tag {tag:?}")));
        };
        if let Some(missing) = needs.iter().find(|key| member(key).is_none()) {
            return Err(invalid(&format!("{tag} without {missing}")));
        }
        match tag {
            "img" => self.check_resource(member("image_key"), &["image"]),
            "media" => self.check_resource(member("file_key"), &["mp4"]),
            _ => Ok(()),
        }
    }

    /// Checks a card, or the reference to a card entity.
    fn check_card(&self, content: &Value) -> Result<Option<String>, ApiError> {
        match content.get("type").and_then(Value::as_str) {
            Some("card") => {
                let id = content.pointer("/data/card_id").and_then(Value::as_str);
                let id = id.unwrap_or_default();
                match self.cards.get(id) {
                    None => Err(ApiError::new(200740)),
                    // Feishu documents the rule, but no code for it.
                    Some(card) if card.is_sent => Err(ApiError::because(
                        230099,
                        "a card entity can be sent only once",
                    )),
                    Some(_) => Ok(Some(id.to_owned())),
                }
            }
            Some("template") => Err(invalid("the fake has no card templates")),
            _ => {
                self.check_card_json(content)?;
                Ok(None)
            }
        }
    }

    /// Checks the structure of a card and its images.
    pub(crate) fn check_card_json(&self, content: &Value) -> Result<(), ApiError> {
        if let Err(problem) = card::check(content, self.table_limit) {
            let text = format!("Failed to create card content, ext={problem}");
            let code = if problem.code == 300301 {
                300301
            } else {
                230099
            };
            // A test that allows no table at all refuses what a correct client sends.
            let is_excused = problem.code == 11310 && self.table_limit < card::TABLE_LIMIT;
            return Err(ApiError::with_message(code, text).excused_if(is_excused));
        }
        let elements = card::elements(content).into_iter();
        let texts = elements.filter_map(|(_, element)| element.get("content")?.as_str());
        for id in texts.flat_map(mentioned) {
            if id != "all" && !self.is_known(id) {
                let problem = "Failed to create card content, ext=ErrCode: 100290; ErrMsg: There is an invalid user resource(at/person) in your card; ";
                return Err(ApiError::with_message(230099, problem));
            }
        }
        let images = card::elements(content).into_iter();
        for (_, image) in images.filter(|(tag, _)| *tag == "img") {
            let key = image.get("img_key").and_then(Value::as_str);
            if self.check_resource(key, &["image"]).is_err() {
                let problem = "Failed to create card content, ext=ErrCode: 200570; ErrMsg: card contains invalid image keys; ";
                return Err(ApiError::with_message(230099, problem));
            }
        }
        Ok(())
    }

    /// Returns `true` if this is an id of a person or of the bot.
    fn is_known(&self, id: &str) -> bool {
        let has = |person: &Person| {
            let ids = person.ids();
            ids.as_object()
                .into_iter()
                .flatten()
                .any(|(_, known)| known == id)
        };
        id == BOT_OPEN_ID || self.people.values().any(has)
    }
}

/// Returns the ids that a text of a card mentions, as in `<at id=ou_1></at>`.
fn mentioned(text: &str) -> Vec<&str> {
    let rest = text.split("<at id=").skip(1);
    let id = |rest: &'_ str| rest.find(['>', ' ', '/']);
    rest.filter_map(|rest| Some(rest.get(..id(rest)?)?.trim_matches(['"', '\''])))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mentions_in_cards_are_checked() {
        let mut state = FeishuState::default();
        state.add_person(&Person::new("ou_ann", "Ann"));
        let card = |text: &str| json!({"elements": [{"tag": "markdown", "content": text}]});
        let texts = [
            (
                "<at id=ou_ann></at> <at id=\"all\"></at> <at id=ann></at>",
                true,
            ),
            ("a < b, <at", true),
            ("<at id=ou_nobody></at>", false),
        ];
        for (text, is_right) in texts {
            let checked = state.check_card_json(&card(text));
            assert_eq!(checked.is_ok(), is_right, "{text}: {checked:?}");
        }
    }
}
