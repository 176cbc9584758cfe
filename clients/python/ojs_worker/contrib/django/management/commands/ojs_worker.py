"""``manage.py ojs_worker``: takes jobs from ojs-init."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import connections
from django.utils.module_loading import autodiscover_modules, import_string

from ojs_worker import Worker, install_logging


class Command(BaseCommand):
    """Runs the worker of the project."""

    help = "Takes jobs from ojs-init, with the handlers in the jobs.py of each app. Run it under ojs-init."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--processes", type=int, help="so many processes; by default one")
        parser.add_argument("--json-log", action="store_true", help="log JSON lines in the format of ojs-init's own log")

    def handle(self, *args: Any, **options: Any) -> None:
        autodiscover_modules("jobs")
        worker: Worker = import_string(getattr(settings, "OJS_WORKER", "ojs_worker.contrib.django.worker"))
        if options["json_log"]:
            install_logging()
        connections.close_all()  # A forked process must not share the connections of its parent.
        worker.run(processes=options["processes"])
