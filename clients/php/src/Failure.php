<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** What a handler throws to fail its job in its own words: Retry or Discard. */
abstract class Failure extends \Exception
{
    public readonly string $errorCode;

    /**
     * @param string $message for a person; without one, the message of $previous
     * @param string $code short and stable; codes of the program begin with "x_"
     * @param ?string $type the error's class; default: the class of $previous, else of this error
     * @param ?array<string, mixed> $details anything more that is JSON, with names as keys
     * @param ?\Throwable $previous the cause; its backtrace is reported
     */
    public function __construct(
        string $message = '',
        string $code = 'handler_error',
        public readonly ?string $type = null,
        public readonly ?array $details = null,
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message, 0, $previous);
        $this->errorCode = $code;
    }
}
