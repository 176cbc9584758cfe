"""A client that is broken: it says that it is ready, closes its connection and goes on without one."""

import os
import socket
import time

link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["OJS_SOCKET"])
link.recv(65536)
link.sendall(b'{"type":"ready","protocol":1,"concurrency":1}\n')
time.sleep(1)
link.close()
time.sleep(3600)
