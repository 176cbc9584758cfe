<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** ojs-init has closed the connection. The process must end; nothing reconnects. */
class ConnectionLost extends OjsError
{
}
