//! Quoted messages: DingTalk includes them in the ones that quote them.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::ROBOT_USER_ID;
use crate::state::DingTalkState;
use crate::template;

impl DingTalkState {
    /// Adds a quoted message to the content and the data of the one that quotes it.
    pub(crate) fn quote(&self, quoted: &str, content: &mut Value, data: &mut Value) {
        let Some(replied) = self
            .person_quote(quoted)
            .or_else(|| self.robot_quote(quoted))
        else {
            return;
        };
        if self.messages.contains_key(quoted) {
            set(data, "originalMsgId", quoted);
        } else {
            set(data, "originalProcessQueryKey", quoted);
        }
        set(content, "isReplyMsg", true);
        set(content, "repliedMsg", replied);
    }

    fn person_quote(&self, id: &str) -> Option<Value> {
        let message = self.messages.get(id)?;
        let content = match message.kind.as_str() {
            "text" => json!({"text": template::visible(&message.content)}),
            _ => message.content.clone(),
        };
        Some(json!({
            "msgId": id, "msgType": message.kind, "createdAt": message.created,
            "senderId": message.person.sender_id, "content": content,
        }))
    }

    fn robot_quote(&self, key: &str) -> Option<Value> {
        let sent = self.sent.iter().find(|sent| sent.key == key)?;
        let mut replied = json!({
            "msgId": format!("msg-{key}"), "createdAt": sent.created, "senderId": ROBOT_USER_ID,
        });
        if sent.card.is_some() {
            // The content of cards is left out.
            set(&mut replied, "msgType", "interactiveCard");
        } else {
            set(&mut replied, "msgType", "text");
            let text = template::visible(&sent.content);
            set(&mut replied, "content", json!({ "text": text }));
        }
        Some(replied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::{Incoming, Person};
    use crate::probe::{GROUP, Probe};

    #[test]
    fn quotes_contain_the_quoted_message() {
        let mut probe = Probe::new();
        probe.connect(0);
        probe.state.add_group(GROUP, true);
        let ann = Person::new("ann", "Ann");
        let text = probe.state.push(Incoming::direct(&ann, "first"), false);
        let file = Incoming::direct(&ann, "").with_file("a.txt", "text/plain", "x");
        let file = probe.state.push(file, false);
        let answer = probe.send_group("from the robot");
        let key = answer["processQueryKey"].as_str().unwrap().to_owned();
        probe.create_card("t1", GROUP, "card");
        let table = [
            (text.message_id.as_str(), "text", "originalMsgId"),
            (file.message_id.as_str(), "file", "originalMsgId"),
            (&key, "text", "originalProcessQueryKey"),
            ("t1", "interactiveCard", "originalProcessQueryKey"),
        ];
        for (quoted, kind, place) in table {
            probe
                .state
                .push(Incoming::direct(&ann, "what?").quoting(quoted), true);
            let data = probe.data(0);
            assert_eq!(
                (&data["text"]["repliedMsg"]["msgType"], &data[place]),
                (&json!(kind), &json!(quoted))
            );
        }
    }
}
