"""Which column plays which part, and what is asked where names and values leave it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.assets.ingestion.look.conftest import Beginner


def table(**columns: list[str]) -> str:
    """A CSV with a time for each row."""
    rows = len(next(iter(columns.values())))
    times = [f"2026-03-01T00:00:{row:02}Z" for row in range(rows)]
    return "\n".join(
        [",".join(["at", *columns]), *(",".join(row) for row in zip(times, *columns.values(), strict=True))]
    )


def asked(beginner: Beginner, content: str) -> tuple[dict[str, str], set[str]]:
    """The contract's column and item by part, by their names in the source, and the keys of the questions."""
    begun = beginner.begin_with({"export.csv": content})
    dataset = beginner.contract(begun)
    source = {str(column.as_): name for name, column in dataset.columns.items()}
    played = {"user": source[dataset.user.column]} | ({"item": source[dataset.item.column]} if dataset.item else {})
    return played, {question.key for question in begun.questions} - {"days.zone", "label"}


@pytest.mark.parametrize(
    ("names", "user", "item", "questions"),
    [
        (["user_id", "product_id"], "user_id", "product_id", set()),
        (["CustomerID", "StockCode"], "CustomerID", "StockCode", set()),
        (["visitorid", "itemid"], "visitorid", "itemid", set()),
        (["user_agent", "session_id"], "session_id", None, set()),
        (["user_id", "customer_id"], "user_id", None, set()),
        (["Kundennummer", "Artikel"], "Kundennummer", "Artikel", set()),
        (["client_id", "visitor_id"], "client_id", None, {"user.column"}),
        (["user_id", "product_id", "category_id"], "user_id", "product_id", set()),
        (["user_id", "movie_id", "track_id"], "user_id", "movie_id", {"item.column"}),
        (["who", "what"], "what", None, {"user.column"}),
    ],
)
def test_users_and_items_by_their_names(
    beginner: Beginner, names: list[str], user: str, item: str | None, questions: set[str]
) -> None:
    content = table(**{name: [f"{name[0]}{row % (at + 2)}" for row in range(12)] for at, name in enumerate(names)})
    found, keys = asked(beginner, content)
    assert (found["user"], found.get("item"), keys) == (user, item, questions)


def test_the_moment_of_the_event_is_told_from_others_and_asked_about(beginner: Beginner) -> None:
    content = (
        "user_id,updated_at,created_at,birth_date\n"
        "1,2026-03-02T00:00:00Z,2026-03-01T00:00:00Z,1990-01-31\n"
        "2,2026-03-02T00:00:00Z,2026-03-01T00:00:00Z,1991-01-31\n"
    )
    begun = beginner.begin_with({"export.csv": content})
    dataset = beginner.contract(begun)
    assert dataset.time.column == "created_at" and dataset.by_name["updated_at"].type == "text"
    [question] = [q for q in begun.questions if q.key == "time.column"]
    assert "'created_at', 'updated_at' or 'birth_date'" in question.text


@pytest.mark.parametrize(
    ("columns", "label", "left_out"),
    [
        ({"clicked": ["0", "1", "0"]}, {"where": "clicked"}, "clicked"),
        ({"purchased": ["true", "false", "true"]}, {"where": "purchased"}, "purchased"),
        ({"label": ["0", "0", "0"]}, {"where": "label = 1"}, "label"),
        ({"rating": ["5", "3", "1"]}, {"where": "rating >= 3"}, "rating"),
        (
            {"action": ["view", "buy", "view"]},
            {"event": "buy", "same": ("user",), "within_hours": 168},
            None,
        ),
        (
            {"action": ["view", "it's new", "view"]},
            {"event": "it_s_new", "same": ("user",), "within_hours": 168},
            None,
        ),
        ({"n": ["1", "2", "3"]}, {"event": "again", "same": ("user",), "within_hours": 168}, None),
    ],
)
def test_the_most_plausible_label_is_taken_and_asked_about(
    beginner: Beginner, columns: dict[str, list[str]], label: dict, left_out: str | None
) -> None:
    begun = beginner.begin_with({"export.csv": table(user_id=["a", "b", "a"], **columns)})
    dataset = beginner.contract(begun)
    assert dataset.label.model_dump() == label
    assert [q.key for q in begun.questions][-1] == "label"
    assert left_out is None or left_out not in str(dataset.features)


def test_names_of_the_contract_are_plain_and_never_twice(beginner: Beginner) -> None:
    header = "at,User-ID,event,hour,Größe,9lives,User,_,a.b"
    begun = beginner.begin_with({"export.csv": header + "\n2026-03-01T00:00:00Z,1,2,3,4,5,6,x,8\n"})
    names = [column.as_ for column in beginner.contract(begun).columns.values()]
    assert len(set(names)) == len(names) == 8 and "user" in names and {"event", "hour"}.isdisjoint(names)


def test_users_and_what_identifies_people_are_personal_and_their_values_not_told(beginner: Beginner) -> None:
    content = table(
        user_id=["anna", "bert", "anna"], mail=["a@x.org", "b@x.org", "a@x.org"], phone=["030", "031", "030"]
    )
    begun = beginner.begin_with({"export.csv": content})
    dataset = beginner.contract(begun)
    assert {name for name, column in dataset.by_name.items() if column.personal} == {"user", "mail", "phone"}
    assert not any(value in begun.text + str(begun.questions) for value in ("anna", "a@x.org", "030"))


def test_rows_later_than_a_week_make_room_for_themselves(beginner: Beginner) -> None:
    begun = beginner.begin_with(
        {
            "2026-03-01.csv": "user_id,at\n1,2026-03-01T12:00:00Z\n2,2026-03-01T12:00:00Z\n3,2026-02-27T12:00:00Z\n",
            "2026-03-20.csv": "user_id,at\n1,2026-03-20T12:00:00Z\n2,2026-03-08T12:00:00Z\n",
        }
    )
    days = beginner.contract(begun).days
    assert (str(days.first), days.late) == ("2026-03-01", 12)
    assert "1 older one not taken" in begun.text and "all of them" not in begun.fit


def test_the_days_in_the_names_tell_where_midnight_is(beginner: Beginner) -> None:
    def hours(day: int) -> str:
        return "".join(f"u{hour},2026-03-{day - (hour < 5):02}T{(hour + 19) % 24:02}:30:00Z\n" for hour in range(24))

    files: dict = {f"2026-03-{day:02}.csv": "user_id,at\n" + hours(day) for day in (3, 4, 5)}
    [question] = [q for q in beginner.begin_with(files).questions if q.key == "days.zone"]
    assert "fit UTC+5 best (100.0% of the rows" in question.text


def test_day_and_month_are_told_by_the_days_in_the_names(beginner: Beginner) -> None:
    begun = beginner.begin_with({"2026-03-04.csv": "user_id,at\n1,03/04/2026 10:00\n2,03/04/2026 11:00\n"})
    assert beginner.contract(begun).time.format == "%m/%d/%Y %H:%M"
    assert "time.format" not in {question.key for question in begun.questions}
