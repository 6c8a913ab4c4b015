//! The tools of an assistant, in the order in which requests list them.
//!
//! Decision: the order is part of the prompt cache. Built-in tools come first, sorted by name.
//! External tools follow in order of registration, so that a late one changes nothing before it.
//! The list is built at the first request after it changed. Deferred tools are not listed: two tools
//! find and run them (see [`crate::resolve_call`]). Tools of a [`ToolFeed`] are external ones that
//! come and go; [`Registry::refresh`] asks for them.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use nanobot_types::{Effect, Map, ToolCall, ToolName, ToolResult, ToolSource, ToolSpec};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::cast::cast;
use crate::deferred::{self, TOOL_CALL, TOOL_SEARCH, resolve_call};
use crate::validate::validate;
use crate::{CallReview, Tool, ToolContext, ToolFeed, ToolRun, ToolWatch};

/// Hint appended to every failed result that begins with `Error`.
pub const ERROR_HINT: &str = "\n\n[Analyze the error above and try a different approach.]";

/// Time that a cancelled tool has to end by itself and report what it did.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// Aliases under which models with older prompts call a tool. Never listed in a request.
const ALIASES: &[(&str, &str)] = &[("message_user", "message")];

/// Built-in tools that a request in a small window lists.
const CORE: &[&str] = &[
    "edit_file",
    "exec",
    "list_dir",
    "read_file",
    "web_fetch",
    "web_search",
    "write_file",
];

/// Reason why a tool could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The name is taken by another tool, which keeps it.
    #[error("a tool named {name} is registered already")]
    NameTaken {
        /// The name.
        name: ToolName,
    },
}

/// The tools of an assistant. Shared by all turns; changes take effect with the next request.
#[derive(Debug, Default)]
pub struct Registry {
    listing: RwLock<Listing>,
    watch: Option<Arc<dyn ToolWatch>>,
    feed: Option<Arc<dyn ToolFeed>>,
    /// The tools that the feed returned last. Locked while it is asked, so that no older answer
    /// replaces a newer one.
    fed: Mutex<Vec<Arc<dyn Tool>>>,
}

#[derive(Debug, Default)]
struct Listing {
    /// The tools, in request order.
    tools: Vec<Arc<dyn Tool>>,
    /// The tools that requests do not list, in order of registration.
    deferred: Vec<Arc<dyn Tool>>,
    /// The specifications of a request, once they were requested.
    specs: OnceLock<Arc<[ToolSpec]>>,
    /// Those of a request that lists only [`CORE`].
    core_specs: OnceLock<Arc<[ToolSpec]>>,
}

impl Listing {
    fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let mut all = self.tools.iter().chain(&self.deferred);
        all.find(|tool| tool.spec().name.as_str() == name)
    }

    /// Returns the specification of a tool that the registry itself runs. It exists only while no
    /// other tool has the name.
    fn find_own(&self, name: &str) -> Option<&'static ToolSpec> {
        let mut own = self.own_specs();
        own.find(|spec| spec.name.as_str() == name)
    }

    fn own_specs(&self) -> impl Iterator<Item = &'static ToolSpec> {
        let specs = deferred::specs().into_iter();
        specs.filter(move |spec| self.find(spec.name.as_str()).is_none())
    }

    fn is_taken(&self, name: &ToolName) -> bool {
        let is_own = !self.deferred.is_empty() && self.find_own(name.as_str()).is_some();
        is_own || self.find(name.as_str()).is_some()
    }

    /// Returns the listed tools that a request in a small window does not list.
    fn beside_core(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter().filter(|tool| !is_core(tool.spec()))
    }

    /// Builds the specifications of requests anew at the next request.
    fn changed(&mut self) {
        (self.specs, self.core_specs) = Default::default();
    }

    /// Removes this very tool, not another one with its name.
    fn remove_exactly(&mut self, tool: &Arc<dyn Tool>) {
        let count = self.tools.len();
        self.tools.retain(|other| !Arc::ptr_eq(other, tool));
        if self.tools.len() != count {
            self.changed();
        }
    }

    fn specs(&self) -> &Arc<[ToolSpec]> {
        self.specs.get_or_init(|| {
            let mut specs: Vec<ToolSpec> = match self.deferred.is_empty() {
                true => Vec::new(),
                false => self.own_specs().cloned().collect(),
            };
            specs.extend(self.tools.iter().map(|tool| tool.spec().clone()));
            // External tools keep their order: the sort is stable.
            specs.sort_by(|one, other| {
                let built_in = |spec: &ToolSpec| spec.source == ToolSource::BuiltIn;
                match (built_in(one), built_in(other)) {
                    (true, true) => one.name.cmp(&other.name),
                    (one, other) => other.cmp(&one),
                }
            });
            specs.into()
        })
    }

    fn core_specs(&self) -> &Arc<[ToolSpec]> {
        self.core_specs.get_or_init(|| {
            let core = self.tools.iter().map(|tool| tool.spec());
            let mut specs: Vec<ToolSpec> = core.filter(|spec| is_core(spec)).cloned().collect();
            if !self.deferred.is_empty() || self.beside_core().next().is_some() {
                specs.extend(self.own_specs().cloned());
            }
            specs.sort_by(|one, other| one.name.cmp(&other.name));
            specs.into()
        })
    }
}

fn is_core(spec: &ToolSpec) -> bool {
    spec.source == ToolSource::BuiltIn && CORE.contains(&spec.name.as_str())
}

impl Registry {
    /// Creates a registry without tools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a registry without tools that reports every run to `watch`.
    #[must_use]
    pub fn watched(watch: Arc<dyn ToolWatch>) -> Self {
        Self {
            watch: Some(watch),
            ..Self::default()
        }
    }

    /// Lists the tools of `feed` as well, as of the last [`Registry::refresh`].
    #[must_use]
    pub fn fed_by(self, feed: Arc<dyn ToolFeed>) -> Self {
        Self {
            feed: Some(feed),
            ..self
        }
    }

    /// Asks the feed for its present tools, then adds new ones and removes those that are gone. Call
    /// it before the first request of a turn; a call does it as well. A tool whose name is taken is
    /// logged and left out.
    pub async fn refresh(&self) {
        let Some(feed) = &self.feed else { return };
        let mut fed = self.fed.lock().await;
        let tools = feed.tools().await;
        let is_in = |tools: &[Arc<dyn Tool>], tool: &Arc<dyn Tool>| {
            tools.iter().any(|other| Arc::ptr_eq(other, tool))
        };
        for gone in fed.iter().filter(|tool| !is_in(&tools, tool)) {
            self.write().remove_exactly(gone);
        }
        for new in tools.iter().filter(|tool| !is_in(&fed, tool)) {
            if let Err(error) = self.register(Arc::clone(new)) {
                tracing::warn!(%error, "a tool is left out");
            }
        }
        *fed = tools;
    }

    /// Adds a tool at its position in the order.
    ///
    /// # Errors
    /// Returns [`RegistryError::NameTaken`] if another tool has the name; nothing changes then.
    pub fn register(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let mut listing = self.write();
        let spec = tool.spec();
        if listing.is_taken(&spec.name) {
            return Err(RegistryError::NameTaken {
                name: spec.name.clone(),
            });
        }
        let place = match spec.source {
            ToolSource::BuiltIn => listing.tools.partition_point(|other| {
                let other = other.spec();
                other.source == ToolSource::BuiltIn && other.name < spec.name
            }),
            ToolSource::External => listing.tools.len(),
        };
        listing.tools.insert(place, tool);
        listing.changed();
        Ok(())
    }

    /// Adds a tool that requests do not list. While there is one, requests list `tool_search` and
    /// `tool_call` instead, which find and run it. A call of the tool by its own name works, too.
    ///
    /// # Errors
    /// Returns [`RegistryError::NameTaken`] if another tool has the name; nothing changes then.
    pub fn register_deferred(&self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let mut listing = self.write();
        let name = &tool.spec().name;
        if listing.is_taken(name) || [TOOL_SEARCH, TOOL_CALL].contains(&name.as_str()) {
            return Err(RegistryError::NameTaken { name: name.clone() });
        }
        let was_empty = listing.deferred.is_empty();
        listing.deferred.push(tool);
        if was_empty {
            listing.changed();
        }
        Ok(())
    }

    /// Removes a tool, listed or deferred, and returns it. Running calls continue.
    pub fn remove(&self, name: &ToolName) -> Option<Arc<dyn Tool>> {
        let mut listing = self.write();
        let place =
            |tools: &[Arc<dyn Tool>]| tools.iter().position(|tool| tool.spec().name == *name);
        let (listed, deferred) = (place(&listing.tools), place(&listing.deferred));
        let removed = match (listed, deferred) {
            (Some(place), _) => listing.tools.remove(place),
            (None, Some(place)) => {
                let removed = listing.deferred.remove(place);
                if !listing.deferred.is_empty() {
                    return Some(removed);
                }
                removed
            }
            (None, None) => return None,
        };
        listing.changed();
        Some(removed)
    }

    /// Returns the tool that a call of this name runs, resolving aliases.
    #[must_use]
    pub fn get(&self, name: &ToolName) -> Option<Arc<dyn Tool>> {
        let listing = self.read();
        let by_alias = || {
            ALIASES
                .iter()
                .find(|(alias, _)| *alias == name.as_str())
                .and_then(|(_, name)| listing.find(name))
        };
        listing.find(name.as_str()).or_else(by_alias).cloned()
    }

    /// Returns the specifications for a request: built-in tools by name, then external ones in
    /// order of registration. The allocation stays the same until a tool is added or removed.
    #[must_use]
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(self.read().specs())
    }

    /// Returns the specifications for a request in a small window: files, shell and web. The model
    /// finds the other tools by `tool_search`.
    #[must_use]
    pub fn core_specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(self.read().core_specs())
    }

    /// Returns the effect of running a call again; `None` for an unknown tool. The effect of a
    /// `tool_call` is that of its inner call.
    #[must_use]
    pub fn effect(&self, call: &ToolCall) -> Option<Effect> {
        let call = resolve_call(call);
        match self.get(&call.name) {
            Some(tool) => Some(tool.spec().effect),
            None => self
                .read()
                .find_own(call.name.as_str())
                .map(|spec| spec.effect),
        }
    }

    /// Describes a call without running it; of a `tool_call`, the inner call. Returns `None` for a
    /// call that is refused anyway: an unknown tool, or arguments that do not fit.
    ///
    /// # Errors
    /// Returns the result for the model if the tool panics; the call must not run then.
    pub async fn review(
        &self,
        call: &ToolCall,
        context: &ToolContext,
    ) -> Result<Option<CallReview>, ToolResult> {
        let call = &*resolve_call(call);
        self.refresh_for(call, context).await;
        let Some(tool) = self.get(&call.name) else {
            return Ok(None);
        };
        let Ok(arguments) = prepare(tool.spec(), call) else {
            return Ok(None);
        };
        AssertUnwindSafe(tool.review(&arguments, context))
            .catch_unwind()
            .await
            .map(Some)
            .map_err(|payload| panicked(&tool.spec().name, payload.as_ref()))
    }

    /// Runs one call and always returns a result for the model. Casts and validates the arguments,
    /// runs the tool, and turns a panic into an error. A malformed, unknown or invalid call is not
    /// run. The feed is asked before an external or unknown tool, so that a turn can use what it
    /// changed. After [`ToolContext::cancel`] is cancelled, the tool has half a second to end by
    /// itself; then it is dropped and the result is `Error: cancelled`. A `tool_call` runs its inner
    /// call.
    pub async fn run(&self, call: &ToolCall, context: &ToolContext) -> ToolResult {
        let began = Instant::now();
        let call = &*resolve_call(call);
        let result = self.answer(call, context).await;
        if let Some(watch) = &self.watch {
            let effect = self.effect(call);
            watch
                .ran(ToolRun {
                    call,
                    effect,
                    context,
                    result: &result,
                    elapsed: began.elapsed(),
                })
                .await;
        }
        result
    }

    async fn answer(&self, call: &ToolCall, context: &ToolContext) -> ToolResult {
        self.refresh_for(call, context).await;
        let Some(tool) = self.get(&call.name) else {
            let own = self.read().find_own(call.name.as_str());
            return match own {
                Some(spec) => self.answer_own(spec, call),
                None => self.unknown(&call.name),
            };
        };
        if context.cancel.is_cancelled() {
            return cancelled();
        }
        let arguments = match prepare(tool.spec(), call) {
            Ok(arguments) => arguments,
            Err(problem) => return invalid(tool.spec(), &problem),
        };
        let running = AssertUnwindSafe(tool.execute(arguments, context)).catch_unwind();
        let deadline = async {
            context.cancel.cancelled().await;
            tokio::time::sleep(CANCEL_GRACE).await;
        };
        tokio::select! {
            biased;
            outcome = running => with_hint(outcome.unwrap_or_else(|payload| panicked(&tool.spec().name, payload.as_ref()))),
            () = deadline => cancelled(),
        }
    }

    /// Asks the feed if a call runs something that may have changed.
    async fn refresh_for(&self, call: &ToolCall, context: &ToolContext) {
        let may_have_changed = match self.get(&call.name) {
            Some(tool) => tool.spec().source == ToolSource::External,
            None => self.read().find_own(call.name.as_str()).is_none(),
        };
        if may_have_changed {
            context.cancel.run_until_cancelled(self.refresh()).await;
        }
    }

    /// Answers a `tool_search`, or a `tool_call` without an inner call.
    fn answer_own(&self, spec: &ToolSpec, call: &ToolCall) -> ToolResult {
        let arguments = match prepare(spec, call) {
            Ok(arguments) => arguments,
            Err(problem) => return invalid(spec, &problem),
        };
        match arguments.get("query").and_then(Value::as_str) {
            Some(query) if spec.name.as_str() == TOOL_SEARCH => {
                let listing = self.read();
                let tools = listing.deferred.iter().chain(listing.beside_core());
                deferred::search(&tools.collect::<Vec<_>>(), query)
            }
            _ => invalid(spec, "name must be the name of another tool"),
        }
    }

    fn unknown(&self, name: &ToolName) -> ToolResult {
        let listing = self.read();
        let names: Vec<&str> = listing
            .specs()
            .iter()
            .map(|spec| spec.name.as_str())
            .collect();
        ToolResult::error(format!(
            "Error: Tool '{name}' not found. Available: {}",
            names.join(", ")
        ))
    }

    // A poisoned lock is used as is: the only tool code that runs under it is `spec()`, and the
    // list is replaced in one step.
    fn read(&self) -> RwLockReadGuard<'_, Listing> {
        self.listing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Listing> {
        self.listing.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the arguments as the tool receives them, or the problems with them.
fn prepare(spec: &ToolSpec, call: &ToolCall) -> Result<Value, String> {
    let arguments = call
        .parsed_arguments()
        .or_else(|why| encoded_twice(&call.arguments).ok_or(why))?;
    let arguments = cast(&spec.parameters, Value::Object(arguments));
    let problems = validate(&spec.parameters, &arguments);
    if problems.is_empty() {
        Ok(arguments)
    } else {
        Err(problems.join("; "))
    }
}

/// Returns the object encoded in a JSON string, for arguments that were encoded twice.
fn encoded_twice(arguments: &str) -> Option<Map> {
    let inner: String = serde_json::from_str(arguments).ok()?;
    ToolCall::new("", "", inner).parsed_arguments().ok()
}

fn invalid(spec: &ToolSpec, problem: &str) -> ToolResult {
    with_hint(ToolResult::error(format!(
        "Error: Invalid parameters for tool '{}': {problem}",
        spec.name
    )))
}

fn with_hint(mut result: ToolResult) -> ToolResult {
    if !result.success && result.output.starts_with("Error") {
        result.output.push_str(ERROR_HINT);
    }
    result
}

fn cancelled() -> ToolResult {
    ToolResult::error("Error: cancelled")
}

fn panicked(name: &ToolName, payload: &(dyn Any + Send)) -> ToolResult {
    let why = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given");
    tracing::error!(tool = %name, why, "a tool panicked");
    ToolResult::error(format!("Error executing {name}: internal failure: {why}"))
}
