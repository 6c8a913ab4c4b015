//! Turns a request into a call, applies the scripted faults and returns the response.

use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response, ResponseStep};
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::TOKEN;
use crate::api::{ApiError, ApiResult, response};
use crate::fault::Fault;
use crate::params::Params;
use crate::polling::get_updates;
use crate::state::{Call, TelegramState, bot_json};

/// All methods that the fake knows.
const METHODS: &[&str] = &[
    "answerCallbackQuery",
    "deleteMessage",
    "deleteMyCommands",
    "deleteWebhook",
    "editMessageReplyMarkup",
    "editMessageText",
    "getFile",
    "getMe",
    "getMyCommands",
    "getUpdates",
    "getWebhookInfo",
    "sendAnimation",
    "sendAudio",
    "sendChatAction",
    "sendDocument",
    "sendMediaGroup",
    "sendMessage",
    "sendMessageDraft",
    "sendPhoto",
    "sendSticker",
    "sendVideo",
    "sendVideoNote",
    "sendVoice",
    "setMessageReaction",
    "setMyCommands",
    "setWebhook",
];

pub(crate) async fn handle(state: Watched<TelegramState>, request: Request) -> Response {
    let path = request.decoded_path();
    if let Some(rest) = path.strip_prefix("/file/bot") {
        return download(&state, rest);
    }
    let Some((token, method)) = path
        .strip_prefix("/bot")
        .and_then(|rest| rest.split_once('/'))
    else {
        return response(&Err(ApiError::unknown_method()));
    };
    if token != TOKEN || state.read(|state| state.is_revoked) {
        return response(&Err(ApiError::unauthorized()));
    }
    let Some(method) = METHODS
        .iter()
        .copied()
        .find(|known| known.eq_ignore_ascii_case(method))
    else {
        return response(&Err(ApiError::unknown_method()));
    };
    let params = Params::of(&request);
    // The call and its effect are one change: once a waiting test sees the call, the effect is
    // visible too.
    let (fault, outcome) = state.change(|state| {
        let fault = state.record(method, &params);
        let is_refused = fault
            .as_ref()
            .is_some_and(|fault| fault.refusal().is_some());
        let outcome = (!is_refused && method != "getUpdates").then(|| state.call(method, &params));
        (fault, outcome)
    });
    if let Some(refusal) = fault.as_ref().and_then(Fault::refusal) {
        return refusal;
    }
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => get_updates(&state, &params).await,
    };
    match fault {
        Some(Fault::DropAfterEffect) => Response::headless(vec![ResponseStep::Reset]),
        Some(Fault::HangAfterEffect) => Response::headless(vec![ResponseStep::Hang]),
        _ => response(&outcome),
    }
}

fn download(state: &Watched<TelegramState>, rest: &str) -> Response {
    let path = rest
        .split_once('/')
        .filter(|(token, _)| *token == TOKEN)
        .map(|(_, path)| path);
    let found = path.and_then(|path| state.read(|state| state.files.download(path)));
    found.unwrap_or_else(|| response(&Err(ApiError::unknown_method())))
}

impl Fault {
    /// Returns the response that replaces the call, or `None` if the call is carried out.
    fn refusal(&self) -> Option<Response> {
        match self {
            Self::RetryAfter(seconds) => Some(response(&Err(ApiError::retry_after(*seconds)))),
            Self::Status(code, description) => {
                Some(response(&Err(ApiError::new(*code, description.as_str()))))
            }
            Self::Result(result) => Some(response(&Ok(result.clone()))),
            Self::Hang => Some(Response::headless(vec![ResponseStep::Hang])),
            Self::Drop => Some(Response::headless(vec![ResponseStep::Reset])),
            Self::DropAfterEffect | Self::HangAfterEffect => None,
        }
    }
}

impl TelegramState {
    /// Records a call and takes the fault that was scripted for it.
    fn record(&mut self, method: &str, params: &Params) -> Option<Fault> {
        let (values, files) = (Value::Object(params.values.clone()), params.files.len());
        self.calls.note(Call {
            method: method.to_owned(),
            params: values,
            files,
        })
    }

    fn call(&mut self, method: &str, params: &Params) -> ApiResult {
        match method {
            "getMe" => Ok(me()),
            "getWebhookInfo" => Ok(self.webhook.info(self.updates.len())),
            "setWebhook" => self.set_webhook(params),
            "deleteWebhook" => {
                self.webhook.remove();
                if params.flag("drop_pending_updates") {
                    self.updates.clear();
                }
                Ok(json!(true))
            }
            "setMyCommands" => self.set_commands(params),
            "deleteMyCommands" => {
                self.commands = json!([]);
                Ok(json!(true))
            }
            "getMyCommands" => Ok(if self.commands.is_null() {
                json!([])
            } else {
                self.commands.clone()
            }),
            "getFile" => self.files.get_file(params),
            "answerCallbackQuery" => self.answer_callback(params),
            "sendChatAction" => self.chat_action(params),
            "setMessageReaction" => self.react(params),
            "deleteMessage" => self.delete(params),
            "editMessageText" => self.edit_text(params),
            "editMessageReplyMarkup" => self.edit_markup(params),
            "sendMessage" => self.send_text(params),
            "sendMessageDraft" => self.send_draft(params),
            "sendMediaGroup" => self.send_album(params),
            other => self.send_file(other, params),
        }
    }

    fn set_commands(&mut self, params: &Params) -> ApiResult {
        let commands = params
            .json("commands")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let text = |command: &Value, key: &str| {
            command
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for command in &commands {
            let (name, description) = (text(command, "command"), text(command, "description"));
            if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
                return Err(ApiError::bad("BOT_COMMAND_INVALID"));
            }
            if !(1..=256).contains(&description.chars().count()) {
                return Err(ApiError::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
            }
        }
        self.commands = Value::Array(commands);
        Ok(json!(true))
    }

    fn answer_callback(&mut self, params: &Params) -> ApiResult {
        if self.open_callbacks.remove(params.text("callback_query_id")) {
            Ok(json!(true))
        } else {
            Err(ApiError::bad(
                "query is too old and response timeout expired or query id is invalid",
            ))
        }
    }
}

fn me() -> Value {
    let mut me = bot_json();
    set(&mut me, "can_join_groups", true);
    for ability in [
        "supports_inline_queries",
        "can_connect_to_business",
        "has_main_web_app",
    ] {
        set(&mut me, ability, false);
    }
    // All group messages reach the bot, as with privacy mode off.
    set(&mut me, "can_read_all_group_messages", true);
    me
}
