//! Classifies the errors of vendors.
//!
//! The HTTP status and the error's own code take precedence over its message. The message is
//! matched only where vendors have no code: context overflow, unsupported images, exhausted
//! accounts. Messages shown to the user are truncated, are never HTML and never contain a key.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::HeaderMap;
use nanobot_provider::ProviderError;
use nanobot_types::json;
use serde_json::Value;

use crate::ApiKey;

/// Maximum length of a vendor's message, in characters.
const MESSAGE_LIMIT: usize = 400;

/// Longest accepted `Retry-After`. A longer wait could overflow the clock's arithmetic.
const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);

const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "model_context_window_exceeded",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "reduce the length of",
    "maximum prompt length",
    "input length and `max_tokens` exceed",
    "range of input length",
    "上下文长度",
    "输入过长",
];

const NO_IMAGES: &[&str] = &[
    "image_url is only supported",
    "does not support image",
    "do not support image",
    "images are not supported",
    "image input is not supported",
    "image_url is not supported",
    "unsupported image input",
    "support image input",
    "not a multimodal model",
    "unknown variant `image_url`",
];

const NO_MONEY: &[&str] = &[
    "insufficient_quota",
    "usage_limit_reached",
    "usage_not_included",
    "insufficient quota",
    "exceeded your current quota",
    "billing",
    "insufficient balance",
    "insufficient_balance",
    "credit balance",
    "insufficient credit",
    "arrearage",
    "余额不足",
    "欠费",
];

const WRONG_KEY: &[&str] = &[
    "api_key_invalid",
    "invalid_api_key",
    "api key not valid",
    "invalid api key",
    "incorrect api key",
    "authentication_error",
];

const BUSY: &[&str] = &[
    "rate_limit",
    "rate limit",
    "too many requests",
    "速率限制",
    "访问量过大",
];

const OVERLOADED: &[&str] = &[
    "overloaded",
    "server_error",
    "api_error",
    "temporarily unavailable",
];

/// Classifies errors for one provider.
#[derive(Clone, Debug)]
pub(crate) struct ErrorClassifier {
    pub(crate) key: Option<ApiKey>,
    /// Advice appended when the key is rejected; may be empty.
    pub(crate) key_hint: &'static str,
}

impl ErrorClassifier {
    /// Classifies a response with an error status.
    pub(crate) fn of_status(&self, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
        let json: Option<Value> = json::from_slice(body).ok();
        let body = String::from_utf8_lossy(body);
        let report = json
            .as_ref()
            .map_or_else(|| VendorError::of_text(&body), VendorError::of_json);
        let retry_after = retry_after(headers, Utc::now()).or(report.retry_after);
        if (300..400).contains(&status) {
            return ProviderError::BadRequest(format!(
                "the server redirects ({status}); correct apiBase"
            ));
        }
        self.classify(status, &report, retry_after)
    }

    /// Classifies an error object inside a response with a success status.
    pub(crate) fn of_object(&self, object: &Value) -> ProviderError {
        let report = VendorError::of_json(object);
        let status = report.status().unwrap_or_else(|| match &report {
            report if report.contains_any(BUSY) => 429,
            report if report.contains_any(WRONG_KEY) => 401,
            report if report.contains_any(OVERLOADED) => 503,
            report if report.contains_any(&["invalid_request", "not_found_error"]) => 400,
            _ => 200,
        });
        self.classify(status, &report, report.retry_after)
    }

    fn classify(
        &self,
        status: u16,
        report: &VendorError,
        retry_after: Option<Duration>,
    ) -> ProviderError {
        let message = self.message_of(status, report);
        match status {
            400 | 422 | 500 | 200 if report.contains_any(TOO_LONG) => {
                ProviderError::ContextOverflow(message)
            }
            400 | 404 | 415 | 422 | 500 | 200 if report.contains_any(NO_IMAGES) => {
                ProviderError::ImagesUnsupported(message)
            }
            413 => ProviderError::ContextOverflow(message),
            402 => ProviderError::Quota(message),
            400 | 403 | 429 | 200 if report.contains_any(NO_MONEY) => ProviderError::Quota(message),
            401 | 403 => ProviderError::Auth(self.with_hint(message)),
            400 | 200 if report.contains_any(WRONG_KEY) => {
                ProviderError::Auth(self.with_hint(message))
            }
            429 => ProviderError::RateLimited {
                retry_after,
                message,
            },
            400..500 if !matches!(status, 408 | 409 | 425) => ProviderError::BadRequest(message),
            _ => ProviderError::Server {
                status,
                retry_after,
                message,
            },
        }
    }

    fn with_hint(&self, message: String) -> String {
        if self.key_hint.is_empty() {
            message
        } else {
            format!("{message}. {}", self.key_hint)
        }
    }

    fn message_of(&self, status: u16, report: &VendorError) -> String {
        let message = self.without_keys(report.message.trim());
        if message.is_empty() {
            format!("status {status} without an explanation")
        } else {
            message
        }
    }

    /// Redacts the key and anything that looks like part of one, and truncates the text.
    pub(crate) fn without_keys(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => text.replace(key.expose(), "***"),
            None => text.to_owned(),
        };
        let redacted = text
            .split_inclusive(char::is_whitespace)
            .map(|word| if looks_like_key(word) { "*** " } else { word });
        redacted
            .collect::<String>()
            .chars()
            .take(MESSAGE_LIMIT)
            .collect::<String>()
            .trim_end()
            .to_owned()
    }
}

/// Returns `true` for `sk-…` and similar keys, also if the vendor masked a part.
fn looks_like_key(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    ["sk-", "gsk_", "hf_", "nvapi-", "AIza"]
        .iter()
        .any(|mark| word.starts_with(mark) && word.len() > mark.len() + 3)
}

/// An error as the vendor reported it.
struct VendorError {
    message: String,
    /// Code, type and message in lower case, for matching.
    searched: String,
    code: Option<u64>,
    retry_after: Option<Duration>,
}

impl VendorError {
    fn of_text(text: &str) -> Self {
        let start = text.trim_start();
        let is_html = start.starts_with('<');
        let message = if is_html {
            "the server answered with a web page".to_owned()
        } else {
            text.to_owned()
        };
        Self {
            searched: message.to_lowercase(),
            message,
            code: None,
            retry_after: None,
        }
    }

    /// Parses `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, or a list of
    /// one.
    fn of_json(json: &Value) -> Self {
        let json = json
            .as_array()
            .and_then(|list| list.first())
            .unwrap_or(json);
        let error = json
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(json);
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let detail = error.pointer("/metadata/raw").and_then(Value::as_str);
        let message = match error {
            Value::String(text) => text.clone(),
            _ if !text("message").is_empty() => match detail {
                Some(detail) => format!("{}: {detail}", text("message")),
                None => text("message").to_owned(),
            },
            _ => error
                .get("detail")
                .or_else(|| error.get("msg"))
                .map(compact)
                .unwrap_or_default(),
        };
        let code = error
            .get("code")
            .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let searched = format!(
            "{} {} {} {message}",
            text("code"),
            text("type"),
            text("status")
        )
        .to_lowercase();
        let delay = error
            .get("details")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let delay = delay.filter_map(|detail| {
            detail
                .get("retryDelay")?
                .as_str()?
                .strip_suffix('s')?
                .parse()
                .ok()
        });
        let retry_after = delay.max_by(f64::total_cmp).and_then(wait);
        Self {
            message,
            searched,
            code,
            retry_after,
        }
    }

    fn contains_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.searched.contains(word))
    }

    /// Returns the code if it is an HTTP error status.
    fn status(&self) -> Option<u16> {
        self.code
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| (400..600).contains(code))
    }
}

fn compact(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Parses `Retry-After` in seconds or as a date (RFC 9110 §10.2.3), or `retry-after-ms`.
pub(crate) fn retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    let milliseconds = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    if let Some(milliseconds) = milliseconds {
        return wait(milliseconds / 1000.0);
    }
    let value = text("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return wait(seconds);
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    Some(
        (date.with_timezone(&Utc) - now)
            .to_std()
            .unwrap_or_default()
            .min(CLOCK_LIMIT),
    )
}

/// Returns a wait of this many seconds, at most [`CLOCK_LIMIT`]; `None` if it is not a valid
/// duration.
fn wait(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .map(|wait| wait.min(CLOCK_LIMIT))
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone as _;
    use http::HeaderValue;

    use super::*;

    fn faults() -> ErrorClassifier {
        ErrorClassifier {
            key: ApiKey::parse("my-own-key").unwrap(),
            key_hint: "",
        }
    }

    fn of(status: u16, body: &str) -> ProviderError {
        faults().of_status(status, &HeaderMap::new(), body.as_bytes())
    }

    fn kind(error: &ProviderError) -> String {
        match error {
            ProviderError::RateLimited { .. } => "RateLimited".to_owned(),
            ProviderError::Quota(_) => "Quota".to_owned(),
            ProviderError::Auth(_) => "Auth".to_owned(),
            ProviderError::ContextOverflow(_) => "ContextOverflow".to_owned(),
            ProviderError::ImagesUnsupported(_) => "ImagesUnsupported".to_owned(),
            ProviderError::BadRequest(_) => "BadRequest".to_owned(),
            ProviderError::Server { status, .. } => format!("Server {status}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn classifies_errors_by_status_and_message() {
        let table = [
            (
                400,
                r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#,
                "ContextOverflow",
            ),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 210000 tokens"}}"#,
                "ContextOverflow",
            ),
            (
                400,
                r#"{"error":{"message":"max_tokens must be at most 5000 tokens"}}"#,
                "BadRequest",
            ),
            (
                400,
                r#"{"error":{"message":"This model does not support image input"}}"#,
                "ImagesUnsupported",
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]"#,
                "Auth",
            ),
            (
                400,
                r#"{"error":{"message":"Your credit balance is too low"}}"#,
                "Quota",
            ),
            (401, "nope", "Auth"),
            (402, "{}", "Quota"),
            (
                404,
                r#"{"error":{"message":"model x not found"}}"#,
                "BadRequest",
            ),
            (408, "", "Server 408"),
            (413, "too large", "ContextOverflow"),
            (429, r#"{"error":{"message":"slow down"}}"#, "RateLimited"),
            (
                429,
                r#"{"error":{"type":"insufficient_quota","message":"x"}}"#,
                "Quota",
            ),
            (429, r#"{"error":{"message":"余额不足"}}"#, "Quota"),
            (503, "upstream connect error", "Server 503"),
            (
                529,
                r#"{"error":{"type":"overloaded_error","message":"x"}}"#,
                "Server 529",
            ),
            (307, "", "BadRequest"),
        ];
        for (status, body, expected) in table {
            let error = of(status, body);
            assert_eq!(kind(&error), expected, "{status} {body}: {error:?}");
        }
    }

    #[test]
    fn classifies_errors_inside_ok_responses() {
        let table = [
            (
                serde_json::json!({"error": {"message": "Rate limit", "code": 429}}),
                "RateLimited",
            ),
            (
                serde_json::json!({"error": {"message": "x", "code": "502"}}),
                "Server 502",
            ),
            (
                serde_json::json!({"error": {"type": "overloaded_error", "message": "overloaded"}}),
                "Server 503",
            ),
            (
                serde_json::json!({"error": {"code": "1305", "message": "访问量过大"}}),
                "RateLimited",
            ),
            (serde_json::json!({"error": "something"}), "Server 200"),
        ];
        for (object, expected) in table {
            let error = faults().of_object(&object);
            assert_eq!(kind(&error), expected, "{object}: {error:?}");
        }
    }

    #[test]
    fn busy_server_that_names_a_wait_stays_a_server_error() {
        let headers =
            HeaderMap::from_iter([(http::header::RETRY_AFTER, HeaderValue::from_static("7"))]);
        let error = faults().of_status(503, &headers, b"loading");
        assert_eq!(
            error,
            ProviderError::Server {
                status: 503,
                retry_after: Some(Duration::from_secs(7)),
                message: "loading".to_owned(),
            }
        );
    }

    #[test]
    fn error_messages_omit_web_pages_and_keys() {
        assert_eq!(
            of(502, "<html>\n<h1>502 Bad Gateway</h1></html>").to_string(),
            "server error 502: the server answered with a web page"
        );
        let error = of(
            401,
            r#"{"error":{"message":"Incorrect key my-own-key or sk-ab***yz given"}}"#,
        );
        assert_eq!(
            error.to_string(),
            "not authorised: Incorrect key *** or *** given"
        );
        assert_eq!(
            of(500, "").to_string(),
            "server error 500: status 500 without an explanation"
        );
        assert!(of(400, &"长".repeat(5000)).to_string().chars().count() < 450);
    }

    #[test]
    fn parses_retry_after() {
        let now = Utc.with_ymd_and_hms(2026, 1, 1, 0, 0, 0).unwrap();
        const YEAR: u64 = CLOCK_LIMIT.as_millis() as u64;
        let table = [
            ("retry-after", "2", Some(2000)),
            ("retry-after", "1.5", Some(1500)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "Thu, 01 Jan 2026 00:00:30 GMT", Some(30_000)),
            ("retry-after", "Wed, 31 Dec 2025 00:00:00 GMT", Some(0)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "18446744073709551615", None),
            ("retry-after", "1e18", Some(YEAR)),
            ("retry-after", "1e308", None),
            ("retry-after", "inf", None),
            ("retry-after", "NaN", None),
            ("retry-after-ms", "NaN", None),
            ("retry-after-ms", "1e21", Some(YEAR)),
            ("retry-after-ms", "-5", None),
            ("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT", Some(YEAR)),
        ];
        for (name, value, expected) in table {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )]);
            assert_eq!(
                retry_after(&headers, now),
                expected.map(Duration::from_millis),
                "{name}: {value}"
            );
        }
        let body = r#"{"error":{"code":429,"message":"x","details":[{"retryDelay":"34s"}]}}"#;
        assert!(
            matches!(of(429, body), ProviderError::RateLimited { retry_after: Some(pause), .. } if pause.as_secs() == 34)
        );
        for (delay, expected) in [
            ("1e18s", Some(CLOCK_LIMIT)),
            ("1e308s", None),
            ("NaNs", None),
            ("-1s", None),
        ] {
            let body = format!(
                r#"{{"error":{{"code":429,"message":"x","details":[{{"retryDelay":"{delay}"}}]}}}}"#
            );
            assert!(
                matches!(of(429, &body), ProviderError::RateLimited { retry_after, .. } if retry_after == expected),
                "{delay}"
            );
        }
    }
}
