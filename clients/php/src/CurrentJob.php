<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The job whose handler runs now; null between two jobs.
 *
 * @internal
 */
final class CurrentJob
{
    public static ?Job $job = null;
}
