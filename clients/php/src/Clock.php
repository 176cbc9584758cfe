<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function hrtime;

/**
 * Time that never jumps.
 *
 * @internal
 */
final class Clock
{
    /** Seconds from some point in the past. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
