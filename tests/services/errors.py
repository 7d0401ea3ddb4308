"""What can go wrong with a service of the test suite."""


class ServiceError(Exception):
    """A service did not do what a test needs; the message says which and why."""


class MissingServiceError(ServiceError):
    """A program is not installed; the message says what to install."""


class NotOursError(ServiceError):
    """A test wants to stop or kill a service that was given to it from outside."""
