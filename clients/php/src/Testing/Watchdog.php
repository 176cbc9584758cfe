<?php

declare(strict_types=1);

namespace Ojs\Worker\Testing;

use function ceil;
use function function_exists;
use function max;
use function pcntl_alarm;
use function pcntl_async_signals;
use function pcntl_signal;
use function pcntl_signal_get_handler;

use Ojs\Worker\Clock;

/**
 * Ends a handler that hangs in a test. PHP has one thread: an alarm of the system's interrupts it, in PHP code and in waits.
 *
 * @internal
 */
final class Watchdog
{
    /** Seconds that a handler has in a test. */
    public const PATIENCE = 60.0;

    /** @throws HandlerHangs */
    public static function during(\Closure $call, ?float $seconds, string $type): mixed
    {
        if ($seconds === null || !function_exists('pcntl_alarm')) {
            return $call();
        }
        $start = Clock::now();
        $hangs = new HandlerHangs("the handler of $type has not ended after $seconds s (`patience` of perform)");
        $isOver = false;
        $wasAsync = pcntl_async_signals(true);
        $before = pcntl_signal_get_handler(SIGALRM);
        pcntl_signal(SIGALRM, static function () use ($hangs, &$isOver): void {
            $isOver = true;
            // It may catch this one.
            pcntl_alarm(1);
            throw $hangs;
        }, false);
        $left = pcntl_alarm(max(1, (int) ceil($seconds)));
        try {
            $result = $call();
        } finally {
            pcntl_alarm(0);
            pcntl_signal(SIGALRM, $before);
            pcntl_async_signals($wasAsync);
            if ($left > 0) {
                pcntl_alarm(max(1, (int) ($left - (Clock::now() - $start))));
            }
        }
        return $isOver ? throw $hangs : $result;
    }
}
