"""The least that a project needs."""

import os

SECRET_KEY = "for tests"
DEBUG = True
INSTALLED_APPS = ["shop", "ojs_worker.contrib.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
