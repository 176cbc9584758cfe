"""A Django project whose jobs `manage.py ojs_worker` runs, towards a socket as ojs-init has it."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.fake import SocketTest, job  # noqa: E402

MANAGE = [sys.executable, str(HERE / "project" / "manage.py")]


class Django(SocketTest):
    def setUp(self) -> None:
        super().setUp()
        self.database = f"{self.place}/db.sqlite3"
        env = {**os.environ, "DATABASE": self.database}
        subprocess.run([*MANAGE, "migrate", "--run-syncdb", "--verbosity", "0"], env=env, check=True)

    def test_the_jobs_of_its_apps_run(self) -> None:
        process = self.start("", *MANAGE, "ojs_worker", "--json-log", DATABASE=self.database)
        connection = self.accept()
        self.assertEqual(sorted(connection.ready["types"]), ["order.count", "order.place", "order.state"])
        connection.send(job("j1", "order.place", "book", 2))
        self.assertEqual(connection.expect("ack", "j1")["result"], {"id": 1})
        connection.send(job("j2", "order.count"))
        self.assertEqual(connection.expect("ack", "j2")["result"], 2)
        connection.send(job("j3", "order.state"))
        # The connection of the thread was closed behind the job before, and queries are counted for each job.
        self.assertEqual(connection.expect("ack", "j3")["result"], {"is_open": False, "queries": 0})
        connection.terminate()
        self.ends(process, 0)

    def test_several_processes_share_no_connection(self) -> None:
        process = self.start("", *MANAGE, "ojs_worker", "--processes", "2", DATABASE=self.database)
        parent = self.accept(is_parents=True)
        children = [self.accept(), self.accept()]
        parent.terminate()
        for connection in children:
            connection.send(job("j", "order.count"))
            self.assertEqual(connection.expect("ack", "j")["result"], 0)
            connection.terminate()
        self.ends(process, 0)
