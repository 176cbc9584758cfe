"""Jobs of a Django project.

Add ``"ojs_worker.contrib.django"`` to ``INSTALLED_APPS``, write handlers in the ``jobs.py`` of any app::

    from ojs_worker.contrib.django import worker

    @worker.job("email.send")
    def send(user_id: int) -> None: ...

and start ``ojs-init -- python manage.py ojs_worker``. A view enqueues by ``send.enqueue(user.id)``, best within
``transaction.on_commit``. ``OJS_WORKER = "project.worker.worker"`` in the settings names a `Worker` of your own.
"""

from __future__ import annotations

from typing import Any

from django.db import close_old_connections, reset_queries

from ojs_worker import Job, Worker

worker = Worker()


def manage_connections(job: Job, call_next: Any) -> Any:
    """A middleware that does around a job what Django does around a request."""
    reset_queries()
    close_old_connections()
    try:
        return call_next()
    finally:
        close_old_connections()


worker.middleware(manage_connections)
