//! The policy of caps: a pure function from amounts to a verdict, with its texts.
//!
//! Decision: a request is refused if what is spent, what is in flight, and the estimate of its
//! prompt at the full price exceed the cap. The answer is not estimated: `maxTokens` is mostly far
//! above what comes, and would refuse requests long before the cap. So a cap is exceeded by the
//! answers in flight at most.

use nanobot_provider::SpendVerdict;

use super::OnLimit;

/// Percentages of a cap at which a notice is shown and a person is asked.
const WARN: u64 = 80;
const ASK: u64 = 90;

/// The unit of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Millionths of a US dollar.
    Usd,
    /// Tokens of models without a known price.
    Tokens,
}

impl Unit {
    pub(super) const ALL: [Self; 2] = [Self::Usd, Self::Tokens];

    /// Returns its name in the database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Usd => "usd",
            Self::Tokens => "tokens",
        }
    }

    /// Formats an amount with its unit.
    pub(super) fn show(self, amount: u64) -> String {
        match self {
            Self::Usd => format!("{} USD", show_usd(amount)),
            Self::Tokens => format!("{amount} tokens"),
        }
    }
}

/// What a cap limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Turn,
    Session,
    Job,
    Day,
}

impl Scope {
    pub(super) const ALL: [Self; 4] = [Self::Turn, Self::Session, Self::Job, Self::Day];

    /// Returns its name in the database.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Session => "session",
            Self::Job => "job",
            Self::Day => "day",
        }
    }

    /// Returns its name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Turn => "one turn",
            Self::Session => "this conversation",
            Self::Job => "this job today",
            Self::Day => "today",
        }
    }

    /// Returns its name for people where it is not about one turn or one job.
    pub(super) fn general(self) -> &'static str {
        match self {
            Self::Turn => "each turn",
            Self::Session => "each conversation",
            Self::Job => "each job a day",
            Self::Day => "each day",
        }
    }

    /// Returns the key under `budget` that sets it.
    fn key(self, unit: Unit) -> &'static str {
        match (self, unit) {
            (Self::Turn, Unit::Usd) => "perTurn",
            (Self::Session, Unit::Usd) => "perSession",
            (Self::Job, Unit::Usd) => "perJob",
            (Self::Day, Unit::Usd) => "perDay",
            (Self::Turn, Unit::Tokens) => "tokensPerTurn",
            (Self::Session, Unit::Tokens) => "tokensPerSession",
            (Self::Job, Unit::Tokens) => "tokensPerJob",
            (Self::Day, Unit::Tokens) => "tokensPerDay",
        }
    }
}

/// A cap and what is used of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CapState {
    pub(super) scope: Scope,
    pub(super) unit: Unit,
    /// The cap, with what it was raised by.
    pub(super) limit: u64,
    /// Charged and in flight.
    pub(super) used: u64,
    /// The limit for which a notice at 80 % was shown, and one at 100 %.
    pub(super) warned: u64,
    pub(super) exceeded: u64,
    /// The limit for which a person agreed to use the rest.
    pub(super) agreed: u64,
}

/// A request that asks to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Its estimated amount in the unit of the caps.
    pub(super) estimate: u64,
    /// `true` for the first request of a turn whose person can be asked.
    pub(super) may_ask: bool,
}

/// A verdict, and the caps whose notice it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) verdict: SpendVerdict,
    /// Scopes that were announced at 80 %, and at 100 %.
    pub(super) warned: Vec<Scope>,
    pub(super) exceeded: Vec<Scope>,
}

/// Decides about a request. `zone` is the time zone of the day.
pub(super) fn decide(
    caps: &[CapState],
    request: Request,
    on_limit: OnLimit,
    zone: &str,
) -> Decision {
    let refused = |explanation| Decision {
        verdict: SpendVerdict::Refused { explanation },
        warned: Vec::new(),
        exceeded: Vec::new(),
    };
    if on_limit == OnLimit::Stop {
        if let Some(cap) = caps.iter().find(|cap| !cap.fits(request.estimate)) {
            return refused(cap.stopped(request.estimate, zone));
        }
        let asks = |cap: &&CapState| matches!(cap.scope, Scope::Session | Scope::Day) && cap.asks();
        if let Some(cap) = caps.iter().find(asks).filter(|_| request.may_ask) {
            return refused(cap.question());
        }
    }
    let exceeded: Vec<&CapState> = caps
        .iter()
        .filter(|cap| cap.used >= cap.limit && cap.exceeded != cap.limit)
        .collect();
    let warned: Vec<&CapState> = caps
        .iter()
        .filter(|cap| cap.used < cap.limit && cap.percent() >= WARN && cap.warned != cap.limit)
        .collect();
    let lines: Vec<String> = exceeded
        .iter()
        .chain(&warned)
        .map(|cap| cap.notice())
        .collect();
    let scopes = |caps: &[&CapState]| caps.iter().map(|cap| cap.scope).collect();
    Decision {
        verdict: SpendVerdict::Admitted {
            notice: (!lines.is_empty()).then(|| lines.join(" ")),
        },
        warned: scopes(&warned),
        exceeded: scopes(&exceeded),
    }
}

impl CapState {
    fn fits(&self, estimate: u64) -> bool {
        self.used < self.limit && self.used.saturating_add(estimate) <= self.limit
    }

    fn asks(&self) -> bool {
        self.percent() >= ASK && self.agreed != self.limit
    }

    /// Returns the used share in percent.
    pub(super) fn percent(&self) -> u64 {
        let share = u128::from(self.used) * 100 / u128::from(self.limit.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Formats what is used of it: `9.12 of 10.00 USD`.
    pub(super) fn share(&self) -> String {
        match self.unit {
            Unit::Usd => format!("{} of {} USD", show_usd(self.used), show_usd(self.limit)),
            Unit::Tokens => format!("{} of {} tokens", self.used, self.limit),
        }
    }

    fn notice(&self) -> String {
        let (percent, title) = (self.percent(), self.scope.title());
        format!(
            "Budget: {percent} % of that for {title} is used ({}).",
            self.share()
        )
    }

    fn question(&self) -> String {
        let raise = self.raise();
        format!(
            "{} Go on? Send /budget continue to use the rest, or /budget raise {raise} for more, and then /retry.",
            self.notice()
        )
    }

    fn stopped(&self, estimate: u64, zone: &str) -> String {
        let (title, raise) = (self.scope.title(), self.raise());
        let why = if self.used >= self.limit {
            format!(
                "Stopped: the budget for {title} is used up ({}).",
                self.share()
            )
        } else {
            format!(
                "Stopped: the budget for {title} does not cover the next request ({} used, about {} more needed).",
                self.share(),
                self.unit.show(estimate)
            )
        };
        let key = self.scope.key(self.unit);
        let remedy = match self.scope {
            Scope::Turn => format!(
                "Ask for the rest in a new message, or raise budget.{key} in the configuration."
            ),
            Scope::Session => {
                format!("/new begins a new one; /budget raise {raise} goes on with this one.")
            }
            Scope::Job | Scope::Day => {
                format!("It starts anew at midnight ({zone}); /budget raise {raise} goes on today.")
            }
        };
        format!("{why} {remedy}")
    }

    /// Returns the argument of `/budget raise` that is suggested: half of the cap, at least 1 USD.
    fn raise(&self) -> String {
        let half = self.limit / 2;
        match self.unit {
            Unit::Usd => half.div_ceil(1_000_000).max(1).to_string(),
            Unit::Tokens => format!("{} tokens", half.max(1)),
        }
    }
}

/// Formats millionths of a US dollar: with two decimals, or four if it is less than a cent.
pub(super) fn show_usd(micros: u64) -> String {
    if micros == 0 || micros >= 10_000 {
        let cents = micros.saturating_add(5_000) / 10_000;
        format!("{}.{:02}", cents / 100, cents % 100)
    } else {
        format!("0.{:04}", micros.div_ceil(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cap(scope: Scope, limit: u64, used: u64) -> CapState {
        CapState {
            scope,
            unit: Unit::Usd,
            limit,
            used,
            warned: 0,
            exceeded: 0,
            agreed: 0,
        }
    }

    fn judge(cap: CapState, estimate: u64, may_ask: bool, on_limit: OnLimit) -> Decision {
        let request = Request { estimate, may_ask };
        decide(&[cap], request, on_limit, "Europe/Berlin")
    }

    fn text(decision: Decision) -> String {
        match decision.verdict {
            SpendVerdict::Admitted { notice } => notice.unwrap_or_default(),
            SpendVerdict::Refused { explanation } => explanation,
        }
    }

    #[test]
    fn caps_warn_ask_and_stop() {
        use OnLimit::{Stop, Warn};
        const LIMIT: u64 = 10_000_000;
        let day = |used| cap(Scope::Day, LIMIT, used);
        let warned = CapState {
            warned: LIMIT,
            ..day(8_500_000)
        };
        let agreed = CapState {
            agreed: LIMIT,
            warned: LIMIT,
            ..day(9_500_000)
        };
        let table = [
            (judge(day(7_900_000), 0, true, Stop), ""),
            (
                judge(day(8_000_000), 0, true, Stop),
                "Budget: 80 % of that for today is used (8.00 of 10.00 USD).",
            ),
            (judge(warned, 0, true, Stop), ""),
            (
                judge(day(9_120_000), 0, true, Stop),
                "Budget: 91 % of that for today is used (9.12 of 10.00 USD). Go on? Send /budget continue to use \
                 the rest, or /budget raise 5 for more, and then /retry.",
            ),
            (judge(agreed, 0, true, Stop), ""),
            (
                judge(day(10_000_000), 0, true, Stop),
                "Stopped: the budget for today is used up (10.00 of 10.00 USD). It starts anew at midnight \
                 (Europe/Berlin); /budget raise 5 goes on today.",
            ),
            (
                judge(day(9_700_000), 600_000, false, Stop),
                "Stopped: the budget for today does not cover the next request (9.70 of 10.00 USD used, about \
                 0.60 USD more needed). It starts anew at midnight (Europe/Berlin); /budget raise 5 goes on today.",
            ),
            (
                judge(day(12_000_000), 600_000, true, Warn),
                "Budget: 120 % of that for today is used (12.00 of 10.00 USD).",
            ),
        ];
        for (decision, expected) in table {
            assert_eq!(text(decision), expected);
        }
        // In the middle of a turn, the person is not asked.
        let decision = judge(day(9_120_000), 0, false, Stop);
        assert_eq!((decision.warned.len(), decision.exceeded.len()), (1, 0));
    }

    #[test]
    fn amounts_are_shown_with_the_digits_that_matter() {
        for (micros, expected) in [
            (0, "0.00"),
            (1, "0.0001"),
            (4_200, "0.0042"),
            (10_000, "0.01"),
            (1_234_567, "1.23"),
            (9_999_999, "10.00"),
        ] {
            assert_eq!(show_usd(micros), expected);
        }
    }
}
