<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

use Ojs\Worker\Job;
use Ojs\Worker\Text;

/** A log of JSON lines in the shape of docs/logging.md, as a program might have one. */
final class JsonLogger
{
    private const SEVERITIES = ['info' => ['INFO', 9], 'warning' => ['WARN', 13], 'error' => ['ERROR', 17]];

    public function log(string $level, string $message, array $context = []): void
    {
        [$severity, $number] = self::SEVERITIES[$level];
        $job = Job::current();
        if ($number < (self::SEVERITIES[$job?->meta['log_level'] ?? 'info'][1] ?? 9)) {
            return;
        }
        $record = [
            'timestamp' => (new \DateTimeImmutable('now', new \DateTimeZone('UTC')))->format('Y-m-d\TH:i:s.v\Z'),
            'severity' => $severity, 'severity_number' => $number, 'message' => $message,
            'category' => 'worker', 'component' => 'handler',
        ];
        $error = $context['exception'] ?? null;
        if ($error !== null) {
            $record['error'] = ['message' => $error->getMessage(), 'stack' => Text::stack($error)];
        }
        fwrite(STDERR, json_encode($record + ($job === null ? [] : $job->logFields())) . "\n");
    }
}
