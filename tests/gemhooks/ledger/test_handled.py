"""Who may handle a message, and when again."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa

from gemhooks.ledger import DatabaseLedger, Ledgers, NullLedger, open_ledger
from gemhooks.ledger.retention import KEPT
from gemhooks.ledger.tables import handled
from gemhooks.messages import Claim, Claimed, Ledger
from tests.gemhooks.ledger.conftest import LEASE
from tests.services.waiting import eventually

RENEWED = 9.0  # seconds of a lease, which is renewed each third of it


def claim(ledgers: Ledgers, key: str = "id", *, redelivered: bool = False) -> Claim:
    return ledgers.handled.claim("queue", key, redelivered=redelivered).claim


def granted_at_last(ledgers: Ledgers) -> Claimed:
    """The claim of one whose owner renews it no more, once its lease is over."""
    assert claim(ledgers) is Claim.BUSY
    _pass(ledgers, LEASE)
    claimed = ledgers.handled.claim("queue", "id", redelivered=False)
    assert claimed.claim is Claim.GRANTED
    return claimed


def _wait_until_renewed(ledgers: Ledgers) -> None:
    last = max(_leases(ledgers))
    eventually(lambda: min(_leases(ledgers)) > last, why="all are renewed")


def _leases(ledgers: Ledgers) -> list[float]:
    """When each ends."""
    ends = sa.select(handled.c.lease_until)
    return ledgers.database.read(lambda connection: list(connection.scalars(ends)))


def _pass(ledgers: Ledgers, seconds: float) -> None:
    """Let time pass: leases end by the database's clock, which nobody sets."""
    sooner = sa.update(handled).values(lease_until=handled.c.lease_until - seconds)
    ledgers.database.write(lambda connection: connection.execute(sooner))


def test_the_first_claim_is_granted_and_a_copy_is_busy(ledgers: Ledgers, others: Ledgers) -> None:
    assert claim(ledgers) is Claim.GRANTED
    assert claim(ledgers) is Claim.BUSY
    assert claim(others) is Claim.BUSY


def test_what_is_done_is_answered_done_everywhere(ledgers: Ledgers, others: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.done("queue", "id")
    assert claim(ledgers) is Claim.DONE
    assert claim(others, redelivered=True) is Claim.DONE


def test_what_is_released_may_be_claimed_by_anybody(ledgers: Ledgers, others: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.release("queue", "id")
    assert claim(others) is Claim.GRANTED


def test_only_the_holder_can_release(ledgers: Ledgers, others: Ledgers) -> None:
    claim(ledgers)
    others.handled.release("queue", "id")
    assert claim(others) is Claim.BUSY


def test_release_does_not_undo_what_is_done(ledgers: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.done("queue", "id")
    ledgers.handled.release("queue", "id")
    assert claim(ledgers) is Claim.DONE


def test_each_queue_has_its_own_claim(ledgers: Ledgers) -> None:
    claim(ledgers)
    assert ledgers.handled.claim("other", "id", redelivered=False).claim is Claim.GRANTED


def test_the_claim_of_a_dead_owner_ends_with_its_lease(ledgers: Ledgers, others: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.close()  # renews no more, as if it had died
    assert granted_at_last(others).starts == 1  # the owner died over it, and that counts


def test_who_takes_a_claim_over_hears_when_it_was_made_first(
    ledgers: Ledgers, others: Ledgers
) -> None:
    first = ledgers.handled.claim("queue", "id", redelivered=False)
    ledgers.handled.close()
    assert granted_at_last(others).first_at == first.first_at > 0


def test_what_was_done_after_the_lease_was_lost_is_done(ledgers: Ledgers, others: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.close()
    granted_at_last(others)
    ledgers.handled.done("queue", "id")
    others.handled.release("queue", "id")
    assert claim(others) is Claim.DONE


def test_a_long_handler_keeps_its_claim(url: str, others: Ledgers) -> None:
    with closing(open_ledger(url, lease=RENEWED)) as ledgers:
        claim(ledgers)
        for _ in range(2):
            _wait_until_renewed(ledgers)
            assert claim(others) is Claim.BUSY


def test_only_starts_of_redelivered_messages_are_counted(ledgers: Ledgers) -> None:
    for key, redelivered in (("new", False), ("old", True)):
        claimed = ledgers.handled.claim("queue", key, redelivered=redelivered)
        assert claimed.starts == int(redelivered)


def test_a_start_that_ended_counts_no_more(ledgers: Ledgers) -> None:
    for _ in range(3):
        assert ledgers.handled.claim("queue", "id", redelivered=True).starts == 1
        ledgers.handled.release("queue", "id")


@pytest.mark.parametrize("redelivered", [True, False])  # by the broker, or from the retry ladder
def test_one_that_never_began_leaves_the_count_as_it_was(
    ledgers: Ledgers, url: str, *, redelivered: bool
) -> None:
    with closing(open_ledger(url, lease=LEASE)) as dead:
        dead.handled.claim("queue", "id", redelivered=True)
    assert granted_at_last(ledgers).starts == 2
    for _ in range(3):
        ledgers.handled.release("queue", "id", ended=False)
        assert ledgers.handled.claim("queue", "id", redelivered=redelivered).starts == 2


def test_who_got_further_begins_the_count_anew(ledgers: Ledgers, url: str) -> None:
    with closing(open_ledger(url, lease=LEASE)) as dead:
        dead.handled.claim("queue", "id", redelivered=True)
        dead.handled.forget_starts("queue", "id")
    assert granted_at_last(ledgers).starts == 1


def test_a_strangers_word_of_getting_further_does_not_count(ledgers: Ledgers, url: str) -> None:
    with closing(open_ledger(url, lease=LEASE)) as dead:
        dead.handled.claim("queue", "id", redelivered=True)
        ledgers.handled.forget_starts("queue", "id")
    assert granted_at_last(ledgers).starts == 2


def test_what_is_done_is_known_to_who_asks(ledgers: Ledgers) -> None:
    claim(ledgers)
    assert not ledgers.handled.is_done("queue", "id")
    ledgers.handled.done("queue", "id")
    assert ledgers.handled.is_done("queue", "id")


def test_one_of_eight_threads_gets_the_claim(ledgers: Ledgers) -> None:
    with ThreadPoolExecutor(8) as pool:
        for key in map(str, range(20)):
            answers = list(pool.map(lambda _, key=key: claim(ledgers, key), range(8)))
            assert sorted(answers) == [Claim.BUSY] * 7 + [Claim.GRANTED]


@pytest.mark.parametrize("key", ["nul\0", "half \ud800", "", "x" * 255])
def test_any_key_can_be_stored(ledgers: Ledgers, key: str) -> None:
    assert claim(ledgers, key) is Claim.GRANTED
    assert claim(ledgers, key) is Claim.BUSY


def test_the_sweep_deletes_old_rows_in_bounded_steps(ledgers: Ledgers) -> None:
    for number in range(6):
        ledgers.handled.done("queue", str(number))
    _age(ledgers, keep="5")
    assert [ledgers.handled.sweep(limit=3) for _ in range(3)] == [3, 2, 0]
    assert claim(ledgers, "5") is Claim.DONE


def test_the_sweep_deletes_claims_that_nobody_took_up_again(ledgers: Ledgers) -> None:
    claim(ledgers)
    ledgers.handled.release("queue", "id")
    assert ledgers.handled.sweep() == 0
    _age(ledgers, keep="")
    assert ledgers.handled.sweep() == 1


def test_a_ledger_that_is_off_grants_everything() -> None:
    ledger: Ledger = NullLedger()
    for _ in range(2):
        assert ledger.claim("queue", "id", redelivered=False) == Claimed(Claim.GRANTED)
        assert ledger.claim("queue", "id", redelivered=True) == Claimed(Claim.UNKNOWN)
        ledger.done("queue", "id")
        ledger.release("queue", "id")


def test_the_database_ledger_is_a_ledger(ledgers: Ledgers) -> None:
    ledger: Ledger = ledgers.handled
    assert isinstance(ledger, DatabaseLedger)


def _age(ledgers: Ledgers, *, keep: str) -> None:
    """Make all rows but *keep* older than any that is kept."""
    older = {name: handled.c[name] - KEPT - 60 for name in ("done_at", "lease_until")}
    ledgers.database.write(
        lambda connection: connection.execute(
            sa.update(handled).where(handled.c.key != keep).values(older)
        )
    )


def test_many_are_claimed_at_once_each_with_its_own_answer(
    ledgers: Ledgers, others: Ledgers
) -> None:
    claim(others, "elsewhere")
    ledgers.handled.done("queue", "done", "done too")
    ledgers.handled.claim("queue", "tried", redelivered=True)
    ledgers.handled.release("queue", "tried")

    keys = ("new", "elsewhere", "done", "tried", "done too", "other")
    answers = ledgers.handled.claim_new("queue", *keys)

    granted, done = Claimed(Claim.GRANTED), Claimed(Claim.DONE)
    assert answers == [granted, None, done, granted, done, granted]
    assert claim(others, "new") is claim(others, "tried") is Claim.BUSY


def test_of_two_copies_claimed_at_once_one_is_granted(ledgers: Ledgers) -> None:
    answers = ledgers.handled.claim_new("queue", "id", "id")
    assert answers == [Claimed(Claim.GRANTED), None]


def test_what_counts_starts_is_not_claimed_ahead(ledgers: Ledgers, url: str) -> None:
    with closing(open_ledger(url, lease=LEASE)) as dead:
        dead.handled.claim("queue", "id", redelivered=True)
    assert granted_at_last(ledgers).starts == 2
    ledgers.handled.release("queue", "id", ended=False)

    assert ledgers.handled.claim_new("queue", "id") == [None]
    assert ledgers.handled.claim("queue", "id", redelivered=True).starts == 2


def test_the_claim_ahead_of_a_dead_owner_counts_as_one_start(
    ledgers: Ledgers, others: Ledgers
) -> None:
    ledgers.handled.claim_new("queue", "id")
    ledgers.handled.close()
    assert granted_at_last(others).starts == 1


def test_what_waits_for_its_handler_keeps_its_claim(url: str, others: Ledgers) -> None:
    keys = [str(number) for number in range(50)]
    with closing(open_ledger(url, lease=RENEWED)) as ledgers:
        ledgers.handled.claim_new("queue", *keys)
        _wait_until_renewed(ledgers)
        assert claim(others, "0") is claim(others, "49") is Claim.BUSY


def test_who_slept_through_its_lease_asks_whether_its_claims_are_its_own_still(
    url: str, others: Ledgers
) -> None:
    with closing(open_ledger(url, lease=1.0)) as slept:
        slept.handled.close()  # renews no more, as if it were frozen
        slept.handled.claim_new("queue", "id", "lost")
        eventually(lambda: claim(others, "lost") is Claim.GRANTED, why="another has taken it")
        assert slept.handled.holds("queue", "id")
        assert claim(others) is Claim.BUSY
        assert not slept.handled.holds("queue", "lost")


def test_while_its_lease_runs_nobody_is_asked_whether_a_claim_is_held(ledgers: Ledgers) -> None:
    ledgers.handled.claim_new("queue", "id")
    ledgers.database.close()
    assert ledgers.handled.holds("queue", "id")


def test_many_are_released_at_once_uncounted(ledgers: Ledgers, others: Ledgers) -> None:
    ledgers.handled.claim_new("queue", "a", "b")
    ledgers.handled.release("queue", "a", "b", ended=False)
    granted = Claimed(Claim.GRANTED)
    assert others.handled.claim_new("queue", "a", "b") == [granted, granted]
