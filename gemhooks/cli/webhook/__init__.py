"""``gemhooks webhook``: webhooks at Gemini's side, and their secrets at ours."""

import typer

from gemhooks.cli.webhook import ensure, manage, ping, rotate

app = typer.Typer(help="Webhooks: create, list, rotate their secrets ...", no_args_is_help=True)

app.command("create")(manage.create)
app.command("list")(manage.list_)
app.command("get")(manage.get)
app.command("update")(manage.update)
app.command("enable")(manage.enable)
app.command("disable")(manage.disable)
app.command("delete")(manage.delete)
app.command("ping")(ping.ping)
app.command("rotate")(rotate.rotate)
app.command("ensure")(ensure.ensure)
