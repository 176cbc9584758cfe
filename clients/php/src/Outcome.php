<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** What became of a job in `Worker::perform`. */
final class Outcome
{
    /**
     * @param string $outcome ack, fail, or release
     * @param mixed $result of an ack, as the backend would get it: through JSON
     * @param ?array<string, mixed> $error of a fail: message, code, type, retryable, details,
     *        backtrace
     * @param ?string $reason of a release
     * @param list<mixed> $checkpoints what was saved, in order; the last one goes into the next
     *        `perform`
     * @param list<array<string, mixed>> $progress what was said: progress, message, data
     */
    public function __construct(
        public readonly string $outcome,
        public readonly mixed $result,
        public readonly ?array $error,
        public readonly ?string $reason,
        public readonly array $checkpoints,
        public readonly array $progress,
    ) {
    }
}
