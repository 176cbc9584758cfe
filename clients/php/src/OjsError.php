<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** What this library throws on its own account. */
class OjsError extends \RuntimeException
{
}
