<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** ojs-init speaks a version of the protocol that this library does not know. */
class ProtocolError extends OjsError
{
}
