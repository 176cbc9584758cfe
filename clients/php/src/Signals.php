<?php

declare(strict_types=1);

namespace Ojs\Worker;

use function getmypid;
use function pcntl_async_signals;
use function pcntl_signal;
use function pcntl_signal_get_handler;

/**
 * The signals of the worker's processes. A handler of a signal only notes it.
 *
 * @internal
 */
final class Signals
{
    public bool $isTermAsked = false;
    /** @var array<int, callable|int> as they were before */
    private array $before = [];
    private bool $wasAsync = false;

    public function __construct(private readonly bool $handlesTerm)
    {
    }

    /** Before the connection is made. */
    public function install(): void
    {
        $this->wasAsync = pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT, SIGCHLD, SIGPIPE, SIGURG] as $number) {
            $this->before[$number] = pcntl_signal_get_handler($number);
        }
        if ($this->handlesTerm) {
            $ask = function (): void {
                $this->isTermAsked = true;
            };
            // Not restarted: a wait ends when it comes.
            pcntl_signal(SIGTERM, $ask, false);
            pcntl_signal(SIGINT, $ask, false);
        }
        // All that it has to do is to end a wait.
        pcntl_signal(SIGCHLD, static function (): void {
        }, false);
        pcntl_signal(SIGPIPE, SIG_IGN);
    }

    /** In a process of the pool. In a fork of it that a handler made they end the fork, and say nothing to it. */
    public function installInChild(ProcessChannel $channel): void
    {
        $own = getmypid();
        pcntl_signal(SIGTERM, static function () use ($channel, $own): void {
            getmypid() === $own ? $channel->term() : exit(143);
        }, false);
        // A terminal sends it to all of them: the first process says what is to be done.
        pcntl_signal(SIGINT, static function () use ($own): void {
            getmypid() === $own || exit(143);
        });
        pcntl_signal(SIGCHLD, SIG_DFL);
        pcntl_signal(SIGURG, static function () use ($channel, $own): void {
            if (getmypid() === $own) {
                $channel->poll();
            }
        }, false);
    }

    /** When the worker is over. The SIGTERM of ojs-init may be late: it is ignored, unless it was the program's own. */
    public function restore(): void
    {
        foreach ($this->before as $number => $handler) {
            $isDefault = $handler === SIG_DFL || $handler === 0;
            if ($number === SIGTERM && $isDefault && $this->handlesTerm) {
                $handler = SIG_IGN;
            }
            pcntl_signal($number, $handler);
        }
        pcntl_async_signals($this->wasAsync);
    }
}
