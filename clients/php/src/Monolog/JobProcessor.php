<?php

declare(strict_types=1);

namespace Ojs\Worker\Monolog;

use Ojs\Worker\Job;

/**
 * Puts the job whose handler runs on each record of Monolog 2 or 3: `$monolog->pushProcessor(new
 * JobProcessor())`.
 */
final class JobProcessor
{
    /**
     * @param array<string, mixed>|\ArrayAccess<string, mixed> $record
     * @return array<string, mixed>|\ArrayAccess<string, mixed> the record, with `ojs` and `trace`
     *        in `extra`
     */
    public function __invoke(array|\ArrayAccess $record): array|\ArrayAccess
    {
        $record['extra'] = (Job::current()?->logFields() ?? []) + $record['extra'];
        return $record;
    }
}
