<?php

declare(strict_types=1);

namespace Ojs\Worker\Testing;

use Ojs\Worker\OjsError;

/** A handler under `perform` has not ended in time. */
final class HandlerHangs extends OjsError
{
}
