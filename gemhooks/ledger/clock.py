"""The time as the database knows it: the clocks of our machines differ, the database has one."""

from typing import Any

from sqlalchemy import Double
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class Now(FunctionElement[float]):
    """Unix seconds at the moment the statement runs."""

    type = Double()
    inherit_cache = True


@compiles(Now, "sqlite")  # type: ignore[no-untyped-call, untyped-decorator, unused-ignore]
def _sqlite(element: Now, compiler: SQLCompiler, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(Now, "postgresql")  # type: ignore[no-untyped-call, untyped-decorator, unused-ignore]
def _postgresql(element: Now, compiler: SQLCompiler, **options: Any) -> str:
    # Not now(), which stands still within a transaction.
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)"
