"""The app of ``INSTALLED_APPS``."""

from django.apps import AppConfig


class OjsWorkerConfig(AppConfig):
    """The app that brings ``manage.py ojs_worker``."""

    name = "ojs_worker.contrib.django"
    label = "ojs_worker"
