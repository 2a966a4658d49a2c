"""Where the service listens. A profile overrides conf/default.ini."""

import configparser
import os


def listen_address(profile):
    """Return host and port. The first instance has the port of the profile; each further one is a step above."""
    settings = configparser.ConfigParser()
    settings.read(["conf/default.ini", f"conf/{profile}.ini"])
    listen = settings["listen"]
    if "SERVICE_PORT" in os.environ:
        return listen["host"], int(os.environ["SERVICE_PORT"])
    instance = int(os.environ.get("SERVICE_INSTANCE", "1"))
    return listen["host"], listen.getint("port") + (instance - 1) * listen.getint("step")
