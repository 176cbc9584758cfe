<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** A Logger for libraries that ask for PSR-3. The package psr/log is the program's. */
final class PsrLogger extends \Psr\Log\AbstractLogger
{
    public function __construct(private readonly Logger $log = new Logger('json'))
    {
    }

    public function log($level, string|\Stringable $message, array $context = []): void
    {
        $this->log->log($level, $message, $context);
    }
}
