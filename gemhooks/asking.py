"""What asking over plain HTTP may raise where no answer comes, beside HTTPError."""

import http.client

# Nobody there; no HTTP, or an answer cut short; what is no URL after all (UnicodeError is one).
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)
