"""What to ask for: level-triggered decisions as pure functions of a dataset's state.

Each compares what should be with what is and asks for the difference; there is no event to miss. A request's key names
the day, what it would be made from, the generation that it replaces and a bounded attempt number: asked once, asked
again after a failure, and content that goes A, B, A is three requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

from resources.contract.digest import digest_of_json
from sensors.state import DayState, State

MAX_ATTEMPTS = 3
MAX_DAYS_PER_REQUEST = 30

# how often a key was tried and failed, or None while a run with it is in flight
Attempts = Callable[[str], int | None]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run to start: a job over the days first..last."""

    job: Literal["data", "judgement"]
    first: date
    last: date
    key: str  # without the attempt
    run_key: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a tick asks for, and in words why it does not ask for the rest."""

    requests: tuple[Request, ...] = ()
    waiting: tuple[str, ...] = ()


def new_data(state: State, attempts: Attempts) -> Decision:
    """Days whose landed files are not what `deliveries` was made from, and closed days that nothing was delivered on."""
    wanted = {day: work for day in state.grid if (work := _deliveries(state, day))}
    days = {day: _key(state, work) for day, work in wanted.items() if not work.hindered}
    waiting = [f"deliveries {day} waits for {work.hindered}" for day, work in wanted.items() if work.hindered]
    decided = _requests("data", days, "landed files are not delivered yet", attempts)
    return Decision(requests=decided.requests, waiting=(*decided.waiting, *waiting))


def stale_days(state: State, attempts: Attempts) -> Decision:
    """Days that are delivered, but whose later assets are missing or behind their inputs.

    A change of history alone counts above the contract's `rebuild_history_above`; below, the day's row says so.
    """
    days: dict[date, str] = {}
    reasons: list[str] = []
    waiting: list[str] = []
    for day in state.grid:
        if _deliveries(state, day) is not None:
            continue  # new_data asks for it
        work = [
            w
            for w in state.work(day, history_above=state.dataset.days.rebuild_history_above)
            if w.asset != "deliveries"
        ]
        if work and work[0].hindered:
            waiting.append(f"{work[0].asset} {day} waits for {work[0].hindered}")
        elif work:
            days[day] = "/".join(_key(state, w) for w in work)
            reasons.append(f"{work[0].asset} {day}: {work[0].stale.reason if work[0].stale else work[0].state}")
    decided = _requests("data", days, "; ".join(reasons[:3]), attempts)
    return Decision(requests=decided.requests, waiting=(*decided.waiting, *waiting))


def judged_days(state: State, attempts: Attempts) -> Decision:
    """The next day that can be judged and is later than every judged one, once nothing that it reads is still moving."""
    if not state.grid:
        return Decision(waiting=("nothing has landed yet",))
    judged = state.ledger.days("champion")
    after = [day for day in state.grid if not judged or day > judged[-1]]
    waiting = {day: reason for day in after if (reason := state.unjudgeable(day) or state.moving(day)) is not None}
    ready = [day for day in after if day not in waiting]
    if not ready:
        return Decision(waiting=(f"{after[0]}: {waiting[after[0]]}",) if after else ("every day is judged",))
    day = ready[0] if judged else ready[-1]
    return _requests(
        "judgement",
        {day: _key(state, state.of("champion", day))},
        "its labels are mature and no later day is judged",
        attempts,
    )


def _deliveries(state: State, day: date) -> DayState | None:
    found = state.of("deliveries", day)
    return found if found.state in ("missing", "open") or found.stale else None


def _key(state: State, work: DayState) -> str:
    built = state.ledger.get(work.asset, work.day)
    return f"{work.asset}-{work.plan.input_digest[:16]}-g{built.generation if built else 0}"


def _requests(job: Literal["data", "judgement"], days: dict[date, str], reason: str, attempts: Attempts) -> Decision:
    """One request per block of neighbouring days."""
    requests, waiting = [], []
    for block in blocks_of(sorted(days), at_most=MAX_DAYS_PER_REQUEST):
        first, last = block[0], block[-1]
        key = f"{job}:{first}:{last}:{digest_of_json([days[day] for day in block])[:16]}"
        tried = attempts(key)
        span = str(first) if first == last else f"{first}..{last}"
        if tried is None:
            waiting.append(f"{span}: a run is in flight")
        elif tried >= MAX_ATTEMPTS:
            waiting.append(
                f"{span}: given up after {tried} failed runs or a cancelled one; mend the cause and start it by hand"
            )
        else:
            run_key = f"{key}:a{tried}"
            requests.append(
                Request(job=job, first=first, last=last, key=key, run_key=run_key, reason=f"{span}: {reason}")
            )
    return Decision(requests=tuple(requests), waiting=tuple(waiting))


def blocks_of(days: list[date], *, at_most: int) -> list[list[date]]:
    """Runs of neighbouring days, none longer than `at_most`."""
    blocks: list[list[date]] = []
    for day in days:
        if blocks and day - blocks[-1][-1] == timedelta(days=1) and len(blocks[-1]) < at_most:
            blocks[-1].append(day)
        else:
            blocks.append([day])
    return blocks
