//! The verdict in an answer: whether the call was made, and the code of a refusal.

use nanobot_channel::Value;
use reqwest::StatusCode;
use serde::Deserialize;

/// The part of an answer that says whether the call was made. The open API uses the first two
/// fields, the older one the others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Verdict {
    code: Value,
    message: Value,
    errcode: Value,
    errmsg: Value,
    /// The exact number of a refusal with the general number 88.
    sub_code: Value,
    success: Option<Value>,
}

impl Verdict {
    /// Returns the code of a refusal; `None` if the call was made.
    pub(crate) fn refusal(&self, status: StatusCode) -> Option<String> {
        let shown = |value: &Value| match value {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let is_number = |code: &str| !matches!(code, "" | "0");
        let (errcode, sub_code) = (shown(&self.errcode), shown(&self.sub_code));
        if is_number(&errcode) {
            let is_general = errcode == "88" && is_number(&sub_code);
            return Some(if is_general { sub_code } else { errcode });
        }
        let is_failure = self.success == Some(Value::Bool(false)) || !status.is_success();
        is_failure.then(|| shown(&self.code))
    }

    /// Returns the reason in DingTalk's words.
    pub(crate) fn text(&self) -> &str {
        let texts = [&self.message, &self.errmsg].into_iter();
        let mut texts = texts.filter_map(Value::as_str);
        texts.next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_of_both_apis_are_found() {
        let table = [
            (200, json!({"processQueryKey": "x"}), None),
            (200, json!({"errcode": 0, "errmsg": "ok"}), None),
            (200, json!({"success": true, "code": "odd"}), None),
            (200, json!({"success": false, "code": "x"}), Some("x")),
            (200, json!({"errcode": 40014}), Some("40014")),
            (
                200,
                json!({"errcode": 88, "sub_code": "90018"}),
                Some("90018"),
            ),
            (200, json!({"errcode": 88}), Some("88")),
            (
                400,
                json!({"code": "invalid", "message": "no"}),
                Some("invalid"),
            ),
            (500, json!({}), Some("")),
            (400, json!({"code": 17}), Some("17")),
        ];
        for (status, answer, expected) in table {
            let verdict: Verdict = serde_json::from_value(answer.clone()).unwrap();
            let status = StatusCode::from_u16(status).unwrap();
            let found = verdict.refusal(status);
            assert_eq!(found.as_deref(), expected, "{answer}");
        }
    }
}
