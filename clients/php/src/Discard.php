<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Throw it to fail the job for good: another attempt would not help. */
class Discard extends Failure
{
    /** @param ?array<string, mixed> $details */
    public function __construct(
        string $message = '',
        string $code = 'handler_error',
        ?string $type = null,
        ?array $details = null,
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message, $code, $type, $details, $previous);
    }

    public function isRetryable(): bool
    {
        return false;
    }
}
