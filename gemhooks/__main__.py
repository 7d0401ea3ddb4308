"""``python -m gemhooks`` is the command ``gemhooks``."""

import signal


def main() -> None:
    """Run the command. Ctrl-C while it is still loaded ends it without a traceback."""
    on_ctrl_c = signal.getsignal(signal.SIGINT)
    if on_ctrl_c is signal.default_int_handler:  # not ignored, as nohup does
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gemhooks import cli  # noqa: PLC0415 - see above

    signal.signal(signal.SIGINT, on_ctrl_c)
    cli.main()


if __name__ == "__main__":
    main()
