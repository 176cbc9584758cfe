<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function is_finite;
use function round;

/** Throw it to fail the job; the backend's retry policy decides about the next attempt, and when it comes. */
class Retry extends Failure
{
    /**
     * @param ?float $after seconds after which another attempt makes sense. It travels as `details.retry_after_ms`; a
     *                      backend whose policy does not look at it goes by its own times
     * @param ?array<string, mixed> $details
     */
    public function __construct(
        string $message = '',
        ?float $after = null,
        string $code = 'handler_error',
        ?string $type = null,
        ?array $details = null,
        ?\Throwable $previous = null,
    ) {
        self::checkAfter($after);
        if ($after !== null) {
            $details = ['retry_after_ms' => (int) round($after * 1000)] + ($details ?? []);
        }
        parent::__construct($message, $code, $type, $details, $previous);
    }

    /** @internal */
    public static function checkAfter(?float $after): void
    {
        if ($after !== null && (!is_finite($after) || $after < 0 || $after > 1e9)) {
            throw new \InvalidArgumentException("after is a number of seconds from 0 to 1000000000, not $after");
        }
    }

    public function isRetryable(): bool
    {
        return true;
    }
}
