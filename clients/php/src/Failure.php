<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function array_is_list;

/** What a handler throws to fail its job in its own words; use Retry or Discard. */
abstract class Failure extends \Exception
{
    /**
     * @param string $message for a person; without one, that of $previous
     * @param string $errorCode short and stable; your own begin with "x_"
     * @param ?string $type the error's class; default: the class of $previous, else of this
     * @param ?array<string, mixed> $details anything more that is JSON, as an object
     * @param ?\Throwable $previous what went wrong; its trace is reported
     */
    public function __construct(
        string $message = '',
        public readonly string $errorCode = 'handler_error',
        public readonly ?string $type = null,
        public readonly ?array $details = null,
        ?\Throwable $previous = null,
    ) {
        if ($details !== null && $details !== [] && array_is_list($details)) {
            throw new \InvalidArgumentException('details is an array with names as keys: it becomes a JSON object');
        }
        parent::__construct($message, 0, $previous);
    }

    /** Whether another attempt may help. */
    abstract public function isRetryable(): bool;
}
