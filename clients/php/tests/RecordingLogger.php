<?php

declare(strict_types=1);

namespace Ojs\Worker\Tests;

/** A PSR-3 logger, as far as the library uses one. */
final class RecordingLogger
{
    /** @var list<array{level: string, message: string, error: ?\Throwable}> */
    public array $records = [];

    public function log(string $level, string $message, array $context = []): void
    {
        $this->records[] = ['level' => $level, 'message' => $message, 'error' => $context['exception'] ?? null];
    }

    /** @return list<string> */
    public function levels(): array
    {
        return array_column($this->records, 'level');
    }
}
