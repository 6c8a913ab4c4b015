//! Filters of syncs and of pages of messages.

use serde_json::{Map, Value};

use crate::api::{ApiError, ApiResult, success};
use crate::json::text;
use crate::model::Entry;
use crate::params::Params;
use crate::state::MatrixState;

/// Number of events of a timeline without a limit in the filter.
const USUAL_LIMIT: usize = 10;
/// Largest number of events of a timeline.
const MOST: u64 = 1000;

const EVENT_KEYS: &[&str] = &["limit", "types", "not_types", "senders", "not_senders"];
const ROOM_EVENT_KEYS: &[&str] = &[
    "rooms",
    "not_rooms",
    "contains_url",
    "lazy_load_members",
    "include_redundant_members",
    "unread_thread_notifications",
];

/// The part of a filter that selects events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    types: Option<Vec<String>>,
    not_types: Vec<String>,
    senders: Option<Vec<String>>,
    not_senders: Vec<String>,
    limit: Option<usize>,
    pub(crate) lazy_load_members: bool,
}

/// A filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) timeline: EventFilter,
    pub(crate) state: EventFilter,
    pub(crate) ephemeral: EventFilter,
    pub(crate) account_data: EventFilter,
    pub(crate) include_leave: bool,
    rooms: Option<Vec<String>>,
    not_rooms: Vec<String>,
}

impl EventFilter {
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL_LIMIT)
    }

    pub(crate) fn admits(&self, event: &Value) -> bool {
        self.admits_type(text(event, "type")) && self.admits_sender(text(event, "sender"))
    }

    pub(crate) fn admits_entry(&self, entry: &Entry) -> bool {
        self.admits(&entry.event)
    }

    fn admits_type(&self, kind: &str) -> bool {
        let is = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => kind.starts_with(prefix),
            None => pattern == kind,
        };
        self.types.as_ref().is_none_or(|types| types.iter().any(is))
            && !self.not_types.iter().any(is)
    }

    fn admits_sender(&self, sender: &str) -> bool {
        let is = |user: &String| user == sender;
        let wanted = self.senders.as_ref();
        wanted.is_none_or(|senders| senders.iter().any(is)) && !self.not_senders.iter().any(is)
    }
}

impl Filter {
    pub(crate) fn admits_room(&self, room: &str) -> bool {
        let is = |id: &String| id == room;
        self.rooms.as_ref().is_none_or(|rooms| rooms.iter().any(is))
            && !self.not_rooms.iter().any(is)
    }
}

/// Reads a filter, and collects the keys that the specification does not know.
struct Reader<'a> {
    unknown: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn filter(&mut self, filter: &Map<String, Value>) -> Result<Filter, ApiError> {
        let known = [
            "event_fields",
            "event_format",
            "presence",
            "account_data",
            "room",
        ];
        self.check_keys("filter", filter, &known);
        let room = object(filter, "room")?;
        let parts = ["state", "timeline", "ephemeral", "account_data"];
        let others = ["rooms", "not_rooms", "include_leave"];
        self.check_keys("filter.room", &room, &[&parts[..], &others[..]].concat());
        self.events("filter.presence", &object(filter, "presence")?, false)?;
        Ok(Filter {
            timeline: self.events("filter.room.timeline", &object(&room, "timeline")?, true)?,
            state: self.events("filter.room.state", &object(&room, "state")?, true)?,
            ephemeral: self.events("filter.room.ephemeral", &object(&room, "ephemeral")?, true)?,
            account_data: self.events(
                "filter.account_data",
                &object(filter, "account_data")?,
                false,
            )?,
            include_leave: flag(&room, "include_leave")?,
            rooms: list(&room, "rooms")?,
            not_rooms: list(&room, "not_rooms")?.unwrap_or_default(),
        })
    }

    fn events(
        &mut self,
        place: &str,
        part: &Map<String, Value>,
        is_of_room: bool,
    ) -> Result<EventFilter, ApiError> {
        let more = if is_of_room { ROOM_EVENT_KEYS } else { &[] };
        self.check_keys(place, part, &[EVENT_KEYS, more].concat());
        let limit = match part.get("limit") {
            None => None,
            Some(limit) => {
                let number = limit.as_u64().filter(|number| *number > 0);
                let number = number.ok_or_else(|| ApiError::malformed("limit is invalid"))?;
                usize::try_from(number.min(MOST)).ok()
            }
        };
        Ok(EventFilter {
            types: list(part, "types")?,
            not_types: list(part, "not_types")?.unwrap_or_default(),
            senders: list(part, "senders")?,
            not_senders: list(part, "not_senders")?.unwrap_or_default(),
            limit,
            lazy_load_members: flag(part, "lazy_load_members")?,
        })
    }

    fn check_keys(&mut self, place: &str, object: &Map<String, Value>, known: &[&str]) {
        let unknown = object.keys().filter(|key| !known.contains(&key.as_str()));
        self.unknown
            .extend(unknown.map(|key| format!("{place}: unknown key {key}")));
    }
}

fn object(parent: &Map<String, Value>, key: &str) -> Result<Map<String, Value>, ApiError> {
    match parent.get(key) {
        None => Ok(Map::new()),
        Some(Value::Object(object)) => Ok(object.clone()),
        Some(_) => Err(ApiError::malformed(format!(
            "{key} of the filter is invalid"
        ))),
    }
}

fn flag(parent: &Map<String, Value>, key: &str) -> Result<bool, ApiError> {
    match parent.get(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(ApiError::malformed(format!(
            "{key} of the filter is invalid"
        ))),
    }
}

fn list(parent: &Map<String, Value>, key: &str) -> Result<Option<Vec<String>>, ApiError> {
    let invalid = || ApiError::malformed(format!("{key} of the filter is invalid"));
    let Some(value) = parent.get(key) else {
        return Ok(None);
    };
    let items = value.as_array().ok_or_else(invalid)?.iter();
    let texts = items.map(|item| item.as_str().map(str::to_owned).ok_or_else(invalid));
    texts.collect::<Result<_, _>>().map(Some)
}

impl MatrixState {
    /// Reads the filter of a sync: JSON, or the id of a stored one.
    pub(crate) fn sync_filter(&mut self, params: &Params) -> Result<Filter, ApiError> {
        let Some(given) = params.queried("filter") else {
            return Ok(Filter::default());
        };
        let filter = if given.starts_with('{') {
            parsed(given)?
        } else {
            self.stored_filter(&params.user, given)?
        };
        let mut unknown = Vec::new();
        let mut reader = Reader {
            unknown: &mut unknown,
        };
        let filter = reader.filter(&filter);
        self.complaints.extend(unknown);
        filter
    }

    /// Reads the filter of a page of messages.
    pub(crate) fn page_filter(&mut self, params: &Params) -> Result<EventFilter, ApiError> {
        let given = params
            .queried("filter")
            .map_or_else(|| Ok(Map::new()), parsed)?;
        let mut unknown = Vec::new();
        let mut reader = Reader {
            unknown: &mut unknown,
        };
        let filter = reader.events("filter", &given, true);
        self.complaints.extend(unknown);
        filter
    }

    fn stored_filter(&self, user: &str, id: &str) -> Result<Map<String, Value>, ApiError> {
        let filters = self.users.get(user).map(|user| &user.filters);
        let number = id.parse::<usize>().ok();
        let filter = number.and_then(|number| filters?.get(number));
        let filter = filter.and_then(Value::as_object);
        filter.cloned().ok_or_else(|| ApiError::not_found("Filter"))
    }

    pub(crate) fn put_filter(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        let mut unknown = Vec::new();
        let mut reader = Reader {
            unknown: &mut unknown,
        };
        let checked = reader.filter(&params.body);
        self.complaints.extend(unknown);
        checked?;
        let Some(user) = self.users.get_mut(&params.user) else {
            return Err(ApiError::not_found("User"));
        };
        user.filters.push(Value::Object(params.body.clone()));
        let id = (user.filters.len() - 1).to_string();
        success(serde_json::json!({"filter_id": id}))
    }

    pub(crate) fn get_filter(&mut self, params: &Params) -> ApiResult {
        params.check_user(params.segment(0))?;
        let filter = self.stored_filter(&params.user, params.segment(1))?;
        success(Value::Object(filter))
    }
}

fn parsed(text: &str) -> Result<Map<String, Value>, ApiError> {
    serde_json::from_str(text)
        .map_err(|error| ApiError::malformed(format!("the filter is no JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{Probe, ROOM, ann, bodies};
    use crate::{BOT_ID, SERVER_NAME};

    fn stored(probe: &mut Probe, filter: &Value) -> String {
        let path = format!("user/{BOT_ID}/filter");
        let answer = probe.call("POST", &path, filter);
        format!("filter={}", text(&answer, "filter_id"))
    }

    #[test]
    fn filters_select_rooms_types_senders_and_members() {
        let mut probe = Probe::new();
        for word in ["1", "2", "3"] {
            probe.state.push(Incoming::to(ROOM, &ann(), word));
        }
        let timeline = json!({"types": ["m.room.mess*"], "limit": 2, "not_senders": [BOT_ID]});
        let filter = json!({"room": {"rooms": [ROOM], "timeline": timeline,
            "state": {"lazy_load_members": true, "not_types": ["m.room.create"]}}});
        let filter = stored(&mut probe, &filter);
        let sync = probe.sync("", &filter);
        assert_eq!(bodies(&sync, ROOM), ["2", "3"]);
        assert_eq!(sync["rooms"]["join"].as_object().unwrap().len(), 1);
        let state = sync["rooms"]["join"][ROOM]["state"]["events"]
            .as_array()
            .unwrap();
        let types: Vec<_> = state.iter().map(|event| text(event, "type")).collect();
        assert!(
            !types.contains(&"m.room.create") && types.contains(&"m.room.member"),
            "{types:?}"
        );
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn unknown_keys_are_recorded_and_wrong_values_refused() {
        let mut probe = Probe::new();
        let filter = json!({"rooms": {}, "room": {"timeline": {"maximum": 5}}});
        stored(&mut probe, &filter);
        let complaints = [
            "filter: unknown key rooms",
            "filter.room.timeline: unknown key maximum",
        ];
        assert_eq!(probe.complaints(), complaints);
        let path = format!("user/{BOT_ID}/filter");
        for filter in [
            json!({"room": 5}),
            json!({"room": {"timeline": {"limit": 0}}}),
            json!({"room": {"state": {"types": [5]}}}),
            json!({"room": {"include_leave": "yes"}}),
        ] {
            assert_eq!(
                probe.code("POST", &path, &filter),
                "M_INVALID_PARAM",
                "{filter}"
            );
        }
        assert_eq!(
            probe.code("GET", "sync?filter=7", &Value::Null),
            "M_NOT_FOUND"
        );
        let foreign = format!("user/@ann:{SERVER_NAME}/filter/0");
        assert_eq!(probe.code("GET", &foreign, &Value::Null), "M_FORBIDDEN");
    }
}
