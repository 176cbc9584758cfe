<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The job whose handler runs now: set before its fiber goes on, null when it pauses.
 *
 * @internal
 */
final class CurrentJob
{
    public static ?Job $job = null;
}
