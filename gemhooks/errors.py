"""Every error this project raises on purpose, and what becomes of it.

GemhooksError
├── Misconfigured        the command ends with this one sentence and exit code 2
├── InvalidSignature     the receiver answers 401 and publishes nothing
├── KeysUnavailable      the receiver answers 503: the signature could not be checked
├── Unavailable          a part of ours is away for now: from a handler, an attempt uncounted
│   ├── PublishFailed    the receiver answers 503, so Gemini sends the webhook again
│   └── LedgerUnavailable  the runner puts the message back for a while, uncounted
│       └── Unregistered   ... and a job that was started is not written down: its id is in here
├── Undecodable          the runner dead-letters the message: it can never be read
├── Retry                a handler wants the same message again later
│   ├── NotYet           ... since Gemini has not finished, or does not know the id yet
│   ├── AnswerLost       ... since nobody knows whether Gemini took the request
│   └── Unanswered       ... since a call runs elsewhere, or waits for a person
└── Reject               a handler gives the message up: the runner dead-letters it
    ├── Gone             ... since Gemini says that the resource does not exist
    └── Refused          ... since Gemini refuses our key or our request
"""


class GemhooksError(Exception):
    """Base of all our errors, so that a caller can catch them at once."""


class Misconfigured(GemhooksError):
    """Something a person must change: a setting, a secret, a port, a broker's argument."""


class InvalidSignature(GemhooksError):
    """The request was not signed with any key we hold.

    *reason* is a short fixed word, fit to be a metric label.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class KeysUnavailable(GemhooksError):
    """No key could be had to check a signature with; the sender should try again.

    *reason* is a short fixed word, fit to be a metric label.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unavailable(GemhooksError):
    """A broker or a database does not answer; it will heal without us."""


class PublishFailed(Unavailable):
    """The queue did not confirm the message: it may or may not be in there.

    *reason* is one of ``timeout``, ``nacked``, ``returned``, ``disconnected``, ``blocked``,
    ``too_large``, ``refused`` (an exchange that is missing, or not ours to write to) and
    ``failed``, fit to be a metric label.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason

    @property
    def passes(self) -> bool:
        """The broker is at fault and will heal; False where it is the message."""
        return self.reason in ("timeout", "nacked", "disconnected", "blocked")


class LedgerUnavailable(Unavailable):
    """The database of the ledger does not answer."""


class Unregistered(LedgerUnavailable):
    """A job was started at Gemini, but not written down: *kind* and *id* say which."""

    def __init__(self, kind: str, id: str) -> None:  # noqa: A002 - Google's word
        super().__init__(
            f"The {kind} {id} was started but could not be registered, since the database is away;"
            f" later, run: gemhooks jobs add {id} --kind {kind}"
        )
        self.kind = kind
        self.id = id


class Undecodable(GemhooksError):
    """What was received is not what it should be: a Gemini event, a conversation's message."""


class Retry(GemhooksError):
    """Raised by a handler to see the same message again, *after* seconds if it says so.

    Without *after* it waits as long as the schedule says, but *at_least* so many seconds. *reason*
    is shown in logs and, at the end, in the dead letter. The end is that of the schedule, or comes
    after *most* attempts in all.
    """

    def __init__(
        self,
        reason: str,
        *,
        after: float | None = None,
        at_least: float = 0.0,
        most: int | None = None,
    ) -> None:
        if after is not None and not after >= 0:  # NaN too; a text is a TypeError
            raise ValueError(f"after must be seconds, not {after}")
        if not at_least >= 0:
            raise ValueError(f"at_least must be seconds, not {at_least}")
        super().__init__(reason)
        self.reason = str(reason)  # people pass the exception that they caught
        self.after = after
        self.at_least = at_least
        self.most = most


class NotYet(Retry):
    """What the event speaks of is not there or not finished yet."""


class AnswerLost(Retry):
    """The request was sent and its answer did not come: it may have been carried out."""


class Unanswered(Retry):
    """A conversation's tool call has no answer yet: it runs elsewhere, or waits for a person."""


class Reject(GemhooksError):
    """Raised by a handler when no retry can help."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Gone(Reject):
    """Gemini says that the resource does not exist (any more)."""


class Refused(Reject):
    """Gemini refuses our key or our request: a person must look.

    *status* is HTTP's, but 401 for a key that is invalid or expired: Gemini answers 400 then.
    """

    def __init__(self, reason: str, *, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
