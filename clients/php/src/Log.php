<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The library's own lines in the program's log.
 *
 * @internal
 */
final class Log
{
    /**
     * @param ?object $logger a Psr\Log\LoggerInterface, or anything with its method `log`; null for
     *        standard error
     */
    public function __construct(private readonly ?object $logger)
    {
        if ($logger !== null && !method_exists($logger, 'log')) {
            throw new \InvalidArgumentException('log is a PSR-3 logger, such as Monolog\Logger; '
                . $logger::class . ' has no method log($level, $message, $context)');
        }
    }

    public function write(string $level, string $message, ?\Throwable $error = null): void
    {
        $message = Text::line($message);
        try {
            if ($this->logger === null) {
                $stack = $error === null ? '' : ': ' . Text::stack($error);
                @fwrite(STDERR, "ojs-worker: $level: $message$stack\n");
            } else {
                $this->logger->log($level, $message, $error === null ? [] : ['exception' => $error]);
            }
        } catch (\Throwable) {
            // A log that does not work must not stop a job.
        }
    }

    public function about(Job $job, string $level, string $what, ?\Throwable $error = null): void
    {
        $this->write($level, "job {$job->id} ({$job->type}) $what", $error);
    }
}
