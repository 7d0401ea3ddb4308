"""``python -m workers``: the built-in consumers."""

from gemhooks import entry, service
from gemhooks.consumers import Consumers
from gemhooks.gemini import Gemini
from gemhooks.results import ResultsStore
from gemhooks.settings import Settings
from workers.calling import function_caller
from workers.wiring import built_in_consumers


def build(parts: service.Parts) -> Consumers:
    settings = parts.settings
    gemini = Gemini(
        settings.gemini_api_key.get_secret_value(),
        base_url=settings.gemini_base_url,
        timeout=settings.gemini_timeout,
    )
    results = ResultsStore(settings.results_url)
    return built_in_consumers(
        gemini.interactions,
        results,
        parts.broker.publisher,
        parts.ledgers.jobs,
        function_caller(parts, gemini),
        conversations=settings.conversations,
    )


def main() -> int:
    return service.run(build, Settings.from_env())


if __name__ == "__main__":
    entry.run(main)
