<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Throw it to fail the job; the backend's retry policy decides whether and when the next attempt
 * comes.
 */
class Retry extends Failure
{
    /**
     * @param ?float $after seconds after which another attempt makes sense, from 0. It is sent as
     *        `details.retry_after_ms`; a backend whose policy does not use it keeps its own times
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
        if ($after !== null && !($after >= 0 && $after <= 1e9)) {
            throw new \InvalidArgumentException("after is a number of seconds from 0 to 1000000000, not $after");
        }
        if ($after !== null) {
            $details = ['retry_after_ms' => (int) round($after * 1000)] + ($details ?? []);
        }
        parent::__construct($message, $code, $type, $details, $previous);
    }
}
