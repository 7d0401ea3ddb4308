"""Of what a dead process left behind, where no ledger says what it had begun."""

from gemhooks.messages import Claim, Message
from gemhooks.runner import Work
from gemhooks.suspects import Suspects
from tests.gemhooks.test_runner import KeptDelivery
from tests.services.waiting import eventually


def works(count: int) -> list[Work]:
    return [Work(KeptDelivery(Message(f"msg_{n}", "t", b"{}"))) for n in range(count)]


def ended(work: Work) -> None:
    assert work.then is not None
    work.then()


def test_the_first_of_those_that_come_together_pays_and_the_others_run_one_by_one() -> None:
    begun = list[Work]()
    suspects = Suspects(begun.append)
    three = works(3)

    for each in three:
        suspects.put(each)

    assert begun == three[:1]
    ended(three[0])
    eventually(lambda: begun == three[:2], why="the second begins")
    ended(three[1])
    eventually(lambda: begun == three, why="the third begins")
    claims = [each.claimed.claim for each in three if each.claimed]
    assert claims == [Claim.UNKNOWN, Claim.GRANTED, Claim.GRANTED]


def test_what_was_not_begun_is_left_to_who_stops_it() -> None:
    begun = list[Work]()
    suspects = Suspects(begun.append)
    three = works(3)
    for each in three:
        suspects.put(each)

    assert suspects.stop() == three[1:]
    assert begun == three[:1]
