<?php

declare(strict_types=1);

namespace Ojs\Worker\Testing;

use Ojs\Worker\OjsError;

/** There is no `ojs-devserver` on this machine: a test that needs it may be skipped. */
final class DevServerMissing extends OjsError
{
}
